"""Sources: turn a SPEC or a DataFrame into a stream of the plan's columns with a weight per row.

Read `specs`, then `open`, then `readers`.
"""
