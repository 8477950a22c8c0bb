"""Compute operators again from their input, and emit the difference to what a view shows."""
