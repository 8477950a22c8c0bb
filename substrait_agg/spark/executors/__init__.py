"""Executors: what computes the operators of a batch.

`executor` declares the interface that `query` uses. `spark_executor` implements it with Spark jobs,
`local_executor` in this process.
"""
