"""Spark's own logs.

What a query has planned and read, as far as versions depend on it.
"""
