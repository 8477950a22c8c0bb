"""Exact numbers of a batch.

Partial sums as digits, limbs, Arrow columns as integers.
"""
