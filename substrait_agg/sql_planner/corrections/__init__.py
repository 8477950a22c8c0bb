"""Correct the plans that DataFusion writes: a plan and its query in, the plan that the query means out.

Read `plan`, which applies all corrections; then one module per subject: `expressions` and the
`struct_fields` in them, `not_in`, `set_operations`. All call functions by `functions`.
"""
