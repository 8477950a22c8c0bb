"""Turn the analyzed logical plan of a Spark DataFrame or of SQL text into a Substrait plan.

`frames` and `sql` are the entries, and `plan` turns one tree. `analyzed` has the tree that
``Catalyst.java`` writes as JSON. `translation` maps types, expressions and relations.
"""
