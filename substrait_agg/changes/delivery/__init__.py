"""Delivery of committed versions to outputs.

Each output has a worker, and a cursor with the last delivered version. Read `output_worker` first.
"""
