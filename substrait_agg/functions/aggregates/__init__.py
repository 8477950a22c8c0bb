"""Define the aggregate functions.

`catalogue` has a row per function, `kinds` a row per maintained measure. `user` defines the
measures of an embedding program.
"""
