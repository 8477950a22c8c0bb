"""Computation of measure values.

The input is the exact digits of accumulators or the live entries of a tree. The output is an Arrow
column of the declared type. Read `finalize` and `multiset_aggregates` first.
"""
