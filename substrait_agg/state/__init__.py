"""State storage: trees of immutable sorted Arrow runs.

The package implements runs of sorted rows, lookups, range scans and merges. Read `run` first, then
`tree` and `ordered`.
"""
