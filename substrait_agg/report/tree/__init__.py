"""A plan's message as a tree for people."""
