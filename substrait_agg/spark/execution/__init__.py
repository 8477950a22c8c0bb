"""The execution of an operator on Spark.

Partial sums, exchange, one task per hash range. Read `operator_job` first, then
`partial_aggregation` and `task_runner`. `strategy` and `driver` choose the way a batch is computed.
"""
