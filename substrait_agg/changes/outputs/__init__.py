"""The outputs of a run.

`outputs` has the table of kinds, `sinks` the protocol and the text outputs, `versioned_sink` the
frame of the outputs to tables and topics.
"""
