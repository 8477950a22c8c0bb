"""Read SQL scripts: their tokens and statements, the views of pipelines and the order to plan them.

Read `script`, which splits text into statements; then `pipeline`, which orders and plans the views. What a
query means is decided by a `planner.SqlPlanner`, which is given.
"""
