"""Names of columns that travel with the rows of an operator."""

from __future__ import annotations

WEIGHT = "__weight"
"""The int64 weight column: of inputs (a DataFrame that has it is read as weighted rows) and of changes."""

ROWS = "__rows"
"""How many input rows a delta row is the sum of; int64."""

POSITION = "__at"
"""The int64 position of a row in its batch, where a measure depends on the order of arrival."""

PORT = "__port"
"""Of which input port of its operator a row is, where that has several; int8."""

TIME = "__time"
"""The event time of a row in microseconds since 1970, int64, of a group the greatest; null: the row has none."""

END = {"first": "lo", "last": "hi"}
"""What the column of the least or greatest value of an argument begins with; its number follows."""

LAST_POSITION = "__at_last"
"""The same of the last of several equal rows that became one; `POSITION` is that of the first then."""

# --- trees ------------------------------------------------------------------------------------

GROUP = "group"
"""The tree of groups by key."""

PENDING = "pending"
"""The tree of groups that wait to be emitted."""

CLOSED = "closed"
"""The tree of groups that are finished: what the view shows of them, and nothing that could change it."""


def entries_tree(ordinal: int) -> str:
    """Return the name of an ordered tree of entries of groups."""
    return f"tree{ordinal}"
