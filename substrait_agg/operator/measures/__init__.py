"""The values of measures.

From exact digits or the entries of a tree to the declared type. Read `finalize` and
`multiset_aggregates` first.
"""
