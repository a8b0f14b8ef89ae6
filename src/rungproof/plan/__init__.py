"""What is to be measured, in which order, on which servers, and what of it is still missing. Nothing here starts anything."""
