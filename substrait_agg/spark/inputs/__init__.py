"""Inputs of operators.

The sources of a flow come in, the rows of every operator of a batch go out. Read `inputs`, then
`stream` and `linear_steps`; the files about event time come after.
"""
