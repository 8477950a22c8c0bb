"""The operator that keeps the newest row per key and passes on what changes."""
