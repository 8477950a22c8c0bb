"""Inputs of operators: turn the sources of a flow into the input rows of each operator per batch.

Read `inputs`, then `linear_steps`, then the modules for event time.
"""
