"""The tool `state verify`.

Read a whole checkpoint and report all differences from what was written. Read `verify` first.
"""
