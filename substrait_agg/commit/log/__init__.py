"""The log of versions.

Publish a snapshot, read it, own the checkpoint, delete what no version needs. Read `checkpoint`
first.
"""
