"""The tool `state rollback`.

Roll a checkpoint back to a version, together with its outputs. Read `rollback` first.
"""
