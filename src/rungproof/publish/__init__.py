"""Tables and pages: pure functions of a campaign's records."""
