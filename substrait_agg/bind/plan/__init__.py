"""Bind whole plans.

A `DecodedPlan` comes in, a `BoundPlan` or all its problems go out. Read `binder` first, then
`relations`. `fingerprint` identifies what a plan computes; `dialect` says what is supported.
"""
