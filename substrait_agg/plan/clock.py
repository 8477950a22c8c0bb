"""The table that tells the time of a version."""

from __future__ import annotations

CLOCK_TABLE = ("system", "clock")
"""Its name, which a query may read like that of any table."""
CLOCK_COLUMNS = ("now", "today")
"""Its columns: the instant of the version, and the date in the zone of its source."""
