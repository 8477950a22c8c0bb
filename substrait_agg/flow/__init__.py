"""The dataflow of a plan.

A bound plan comes in; a graph of incremental operators, connected by linear steps, goes out. Read
`graph.graph` and `graph.nodes` first, then `passes.lower`.
"""
