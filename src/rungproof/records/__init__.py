"""File formats, states, ids and errors. Standard library only; imports no other room."""
