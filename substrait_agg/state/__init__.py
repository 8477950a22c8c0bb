"""Ordered columnar trees.

Runs of sorted rows, lookups, range scans, merges. Read `run` first, then `tree` and `ordered`.
"""
