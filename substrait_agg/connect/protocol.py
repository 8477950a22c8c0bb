"""What a connector does: one source with one position for all its tables that a run reads.

A run asks for the latest position, reads what lies between the last version's position and that one,
commits the rows with the new position in one snapshot, and then says so. It is exactly once because:

1. `read(after, until)` is a function of its arguments as long as nothing after `after` was given up.
2. A source may give up only what lies before a position that `committed` has named.
3. A killed run leaves the previous snapshot or the new one. Both have the position of their own state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

WEIGHT = "__weight"
"""Column of `Connector.read`: 1 for a row that is new, -1 for a row that is gone (int64)."""


CLOCK_TABLE = ("system", "clock")
"""The table that tells the time of a version (`substrait_agg.connect.clock`)."""
CLOCK_COLUMNS = ("now", "today")
"""Its columns: the instant of the version, and the date in the zone of its source."""


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table as the user names it: ``FORMAT:LOCATION?key=value&...``.

    Attributes:
        table: the name of the table in the plan.
        location: what follows the format.
        options: the keys and values; passwords may be among them.
    """

    table: str
    location: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConnectedTable:
    """A table of a connector.

    Attributes:
        schema: all columns that can be read, in the types in which `read` gives them, without the weight.
        keys: empty if a changed row comes as the old row with weight -1 and the new one with weight 1.
            Otherwise the columns that identify a row: a changed row comes as the new row alone, and a
            deleted one as its key with weight -1.
        changes: how changes come and what that costs, as a phrase for `explain`.
    """

    schema: pa.Schema
    keys: tuple[str, ...]
    changes: str


class Connector(Protocol):
    """A source. One thread uses it at a time.

    Every method may raise `InputRefused` or `RunFailed` with a code; both say what to do.
    """

    def table(self, name: str) -> ConnectedTable:
        """Return what is known of a table, by its name in the plan. Writes nothing anywhere."""

    def begin(
        self, columns: Mapping[str, Sequence[str]], checkpoint: str, position: str | None
    ) -> None:
        """Begin to read.

        Args:
            columns: the columns to read of each table, by its name in the plan.
            checkpoint: id of the checkpoint, the same for all its runs.
            position: the position of the newest version; None before the first one that has read.

        Raises:
            InputRefused: SOURCE_RECREATED, SOURCE_POSITION_GONE: the source cannot go on from there.
        """

    def latest(self, after: str | None, most_bytes: float) -> str | None:
        """Return the position up to which the next batch reads; None if there is nothing new.

        It never divides a transaction of the source. Before the first batch it is that of a snapshot of
        all tables at one instant.

        Args:
            after: the position of the newest version.
            most_bytes: about the most bytes to read; infinite for no limit.
        """

    def read(self, after: str | None, until: str) -> Mapping[str, pa.Table]:
        """Return the rows between two positions, by table: the columns of `begin`, then `WEIGHT`.

        Rows of one key are in the order of their changes. A table without rows may be left out.
        """

    def committed(self, position: str) -> None:
        """Note that a version with this position exists. What lies before it may be given up."""

    def lag(self) -> Mapping[str, float]:
        """Return how far the last position is behind the source: measure -> value, such as ``bytes``."""

    def close(self) -> None:
        """Release connections. What was not committed is read again by the next run."""
