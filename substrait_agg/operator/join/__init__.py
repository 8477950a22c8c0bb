"""The join of two relations by key, maintained from the changes of both.

`spec` describes a join, `step` applies the changes of a batch. Rows of each side come in through a
port, and the joined rows go out as changes.
"""
