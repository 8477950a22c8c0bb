"""The tool `state rollback`.

Roll a checkpoint back to a version, together with its outputs and Spark's logs. Read `rollback`
first.
"""
