"""Evaluate bound expressions on Arrow columns, with the results of their Spark translation.

In: expressions of `bind.bound`, columns with the types of `plan.arrow`. Out: one Arrow array per
expression. Only expressions for which Arrow or numpy give exactly Spark's values are supported;
`expressions.supports` decides it from the plan alone. Read `expressions`, then `kernels` (what a
table of functions contains), then the tables: `comparisons`, `numbers`, `texts`, `times`;
`conversions` has the casts, `steps` the linear steps, `hashes` Spark's hashes of keys.
"""
