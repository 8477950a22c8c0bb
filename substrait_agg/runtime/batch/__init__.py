"""One batch after the other: its settings, the run of its operators, its version."""
