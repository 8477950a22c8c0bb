"""The pending tree: groups that wait to be emitted, and since when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.operator.aggregate.groups import BatchGroups
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.names import PENDING, ROWS
from substrait_agg.state.keys.rows import Mask
from substrait_agg.state.merging import rows_in
from substrait_agg.state.run import HASH_MAX, RunFile
from substrait_agg.state.tree import KEYS_FROM, KeyedTree, dead_rows

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PendingStatus:
    """The pending status of the groups of a slice.

    Attributes:
        is_pending: mask of the groups that waited before.
        rows: number of rows of each group since it was last emitted, including this slice.
        since: instant of the last of these rows.
        fired: mask of the groups to emit now.
        has_rows: mask of the groups with rows in this slice or that waited; the others are only
            candidates for eviction.
    """

    is_pending: Mask
    rows: Int64s
    since: Int64s
    fired: Mask
    has_rows: Mask

    def also(self, fired: Mask) -> PendingStatus:
        """Return a copy that emits further groups."""
        return replace(self, fired=self.fired | fired)

    @property
    def emitted(self) -> int:
        """Return the number of groups to emit."""
        return int(np.count_nonzero(self.fired))

    @property
    def more(self) -> int:
        """Return the change of the number of waiting groups."""
        waits = int(np.count_nonzero(self.has_rows & ~self.fired))
        return waits - int(np.count_nonzero(self.is_pending))


def pending_schema(keys: Sequence[pa.DataType]) -> pa.Schema:
    """Return the columns of the pending tree: ``hash``, ``dead``, keys, ``rows`` and ``since``."""
    return pa.schema(
        [
            pa.field("hash", pa.uint64()),
            pa.field("dead", pa.bool_()),
            *(pa.field(f"k{i}", t) for i, t in enumerate(keys)),
            pa.field("rows", pa.int64()),
            pa.field("since", pa.int64()),
        ]
    )


def find_waiting(
    slice_: pa.Table, groups: BatchGroups, keyed: Callable[[str], KeyedTree], emission: Emission
) -> PendingStatus:
    """Return the pending status of the groups of a slice.

    Args:
        slice_: delta rows, with ``__rows`` unless all groups are emitted.
        groups: their groups.
        keyed: opens a tree before this batch by name.
        emission: the rules.
    """
    was_pending = np.zeros(groups.count, np.bool_)
    rows, since = np.zeros((2, groups.count), np.int64)
    if emission.all:
        return PendingStatus(was_pending, rows, since, ~was_pending, ~was_pending)
    lookup = keyed(PENDING).lookup(groups.hashes, groups.keys)
    alive = ~dead_rows(lookup.rows)
    at = lookup.positions[alive]
    was_pending[at] = True
    rows[at] = lookup.rows.column("rows").to_numpy()[alive]
    since[at] = lookup.rows.column("since").to_numpy()[alive]
    new_rows = _rows_of(slice_, groups)
    rows += new_rows
    since[new_rows > 0] = emission.now
    touched = was_pending | (new_rows > 0)
    return PendingStatus(
        was_pending, rows, since, touched & emission.fires(groups.keys, rows, since), touched
    )


def _rows_of(slice_: pa.Table, groups: BatchGroups) -> Int64s:
    counts = slice_.column(ROWS).fill_null(0).to_numpy()
    return np.bincount(groups.of_row, weights=counts, minlength=groups.count).astype(np.int64)


def pending_rows(groups: BatchGroups, pending: PendingStatus) -> pa.Table:
    """Return the rows to add to the pending tree; groups that no longer wait are dead."""
    to_write = np.flatnonzero((pending.has_rows & ~pending.fired) | pending.is_pending)
    columns = [
        pa.array(groups.hashes),
        pa.array(pending.fired),
        *groups.keys,
        pa.array(pending.rows),
        pa.array(pending.since),
    ]
    schema = pending_schema([k.type for k in groups.keys])
    return pa.Table.from_arrays(columns, schema=schema).take(pa.array(to_write))


def due(
    pending: KeyedTree, emission: Emission, low: int = 0, high: int = HASH_MAX
) -> Iterator[pa.Table]:
    """Yield hash and keys of the groups in a hash range that are emitted without new rows."""
    if not emission.takes_waiting:
        return
    # Only a new row of a group can complete a count.
    rules = replace(emission, rows=0)
    for part in pending.scan(low, high):
        keys = [c.combine_chunks() for c in part.columns[KEYS_FROM:-2]]
        rows, since = (part.column(name).to_numpy() for name in ("rows", "since"))
        fired = rules.fires(keys, rows, since)
        yield part.drop_columns(["dead", "rows", "since"]).filter(pa.array(fired))


def most_due(runs: Sequence[RunFile], emission: Emission, low: int, high: int) -> float:
    """Estimate the maximal number of groups of `due`, from the runs of the pending tree."""
    return sum(rows_in(run, low, high) for run in runs) if emission.takes_waiting else 0


def oldest(pending: KeyedTree) -> int | None:
    """Return the earliest ``since`` of all waiting groups; None if no group waits."""
    columns = (part.column("since").to_numpy() for part in pending.scan())
    return min((int(since.min()) for since in columns if len(since)), default=None)
