"""Names of the internal columns of an operator's rows, and of its trees."""

from __future__ import annotations

WEIGHT = "__weight"
"""The weight of an input row or of a change (int64).

An input DataFrame with this column is read as weighted rows.
"""

VERSION = "__version"
"""The version of a change (int64)."""

ROWS = "__rows"
"""The number of input rows that a delta row sums up (int64)."""

LARGE = "__large"
"""The number of input rows of a delta row whose weight is larger than the way of summing bears.

Delta rows have this column (int64) if Spark sums rows with arbitrary weights.
"""

POSITION = "__at"
"""The position of a row in its batch (int64), for measures that depend on the order of arrival."""

PORT = "__port"
"""The input port of a row (int8), for operators with several ports."""

TIME = "__time"
"""The event time of a row in microseconds since 1970 (int64), or the greatest one of a group.

Null means that the row has no event time.
"""

END = {"first": "lo", "last": "hi"}
"""Prefixes of the columns with the least and greatest value of an argument.

The number of the argument follows the prefix.
"""

LAST_POSITION = "__at_last"
"""The position of the last of several equal rows that were combined into one row (int64).

`POSITION` is then the position of the first of them.
"""

# --- trees ------------------------------------------------------------------------------------

GROUP = "group"
"""The tree with one row per group, by key."""

PENDING = "pending"
"""The tree of the groups that wait to be emitted."""

CLOSED = "closed"
"""The tree of closed groups: the row that the view shows of each."""


def entries_tree(ordinal: int) -> str:
    """Return the name of an ordered tree of entries of groups."""
    return f"tree{ordinal}"


def arrangement_tree(port: int) -> str:
    """Return the name of the arrangement of the rows that come in through a port."""
    return f"rows{port}"
