"""Operator that assigns rows to sessions, upstream of an aggregate that groups by session."""
