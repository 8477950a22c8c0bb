"""The top-k operator: the rows of a rank range of an ordered multiset, per group or of all rows.

Rows with their weights come in, the changes of the rows in the range go out. Read `spec`, then
`step`, then `window`.
"""
