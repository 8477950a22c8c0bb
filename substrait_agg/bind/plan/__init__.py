"""Bind whole plans.

The input is a `DecodedPlan`. The result is a `BoundPlan`, or all problems of the plan. Read
`binder` first, then `relations`. `fingerprint` identifies what a plan computes. `dialect` lists
what is supported.
"""
