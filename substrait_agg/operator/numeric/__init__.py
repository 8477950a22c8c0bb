"""Exact arithmetic on the numbers of a batch.

The package converts partial sums to digits, values to weighted limbs, and Arrow columns to
integers.
"""
