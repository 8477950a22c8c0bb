"""What `substrait-agg state` does.

List, show, verify, go back, vacuum. `state` is the entry point.
"""
