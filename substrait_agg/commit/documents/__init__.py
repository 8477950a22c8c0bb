"""The documents of a checkpoint.

Sealed JSON with a format, the checkpoint's id and a checksum. Read `envelope` first, then
`snapshot` and `plan_document`.
"""
