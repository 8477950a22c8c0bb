"""Scalar functions as Spark columns.

`table` maps each function to its builder. The other modules contain the builders of a family each.
"""
