"""The documents of a checkpoint.

Documents are sealed JSON with a format, the id of the checkpoint and a checksum. Read `envelope`
first, then `snapshot` and `plan_document`.
"""
