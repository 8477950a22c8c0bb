"""Exact arithmetic on whole columns.

Balanced digits of base 2^32, roots, quotients.
"""
