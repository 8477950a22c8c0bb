"""The operator that assigns rows to sessions, ahead of an aggregate that groups by them."""
