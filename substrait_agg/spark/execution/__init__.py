"""Execution of an operator on Spark.

Prepared rows come in; state runs and change files go out. Rows pass through partial sums, an
exchange, and one task per hash range. Read `operator_job` first, then `partial_aggregation` and
`task_runner`. `strategy` and `driver` choose how a batch is computed.
"""
