"""Refresh policies: which views a batch maintains by changes, and which it computes again.

`policies` reads the option, `ownership` maps operators to views, `checks` refuses policies that a
flow cannot follow, and `cost_model` chooses for ``auto``. Nothing here uses Spark.
"""
