"""The Spark data source ``substrait_agg``: views and their changes as DataFrames.

Spark finds it as ``pyspark_substrait_agg.DefaultSource``, a package in ``shim/``. `options`
checks the options, `planning` makes the `partitions`, `stream` follows the changes, and `source` is
what Spark calls.
"""
