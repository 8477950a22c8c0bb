"""Scalar functions.

`catalogue` has a row per function, `refused` those that Spark cannot compute exactly.
"""
