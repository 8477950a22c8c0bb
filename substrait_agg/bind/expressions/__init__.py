"""Bind expressions.

Types bottom-up, functions resolved, conversions explicit. Read `binder` first, then `calls`,
`signatures` and `conversions`.
"""
