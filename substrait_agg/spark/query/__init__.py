"""A running query.

Options come in; a handle goes out. Read `start`, then `handle` and `microbatch`.
"""
