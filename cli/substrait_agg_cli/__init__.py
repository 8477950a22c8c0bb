"""The command `substrait-agg`."""
