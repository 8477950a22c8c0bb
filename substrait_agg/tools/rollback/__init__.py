"""`state rollback`.

Go back to a version, cut outputs and Spark's logs. Read `rollback` first.
"""
