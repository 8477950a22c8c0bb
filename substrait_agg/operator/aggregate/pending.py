"""The pending tree: groups that wait to be emitted, and how long they have waited."""

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
from substrait_agg.state.tree import KEYS_FROM, Tree, dead_rows

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The groups of a slice as the emission sees them.

    Attributes:
        known: which of them waited before.
        rows: how many rows each has had since it was last emitted, those of this slice included.
        since: when the last of them came.
        fired: which are emitted now.
        touched: which have rows in this slice or waited; the others are looked at only to be let go.
    """

    known: Mask
    rows: Int64s
    since: Int64s
    fired: Mask
    touched: Mask

    def also(self, fired: Mask) -> Waiting:
        """With more groups that are emitted."""
        return replace(self, fired=self.fired | fired)

    @property
    def emitted(self) -> int:
        """How many groups are emitted."""
        return int(np.count_nonzero(self.fired))

    @property
    def more(self) -> int:
        """How many groups wait that did not before, less those that do not wait any more."""
        waits = int(np.count_nonzero(self.touched & ~self.fired))
        return waits - int(np.count_nonzero(self.known))


def pending_schema(keys: Sequence[pa.DataType]) -> pa.Schema:
    """Columns of the pending tree: ``hash``, ``dead``, keys, ``rows`` and ``since``."""
    return pa.schema(
        [
            pa.field("hash", pa.uint64()),
            pa.field("dead", pa.bool_()),
            *(pa.field(f"k{i}", t) for i, t in enumerate(keys)),
            pa.field("rows", pa.int64()),
            pa.field("since", pa.int64()),
        ]
    )


def waiting(
    slice_: pa.Table, groups: BatchGroups, keyed: Callable[[str], Tree], emission: Emission
) -> Waiting:
    """What the groups of a slice wait with, and whether they are emitted.

    Args:
        slice_: delta rows, with ``__rows`` unless all groups are emitted.
        groups: their groups.
        keyed: gives the trees before this batch by name.
        emission: the rules.
    """
    known = np.zeros(groups.count, np.bool_)
    rows, since = np.zeros((2, groups.count), np.int64)
    if emission.all:
        return Waiting(known, rows, since, ~known, ~known)
    found = keyed(PENDING).lookup(groups.hashes, groups.keys)
    held = ~dead_rows(found.rows)
    at = found.positions[held]
    known[at] = True
    rows[at] = found.rows.column("rows").to_numpy()[held]
    since[at] = found.rows.column("since").to_numpy()[held]
    came = _rows_of(slice_, groups)
    rows += came
    since[came > 0] = emission.now
    touched = known | (came > 0)
    return Waiting(known, rows, since, touched & emission.fires(groups.keys, rows, since), touched)


def _rows_of(slice_: pa.Table, groups: BatchGroups) -> Int64s:
    came = slice_.column(ROWS).fill_null(0).to_numpy()
    return np.bincount(groups.of_row, weights=came, minlength=groups.count).astype(np.int64)


def pending_rows(groups: BatchGroups, held: Waiting) -> pa.Table:
    """Rows to add to the pending tree: who waits now, and, as dead, who waits no longer."""
    kept = np.flatnonzero((held.touched & ~held.fired) | held.known)
    columns = [
        pa.array(groups.hashes),
        pa.array(held.fired),
        *groups.keys,
        pa.array(held.rows),
        pa.array(held.since),
    ]
    schema = pending_schema([k.type for k in groups.keys])
    return pa.Table.from_arrays(columns, schema=schema).take(pa.array(kept))


def due(
    pending: Tree, emission: Emission, low: int = 0, high: int = HASH_MAX
) -> Iterator[pa.Table]:
    """Hash and keys of the waiting groups of a range of hashes that are emitted whether or not a row touches them."""
    if not emission.takes_waiting:
        return
    # A count is completed by a row of the group, and by nothing else.
    rules = replace(emission, rows=0)
    for part in pending.scan(low, high):
        keys = [c.combine_chunks() for c in part.columns[KEYS_FROM:-2]]
        rows, since = (part.column(name).to_numpy() for name in ("rows", "since"))
        fired = rules.fires(keys, rows, since)
        yield part.drop_columns(["dead", "rows", "since"]).filter(pa.array(fired))


def most_due(runs: Sequence[RunFile], emission: Emission, low: int, high: int) -> float:
    """About how many groups `due` gives at most; `runs` are those of the pending tree."""
    return sum(rows_in(run, low, high) for run in runs) if emission.takes_waiting else 0


def oldest(pending: Tree) -> int | None:
    """When the last row came of the group that waits longest without one; None where none waits."""
    columns = (part.column("since").to_numpy() for part in pending.scan())
    return min((int(since.min()) for since in columns if len(since)), default=None)
