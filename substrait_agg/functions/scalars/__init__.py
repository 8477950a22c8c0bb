"""Define the scalar functions.

`catalogue` has a row per function. `refused` lists functions that Spark cannot compute exactly.
"""
