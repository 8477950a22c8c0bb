"""Tasks: each turns the partial sums of one hash range into runs and change files.

Read `task_plan`, then `task`.
"""
