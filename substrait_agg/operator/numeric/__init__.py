"""Exact arithmetic on the numbers of a batch.

The package converts partial sums to digits and Arrow columns to integers.
"""
