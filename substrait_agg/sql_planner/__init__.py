"""Plan SQL with DataFusion: SQL text and the schemas of its tables in, a Substrait plan out.

Read `query`, which reads the text; then `planning`, which plans one query; then `session`, the
settings of DataFusion; then the corrections of its plans in `corrections`.

Importing this package does not import DataFusion. `planning` imports it when a query is planned.
"""
