"""Refresh policies: which views a batch maintains by changes, and which it computes again.

`policies` reads the option, `ownership` says which operators belong to a view, `checks` says what
a policy refuses, and `cost_model` chooses for ``auto``. Nothing here uses Spark.
"""
