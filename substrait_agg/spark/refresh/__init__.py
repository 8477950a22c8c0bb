"""Compute operators again from all rows of their inputs, in a batch of a run.

`whole_input` provides the rows that the sources have given so far, `chooser` decides per batch,
`rebuild` makes the changes of operators that are computed again.
"""
