"""Admission control: limit what a batch reads, so that its duration stays under a target.

`controller` decides the limits. It is a pure function of sizes: bytes, offsets of a message log, or
anything else that a source can limit. `read_limits` sets the limits on the sources of Spark's
query. Read them in this order.
"""
