"""Bind Aggregate relations: grouping sets, keys and measures.

Read `binder` first, then `candidate` (a measure before it is checked), `arguments`, `order`,
`signature` and `rules`.
"""
