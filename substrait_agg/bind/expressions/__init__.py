"""Bind expressions: derive types bottom-up, resolve functions and make conversions explicit.

Read `binder` first, then `calls`, `signatures` and `conversions`.
"""
