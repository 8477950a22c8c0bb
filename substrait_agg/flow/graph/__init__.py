"""The graph of a plan.

It consists of nodes, the linear steps between them, and the state of each node. Read `graph` first,
then `nodes`, then the modules of the kinds of nodes.
"""
