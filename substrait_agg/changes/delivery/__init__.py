"""Delivery of committed versions to outputs.

A worker per output, a cursor that says how far it is. Read `output_worker` first.
"""
