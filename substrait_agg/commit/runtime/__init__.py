"""Tasks: the partial sums of one hash range come in, runs and change files go out.

Read `task_plan`, then `task`.
"""
