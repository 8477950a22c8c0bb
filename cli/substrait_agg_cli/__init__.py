"""Implement the command `substrait-agg`."""

from __future__ import annotations

import time

STARTED = time.monotonic()
"""Time at which the program began to load."""
