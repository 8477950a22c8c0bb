"""Eviction: groups that leave the group tree.

A group is closed when it is complete, and evicted as idle when it had no rows for the time to live.
The closed tree stores the row that the view shows of closed groups, and of idle groups whose row is
kept. Only the view reads it, and a kept group that returns. All other state of an evicted group is
deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.operator.aggregate.groups import BatchGroups, CollisionIds
from substrait_agg.operator.aggregate.pending import PendingStatus
from substrait_agg.operator.aggregate.stored import NEVER, StoredGroups
from substrait_agg.operator.aggregate.trees import TreeDelta, overlaid
from substrait_agg.operator.common.completeness import complete
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.names import CLOSED, TIME, WEIGHT
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.operator.measures.finalize import GroupState
from substrait_agg.state.entries import Entries
from substrait_agg.state.keys.rows import Mask, as_mask, take
from substrait_agg.state.merging import rows_in
from substrait_agg.state.run import HASH_MAX, RunFile
from substrait_agg.state.tree import KEYS_FROM, KeyedTree, dead_rows

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EvictedGroups:
    """The groups of a slice that leave the group tree.

    Attributes:
        closed: mask of the groups whose last emitted row stays in the view.
        forgotten: mask of the groups whose row is retracted.
    """

    closed: Mask
    forgotten: Mask

    @property
    def any(self) -> Mask:
        """Return a mask of all groups that leave."""
        return self.closed | self.forgotten


def closed_schema(spec: OperatorSpec) -> pa.Schema:
    """Return the columns of the closed tree: ``hash``, ``dead``, keys, ``shown``, measures."""
    output = list(spec.output)
    keys, values = output[: len(spec.keys)], output[len(spec.keys) :]
    hash_, dead = pa.field("hash", pa.uint64()), pa.field("dead", pa.bool_())
    return pa.schema([hash_, dead, *keys, pa.field("shown", pa.int64()), *values])


def newest_times(
    slice_: pa.Table, groups: BatchGroups, old: StoredGroups, instant: int
) -> Int64s | None:
    """Return the newest event time of each group, including this slice.

    Args:
        slice_: delta rows, with ``__time`` if a source has event time.
        groups: their groups.
        old: the groups as stored.
        instant: the event time of rows if no source has event time.

    Returns:
        Microseconds since 1970; None if idle groups are not evicted.
    """
    if old.time is None:
        return None
    # Rows without weight only name a group and have no event time.
    rows = as_mask(pc.is_valid(slice_.column(WEIGHT if WEIGHT in slice_.column_names else "w_0")))
    times = np.full(len(rows), instant, np.int64)
    if TIME in slice_.column_names:
        times = pc.fill_null(slice_.column(TIME), NEVER).to_numpy()
    times = np.where(rows, times, NEVER)
    return np.maximum(old.time, np.maximum.reduceat(times[groups.rows.order], groups.rows.starts))


def evicted_groups(
    spec: OperatorSpec,
    groups: BatchGroups,
    pending: PendingStatus,
    time: Int64s | None,
    emission: Emission,
) -> tuple[PendingStatus, EvictedGroups]:
    """Return the groups to evict, and the pending status that emits groups because of eviction."""
    none = np.zeros(groups.count, np.bool_)
    if not emission.evicts:
        return pending, EvictedGroups(none, none)
    idle = none
    if time is not None and emission.idle is not None:
        idle = (time <= emission.idle) & ~_always(spec, groups)
        pending = pending.also(idle & pending.has_rows)
    closed = none
    if emission.close:
        waits = pending.has_rows & ~pending.fired
        closed = complete(groups.keys, emission.limits, groups.count) & ~waits
    idle_kept = idle if spec.forget == "keep" else none
    return pending, EvictedGroups(closed | idle_kept, idle & ~idle_kept)


def _always(spec: OperatorSpec, groups: BatchGroups) -> Mask:
    """Return a mask of the groups that are always shown."""
    if not spec.always:
        return np.zeros(groups.count, np.bool_)
    return np.isin(groups.keys[-1].to_numpy(zero_copy_only=False), spec.always)


def clear_state(state: GroupState, cleared: Mask) -> GroupState:
    """Return the state with the accumulators of some groups set to zero."""
    if not cleared.any():
        return state
    floats = {
        i: replace(
            f,
            digits=np.where(cleared, 0, f.digits),
            registers=None if f.registers is None else np.where(cleared, 0, f.registers),
        )
        for i, f in state.floats.items()
    }
    return GroupState(np.where(cleared, 0, state.fixed), floats)


def evict_entries(
    delta: TreeDelta, groups: BatchGroups, collision_ids: CollisionIds, evicted: Mask
) -> Entries | None:
    """Return entries that cancel all entries of some groups, with this slice; None without any."""
    if not evicted.any():
        return None
    entries = delta.tree.entries(groups.hashes[evicted], collision_ids[evicted])
    return entries.negate() if len(entries) else None


def closed_rows(
    spec: OperatorSpec,
    groups: BatchGroups,
    out: EvictedGroups,
    back: Mask,
    shown: Int64s,
    values: Sequence[pa.Array],
) -> pa.Table:
    """Return the rows to add to the closed tree; groups that returned are dead."""
    shown_closed = out.closed & (shown > 0)
    rows = np.flatnonzero(shown_closed | back)
    columns = [
        pa.array(groups.hashes),
        pa.array(~shown_closed),
        *groups.keys,
        pa.array(np.where(shown_closed, shown, 0)),
        *values,
    ]
    return pa.Table.from_arrays(take(columns, rows), schema=closed_schema(spec))


def restore_evicted(
    spec: OperatorSpec, groups: BatchGroups, old: StoredGroups, keyed: Callable[[str], KeyedTree]
) -> tuple[StoredGroups, Mask]:
    """Restore the shown rows of evicted groups that return.

    Returns:
        The groups as stored, with the row that the view still shows of returning groups, and a mask
        of the returning groups.
    """
    back = np.zeros(groups.count, np.bool_)
    hidden = np.flatnonzero(old.shown == 0)
    if spec.forget != "keep" or not len(hidden):
        return old, back
    lookup = keyed(CLOSED).lookup(groups.hashes[hidden], take(groups.keys, hidden))
    alive = np.flatnonzero(~dead_rows(lookup.rows))
    if not len(alive):
        return old, back
    at = hidden[lookup.positions[alive]]
    order = np.argsort(at)
    at, alive = at[order], alive[order]
    back[at] = True
    shown = old.shown.copy()
    shown[at] = lookup.rows.column("shown").to_numpy()[alive]
    values = [
        overlaid(v, at, lookup.rows.column(f"v{i}").combine_chunks().take(pa.array(alive)))
        for i, v in enumerate(old.values)
    ]
    return replace(old, shown=shown, values=values), back


def to_look_at(
    spec: OperatorSpec, tree: KeyedTree, emission: Emission, low: int = 0, high: int = HASH_MAX
) -> Iterator[pa.Table]:
    """Yield hash and keys of the groups in a hash range that may leave the group tree."""
    if not emission.evicts:
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


def most_evicted(runs: Sequence[RunFile], emission: Emission, low: int, high: int) -> float:
    """Estimate the maximal number of groups of `to_look_at`, from the runs of the group tree."""
    return sum(rows_in(run, low, high) for run in runs) if emission.evicts else 0
