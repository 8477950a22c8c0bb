"""Scalar functions as Spark columns.

`table` maps each function to its builder; the other files hold the builders by family.
"""
