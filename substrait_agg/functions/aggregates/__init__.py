"""Aggregate functions.

`catalogue` has a row per function, `kinds` a row per measure that is maintained, `user` the
measures of an embedding program.
"""
