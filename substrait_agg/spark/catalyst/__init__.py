"""Turn the analyzed logical plan of a Spark DataFrame into a Substrait plan.

`analyzed` reads Spark's JSON of the plan into a tree. `types` maps types, `expressions` and
`aggregates` map expressions, and `relations` maps relations. Only `analyzed.analyzed_plan` calls the
JVM; the rest works on the tree.
"""
