"""The graph of a plan.

Nodes, the linear steps between them, what each node keeps. Read `graph` first.
"""
