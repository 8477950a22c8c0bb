"""The dataflow of a plan.

A bound plan comes in; a graph of incremental operators and the linear steps between them goes out.
Read `graph.graph` and `graph.nodes` first, then `passes.lower`.
"""
