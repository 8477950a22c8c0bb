"""The window operator: values of rows that are computed from the rows around them in an order.

Rows with their weights come in, the changes of the rows with their values go out. The state is that
of a top-k operator: the rows of each partition, in order. Read `spec`, `frames`, `values`, then
`step`.
"""
