"""Operator that keeps the newest row per key and emits the resulting changes."""
