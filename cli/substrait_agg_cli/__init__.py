"""The command `substrait-agg`."""

from __future__ import annotations

import time

STARTED = time.monotonic()
"""When the program began, as far as it knows."""
