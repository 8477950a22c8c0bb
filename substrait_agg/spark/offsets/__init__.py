"""Spark's own logs: which input a query has planned and read, as far as versions depend on it."""
