"""Groups that leave the group tree: closed when no more rows can come for them, forgotten when they were idle for long.

What the view shows of a closed group, or of a forgotten one that is kept, moves to a tree of its own that nothing but the
view reads (and, of kept ones, the group itself when it comes back); everything else that was stored of it is freed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.operator.aggregate.groups import BatchGroups, CollisionIds
from substrait_agg.operator.aggregate.pending import Waiting
from substrait_agg.operator.aggregate.stored import NEVER, StoredGroups
from substrait_agg.operator.aggregate.trees import Delta, overlaid
from substrait_agg.operator.common.completeness import complete
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.names import CLOSED, TIME, WEIGHT
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.operator.measures.finalize import GroupState
from substrait_agg.state.entries import Entries
from substrait_agg.state.keys.rows import Mask, as_mask, take
from substrait_agg.state.merging import rows_in
from substrait_agg.state.run import HASH_MAX, RunFile
from substrait_agg.state.tree import KEYS_FROM, Tree, dead_rows

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Leaving:
    """Which groups of a slice leave the group tree.

    Attributes:
        closed: those of which the view keeps the row last emitted.
        forgotten: those whose row is retracted.
    """

    closed: Mask
    forgotten: Mask

    @property
    def any(self) -> Mask:
        """All of them."""
        return self.closed | self.forgotten


def closed_schema(spec: OperatorSpec) -> pa.Schema:
    """Columns of the tree of closed groups: ``hash``, ``dead``, keys, ``shown`` and the measures."""
    output = list(spec.output)
    keys, values = output[: len(spec.keys)], output[len(spec.keys) :]
    hash_, dead = pa.field("hash", pa.uint64()), pa.field("dead", pa.bool_())
    return pa.schema([hash_, dead, *keys, pa.field("shown", pa.int64()), *values])


def newest_times(
    slice_: pa.Table, groups: BatchGroups, old: StoredGroups, instant: int
) -> Int64s | None:
    """Per group the newest event time of its rows, those of this slice included; None where nothing is forgotten.

    Args:
        slice_: delta rows, with ``__time`` where their source tells event time.
        groups: their groups.
        old: the groups as stored.
        instant: the event time of rows where no source tells any.
    """
    if old.time is None:
        return None
    # Rows that only name a group add no weight.
    rows = as_mask(pc.is_valid(slice_.column(WEIGHT if WEIGHT in slice_.column_names else "w_0")))
    times = np.full(len(rows), instant, np.int64)
    if TIME in slice_.column_names:
        times = pc.fill_null(slice_.column(TIME), NEVER).to_numpy()
    times = np.where(rows, times, NEVER)
    return np.maximum(old.time, np.maximum.reduceat(times[groups.rows.order], groups.rows.starts))


def evicted_groups(
    spec: OperatorSpec, groups: BatchGroups, held: Waiting, time: Int64s | None, emission: Emission
) -> tuple[Waiting, Leaving]:
    """Which groups leave, and what is emitted because of that."""
    none = np.zeros(groups.count, np.bool_)
    if not emission.lets_go:
        return held, Leaving(none, none)
    idle = none
    if time is not None and emission.idle is not None:
        idle = (time <= emission.idle) & ~_always(spec, groups)
        held = held.also(idle & held.touched)
    closed = none
    if emission.close:
        waits = held.touched & ~held.fired
        closed = complete(groups.keys, emission.limits, groups.count) & ~waits
    kept = idle if spec.forget == "keep" else none
    return held, Leaving(closed | kept, idle & ~kept)


def _always(spec: OperatorSpec, groups: BatchGroups) -> Mask:
    """Groups that are shown whatever there is of them."""
    if not spec.always:
        return np.zeros(groups.count, np.bool_)
    return np.isin(groups.keys[-1].to_numpy(zero_copy_only=False), spec.always)


def clear_state(state: GroupState, gone: Mask) -> GroupState:
    """The state with nothing left of some groups."""
    if not gone.any():
        return state
    floats = {
        i: replace(
            f,
            digits=np.where(gone, 0, f.digits),
            registers=None if f.registers is None else np.where(gone, 0, f.registers),
        )
        for i, f in state.floats.items()
    }
    return GroupState(np.where(gone, 0, state.fixed), floats)


def evict_entries(
    delta: Delta, groups: BatchGroups, chains: CollisionIds, gone: Mask
) -> Entries | None:
    """What takes all entries of some groups out of a tree, those of this slice included; None where there are none."""
    if not gone.any():
        return None
    found = delta.tree.entries(groups.hashes[gone], chains[gone])
    return replace(found, weights=-found.weights) if len(found) else None


def closed_rows(
    spec: OperatorSpec,
    groups: BatchGroups,
    out: Leaving,
    back: Mask,
    shown: Int64s,
    values: Sequence[pa.Array],
) -> pa.Table:
    """Rows to add to the tree of closed groups: those that come to it, and, as dead, those that are back."""
    come = out.closed & (shown > 0)
    rows = np.flatnonzero(come | back)
    columns = [
        pa.array(groups.hashes),
        pa.array(~come),
        *groups.keys,
        pa.array(np.where(come, shown, 0)),
        *values,
    ]
    return pa.Table.from_arrays(take(columns, rows), schema=closed_schema(spec))


def restore_evicted(
    spec: OperatorSpec, groups: BatchGroups, old: StoredGroups, keyed: Callable[[str], Tree]
) -> tuple[StoredGroups, Mask]:
    """The groups as stored, with what the view still shows of those that were forgotten, and which those are."""
    back = np.zeros(groups.count, np.bool_)
    wanted = np.flatnonzero(old.shown == 0)
    if spec.forget != "keep" or not len(wanted):
        return old, back
    found = keyed(CLOSED).lookup(groups.hashes[wanted], take(groups.keys, wanted))
    alive = np.flatnonzero(~dead_rows(found.rows))
    if not len(alive):
        return old, back
    at = wanted[found.positions[alive]]
    order = np.argsort(at)
    at, alive = at[order], alive[order]
    back[at] = True
    shown = old.shown.copy()
    shown[at] = found.rows.column("shown").to_numpy()[alive]
    values = [
        overlaid(v, at, found.rows.column(f"v{i}").combine_chunks().take(pa.array(alive)))
        for i, v in enumerate(old.values)
    ]
    return replace(old, shown=shown, values=values), back


def to_look_at(
    spec: OperatorSpec, tree: Tree, emission: Emission, low: int = 0, high: int = HASH_MAX
) -> Iterator[pa.Table]:
    """Hash and keys of the groups of a range of hashes that may leave the group tree."""
    if not emission.lets_go:
        return
    timed = bool(spec.forget) and emission.idle is not None
    for part in tree.scan(low, high, columns=["time"] if timed else []):
        keys = [c.combine_chunks() for c in part.columns[KEYS_FROM : KEYS_FROM + len(spec.keys)]]
        some = np.zeros(part.num_rows, np.bool_)
        if emission.close:
            some |= complete(keys, emission.limits, part.num_rows)
        if timed:
            some |= part.column("time").to_numpy() <= emission.idle
        names = ["dead", *(["time"] if timed else [])]
        yield part.drop_columns(names).filter(pa.array(some))


def most_leaving(runs: Sequence[RunFile], emission: Emission, low: int, high: int) -> float:
    """About how many groups `to_look_at` gives at most; `runs` are those of the group tree."""
    return sum(rows_in(run, low, high) for run in runs) if emission.lets_go else 0
