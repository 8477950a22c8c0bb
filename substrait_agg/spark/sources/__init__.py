"""Sources: a SPEC or a DataFrame comes in, a stream of the plan's columns with weights goes out.

Read `specs`, then `open`, then `readers`.
"""
