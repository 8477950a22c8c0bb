"""Compute the content of the newest version again, from what other operators store.

`check` goes through the operators of the flow. `outputs` computes the output rows of an operator
from its trees, `reference_join` those of a join, and `inputs` turns them into the input rows of the
operator above. `states` compares the input with what that operator stores.
"""
