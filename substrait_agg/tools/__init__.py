"""The tools of `substrait-agg state`: list, show, verify, roll back, vacuum.

`state` is the entry point.
"""
