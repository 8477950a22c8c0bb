"""`state verify`.

Read a whole checkpoint and report everything that differs from what was written. Read `verify`
first.
"""
