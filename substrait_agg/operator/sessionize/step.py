"""One step of the session operator, upstream of an aggregate that groups by session.

The entries of an ordered tree of times are assigned to sessions, on whole columns. A time is *live*
if the weights of its entries sum to more than zero. Live times less than a gap apart form one
session. The session begins with the first of them and ends one gap after the last, exclusive. A
time that is not live, because it was retracted before it was inserted, does not extend a session.
It belongs to the session that contains it or, if there is none, to a window [time, time + gap) of
its own. The rows of that window sum to zero or less, so the window is never shown. A session cannot
have the same bounds, since its first time is live.


The operator emits the changes of rows with their sessions. It stores the rows that the aggregate
reads in an ordered tree per value of the other grouping expressions. An entry is the time and the
inputs of the measures, with a weight. If a batch changes the bounds of a session, all rows of the
session are retracted with the old bounds and inserted with the new ones. Otherwise only the rows of
the batch are emitted. A step reads only the sessions around the times of the batch, never a whole
group. Rows without a time have no session; their window is null. Under ``quarantine`` a row counts
only as often as its weight is above zero, so the tree of rows also serves as the guard's tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.operator.aggregate.groups import group_ordinals
from substrait_agg.operator.aggregate.operator import GroupOperator
from substrait_agg.operator.aggregate.step import AppliedBatch, apply_batch
from substrait_agg.operator.aggregate.stored import stored_rows
from substrait_agg.operator.aggregate.trees import TreeDelta
from substrait_agg.operator.common.emission import ALL, Emission
from substrait_agg.operator.common.names import GROUP, WEIGHT, entries_tree
from substrait_agg.operator.common.protocol import (
    EstimatedWork,
    InitialGroups,
    Layouts,
    OperatorResult,
    Runs,
    StateReader,
)
from substrait_agg.operator.measures.row_partials import split_rows
from substrait_agg.operator.sessionize.spec import SessionSpec
from substrait_agg.state.entries import Entries
from substrait_agg.state.keys.keys import EncodedKeys, prefix_keys
from substrait_agg.state.keys.rows import Hashes, Indices, Mask, as_mask, take
from substrait_agg.state.merging import rows_in
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.row_ranges import GatheredEntries
from substrait_agg.state.run import HASH_MAX
from substrait_agg.state.tree import dead_rows, newest
from substrait_agg.state.weights import sum_runs_of_rows


@dataclass(frozen=True, slots=True)
class SessionOperator(GroupOperator):
    """The operator that assigns rows to sessions.

    Its groups are never shown, so none of them is pending or closed.
    """

    spec: SessionSpec

    def state_schema(self, *, final: bool = True) -> Layouts:
        """Return the layouts of the group tree and of the tree of rows."""
        schema = GroupOperator.state_schema(self, final=final)
        return {name: schema[name] for name in (GROUP, entries_tree(0))}

    def apply(
        self, ports: Sequence[pa.Table], state: StateReader, emission: Emission
    ) -> OperatorResult:
        """See `StatefulOperator`."""
        (rows,) = ports
        return session_step(self.spec, rows, state, emission)

    def expected(
        self, runs: Mapping[str, Runs], emission: Emission, low: int = 0, high: int = HASH_MAX
    ) -> EstimatedWork:
        """Estimate the work: search all rows for sessions that have ended."""
        if emission.watermark is None:
            return EstimatedWork()
        return EstimatedWork(
            0, sum(rows_in(run, low, high) for run in runs.get(entries_tree(0), ()))
        )

    def wake(
        self,
        state: StateReader,
        emission: Emission,
        low: int = 0,
        high: int = HASH_MAX,
        initial_groups: InitialGroups = (),
    ) -> tuple[list[pa.Table], Mapping[str, int]]:
        """Return nothing: no group acts without rows."""
        return [], {}

    def advance(
        self, state: StateReader, emission: Emission, low: int = 0, high: int = HASH_MAX
    ) -> Iterator[OperatorResult]:
        """Drop the rows of sessions that have ended."""
        if emission.watermark is not None:
            for rows in finished_rows(self.spec, state, emission.watermark, low, high):
                yield drop_rows(self.spec, rows, state)


def session_step(
    spec: SessionSpec, slice_: pa.Table, state: StateReader, emission: Emission = ALL
) -> OperatorResult:
    """Apply a slice to the stored rows and return the changes of rows with their sessions.

    Args:
        spec: the operator.
        slice_: delta rows as for `operator.aggregate.step.step`.
        state: the operator's state before this batch.
        emission: as for `operator.aggregate.step.step`; the changes of a session are never delayed.

    Raises:
        RunFailed: WEIGHT_OVERFLOW, TOTAL_OVERFLOW or EARLY_RETRACTION.
    """
    applied = apply_batch(spec, slice_.combine_chunks(), state, emission)
    return _result(spec, applied, _changes(spec, applied))


def drop_rows(spec: SessionSpec, slice_: pa.Table, state: StateReader) -> OperatorResult:
    """Remove rows of finished sessions (`finished_rows`) from the tree; emit no changes."""
    applied = apply_batch(spec, slice_.combine_chunks(), state, ALL)
    return _result(spec, applied, _table(spec, [], _Moves.none(), []))


def _result(spec: SessionSpec, applied: AppliedBatch, changes: pa.Table) -> OperatorResult:
    groups = applied.groups
    shown = np.zeros(groups.count, np.int64)
    rows = stored_rows(spec, groups, applied.collision_ids, applied.after, shown, [], [])
    never_stored = as_mask(rows.column("dead")) & ~applied.before.exists
    trees = {
        GROUP: rows.filter(pa.array(~never_stored)),
        entries_tree(0): applied.deltas[0].entries.to_table(spec.trees[0].layout),
    }
    counters = {"touched": groups.count, "quarantined": applied.quarantined}
    return OperatorResult(trees, changes, counters)


@dataclass(frozen=True, slots=True)
class _Moves:
    """Changes of rows with their sessions.

    Attributes:
        rows: the entry of each change.
        weights: the weight of each change, above zero for insertions and below for retractions.
    """

    rows: Indices
    bounds: Bounds
    weights: Int64s

    @staticmethod
    def none() -> _Moves:
        """Return an empty set of changes."""
        nothing = np.zeros(0, np.int64)
        return _Moves(nothing, Bounds(nothing, nothing), nothing)


def _changes(spec: SessionSpec, applied: AppliedBatch) -> pa.Table:
    delta = applied.deltas[0]
    timeless = as_mask(delta.entries.payload[0].is_null())
    parts = []
    if timeless.any():
        parts.append(_of_timeless(spec, applied, delta, np.flatnonzero(timeless)))
    if not timeless.all():
        parts.append(_of_sessions(spec, applied, np.flatnonzero(~timeless)))
    if not parts:
        parts.append(_table(spec, [], _Moves.none(), []))
    changes = pa.concat_tables(parts)
    first = np.argsort(changes.column(WEIGHT).to_numpy() > 0, kind="stable")
    return changes.take(pa.array(first))


def _count(spec: SessionSpec, weights: Int64s) -> Int64s:
    """Return how often rows count; rows in quarantine do not."""
    return np.maximum(weights, 0) if spec.early == "quarantine" else weights


def _of_timeless(
    spec: SessionSpec, applied: AppliedBatch, delta: TreeDelta, rows: Indices
) -> pa.Table:
    weights = _count(spec, delta.weights_after[rows]) - _count(spec, delta.weights_before[rows])
    keys = take(applied.groups.keys, delta.groups[rows])
    zeros = np.zeros(len(rows), np.int64)
    moves = _Moves(np.arange(len(rows)), Bounds(zeros, zeros), weights)
    return _table(spec, keys, moves, take(delta.entries.payload, rows), timeless=True)


def _of_sessions(spec: SessionSpec, applied: AppliedBatch, rows: Indices) -> pa.Table:
    delta, gap = applied.deltas[0], spec.gap
    tree = TimeTree(delta.tree, applied.groups.hashes, applied.collision_ids)
    times = micros(take(delta.entries.payload[:1], rows)[0])
    spans = whole_sessions(tree, Spans(delta.groups[rows], times, times), gap)
    gathered = tree.read(spans)
    if gathered is None:
        return _table(spec, [], _Moves.none(), [])
    payload = gathered.payload(np.arange(len(gathered.owners)))
    at, new = micros(payload[0]), gathered.weights
    old = new.copy()
    # Source 0 is the slice; its places are the ordinals of its entries.
    changed = np.flatnonzero(gathered.source == 0)
    old[changed] -= delta.entries.weights[gathered.places[changed]]
    moves = _find_moves(gathered.owners, at, _count(spec, old), _count(spec, new), gap)
    keys = take(applied.groups.keys, spans.groups[gathered.owners[moves.rows]])
    return _table(spec, keys, moves, take(payload, moves.rows))


def _find_moves(owners: Indices, times: Int64s, old: Int64s, new: Int64s, gap: int) -> _Moves:
    """Return changes that retract rows with their old session and insert them with the new one."""
    before, after = sessions(owners, times, old, gap), sessions(owners, times, new, gap)
    differ = before.differ(after)
    retracted = np.flatnonzero(differ & (old != 0))
    inserted = np.flatnonzero(differ & (new != 0))
    stay = np.flatnonzero(~differ & (old != new))
    rows = np.concatenate([retracted, inserted, stay])
    return _Moves(
        rows,
        Bounds(
            np.concatenate([before.start[retracted], after.start[inserted], after.start[stay]]),
            np.concatenate([before.end[retracted], after.end[inserted], after.end[stay]]),
        ),
        np.concatenate([-old[retracted], new[inserted], (new - old)[stay]]),
    )


def _table(
    spec: SessionSpec,
    keys: list[pa.Array],
    moves: _Moves,
    payload: list[pa.Array] | tuple[pa.Array, ...],
    *,
    timeless: bool = False,
) -> pa.Table:
    """Return changes with the columns of the operator's output.

    The columns are the other keys, the window, the inputs of the measures and the weight. Rows of
    weight 0 are left out.
    """
    schema = spec.changes
    if not len(moves.rows):
        return schema.empty_table()
    window = schema.field(len(spec.keys)).type
    edges = [
        pa.array(edge).cast(window.field(i).type)
        for i, edge in enumerate((moves.bounds.start, moves.bounds.end))
    ]
    mask = pa.array(np.full(len(moves.rows), timeless))
    windows = pa.StructArray.from_arrays(edges, fields=list(window), mask=mask)
    columns = [*keys, windows, *payload[1:], pa.array(moves.weights)]
    typed = [c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(typed, schema=schema).filter(pa.array(moves.weights != 0))


# --- finished sessions -------------------------------------------------------------------------


def finished_rows(
    spec: SessionSpec, state: StateReader, watermark: int, low: int = 0, high: int = HASH_MAX
) -> Iterator[pa.Table]:
    """Return the delta rows that remove all rows of sessions ending at or before the watermark.

    Args:
        spec: the operator.
        state: its state.
        watermark: microseconds since 1970.
        low: least hash of the range to scan.
        high: greatest hash of the range.

    Yields:
        Slices for `drop_rows`, ordered by hash; groups with one hash are in one slice.
    """
    layout = spec.trees[0].layout
    gap = spec.gap
    for rows in state.open_tree(0, None).scan(low, high):
        entries = Entries.from_table(rows, layout)
        timed = np.flatnonzero(~as_mask(entries.payload[0].is_null()))
        times = micros(take(entries.payload[:1], timed)[0])
        owners = _owners(entries)[timed]
        weights = _count(spec, entries.weights[timed])
        ended = sessions(owners, times, weights, gap).end <= watermark
        if ended.any():
            yield _retracting_rows(spec, state, entries, timed[ended])


def _owners(entries: Entries) -> Indices:
    """Return an ascending number per group of entries."""
    other = np.zeros(len(entries), np.bool_)
    other[1:] = entries.hashes[1:] != entries.hashes[:-1]
    other[1:] |= entries.collision_ids[1:] != entries.collision_ids[:-1]
    return np.cumsum(other)


def _retracting_rows(
    spec: SessionSpec, state: StateReader, entries: Entries, rows: Indices
) -> pa.Table:
    """Return delta rows that bring the weight of some entries to zero."""
    hashes, collision_ids = entries.hashes[rows], entries.collision_ids[rows]
    columns: dict[str, pa.Array | npt.NDArray[np.uint64]] = {"hash": hashes}
    columns |= {f"k{i}": k for i, k in enumerate(_keys_of(spec, state, hashes, collision_ids))}
    payload = take(entries.payload, rows)
    columns |= {f"x{i}": p for i, p in enumerate(payload)}
    batch = pa.RecordBatch.from_pydict({**columns, WEIGHT: -entries.weights[rows]})
    if spec.guard is None:
        # The weights are negative here, even if the input has only insertions.
        batch = split_rows(batch, replace(spec, weight="changelog"))
    return pa.Table.from_batches([batch])


def _keys_of(
    spec: SessionSpec,
    state: StateReader,
    hashes: npt.NDArray[np.uint64],
    collision_ids: npt.NDArray[np.uint16],
) -> list[pa.Array]:
    """Return the keys of groups in order of hash and collision id, from the group tree."""
    names = [f"k{i}" for i in range(len(spec.keys))]
    stored = state.open_keyed(GROUP).rows_of(np.unique(hashes), ("hash", "dead", *names, "chain"))
    groups = newest(stored, len(spec.keys))
    groups = groups.filter(pa.array(~dead_rows(groups))).combine_chunks()
    order = np.lexsort((groups.column("chain").to_numpy(), groups.column("hash").to_numpy()))
    groups = groups.take(pa.array(order))
    at = group_ordinals(
        groups.column("hash").to_numpy(), groups.column("chain").to_numpy(), hashes, collision_ids
    )
    return take([groups.column(name).combine_chunks() for name in names], at)


Int64s = npt.NDArray[np.int64]

GROWTH = 4
"""The factor by which the reading distance grows while a session may extend further."""

FURTHEST = 1 << 61
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Bounds:
    """The window of each entry in microseconds, from `start` to `end` (exclusive)."""

    start: Int64s
    end: Int64s

    def differ(self, other: Bounds) -> Mask:
        """Return a mask of the entries whose windows in `self` and `other` differ."""
        return np.asarray((self.start != other.start) | (self.end != other.end))


def sessions(owners: Indices, times: Int64s, weights: Int64s, gap: int) -> Bounds:
    """Return the session of each entry.

    Args:
        owners: what separates sessions (the group of each entry), ascending.
        times: microseconds, ascending within an owner; equal ones are adjacent.
        weights: of the entries.
        gap: microseconds.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    first = _is_new(owners) | _is_new(times)
    starts = np.flatnonzero(first)
    owner, time = owners[starts], times[starts]
    live = sum_runs_of_rows(weights, starts) > 0
    live_owner, live_time = owner[live], time[live]
    begins = _is_new(live_owner)
    begins[1:] |= live_time[1:] - live_time[:-1] >= gap
    begin = np.flatnonzero(begins)
    session = np.cumsum(begins) - 1
    last = np.append(begin[1:], len(live_time)) - 1
    # Find the last live time up to each time, and check that its session reaches that far.
    before = np.cumsum(live) - 1
    inside = before >= 0
    near = before[inside]
    inside[inside] = (live_owner[near] == owner[inside]) & (time[inside] - live_time[near] < gap)
    start, end = time.copy(), time + gap
    session_ids = session[before[inside]]
    start[inside] = live_time[begin[session_ids]]
    end[inside] = live_time[last[session_ids]] + gap
    of_entry = np.cumsum(first) - 1
    return Bounds(start[of_entry], end[of_entry])


def _is_new(values: npt.NDArray[np.int64]) -> Mask:
    """Return a mask of values that differ from the one before; the first is always set."""
    changed = np.ones(len(values), np.bool_)
    changed[1:] = values[1:] != values[:-1]
    return changed


@dataclass(frozen=True, slots=True)
class Spans:
    """Time ranges of groups, ordered by group and time; from `low` to `high`, both inclusive."""

    groups: Indices
    low: Int64s
    high: Int64s

    def __len__(self) -> int:
        return len(self.groups)

    def take(self, mask: npt.NDArray[np.bool_]) -> Spans:
        """Return some of the spans."""
        return Spans(self.groups[mask], self.low[mask], self.high[mask])

    def join(self, gap: int) -> Spans:
        """Merge the spans of a group that overlap or are less than a gap apart."""
        order = np.lexsort((self.low, self.groups))
        groups, low, high = self.groups[order], self.low[order], self.high[order]
        begins = _is_new(groups)
        begins[1:] |= low[1:] - high[:-1] >= gap
        starts = np.flatnonzero(begins)
        if not len(starts):
            return self
        return Spans(groups[starts], low[starts], np.maximum.reduceat(high, starts))


@dataclass(frozen=True, slots=True)
class TimeTree:
    """An ordered tree whose entries begin with a time, and the groups of a query.

    Attributes:
        tree: the tree.
        hashes: of the groups.
        collision_ids: collision ids of the groups.
    """

    tree: OrderedTree
    hashes: Hashes
    collision_ids: npt.NDArray[np.uint16]

    def read(self, spans: Spans) -> GatheredEntries | None:
        """Return the entries in the spans, also those that cancel; None if the tree is empty."""
        low = self._keys(spans.low)
        # The upper bound is exclusive, so it is the next microsecond.
        high = self._keys(spans.high + 1)
        return self.tree.between(self.hashes, self.collision_ids, spans.groups, low, high)

    def _keys(self, times: Int64s) -> EncodedKeys:
        components = self.tree.components
        return prefix_keys([pa.array(times).cast(components[0].type)], components)


def micros(column: pa.Array) -> Int64s:
    """Return times without nulls as microseconds since 1970."""
    return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False))


def whole_sessions(tree: TimeTree, touched: Spans, gap: int) -> Spans:
    """Return the spans of all sessions, old and new, that contain times in `touched`.

    A span ends where no entry follows within a gap, so no session extends beyond it, whatever the
    weights of its entries. The reading distance grows until every span ends this way.
    """
    done: list[Spans] = []
    active, reach = touched.join(gap), gap
    while len(active):
        grown, closed = _grow(tree, active, reach, gap)
        done.append(grown.take(closed))
        active, reach = grown.take(~closed).join(gap), min(reach * GROWTH, FURTHEST)
    return Spans(
        *map(np.concatenate, zip(*((s.groups, s.low, s.high) for s in done), strict=True))
    ).join(gap)


def _grow(tree: TimeTree, spans: Spans, reach: int, gap: int) -> tuple[Spans, Mask]:
    """Extend spans by all times that follow each other less than a gap apart.

    Args:
        tree: the tree to read.
        spans: the spans.
        reach: how far to read beyond each span, microseconds.
        gap: microseconds.

    Returns:
        The extended spans, and a mask of those that end within `reach`.
    """
    low = np.maximum(spans.low, _LEAST + reach) - reach
    high = np.minimum(spans.high, _MOST - 1 - reach) + reach
    gathered = tree.read(Spans(spans.groups, low, high))
    if gathered is None:
        return spans, np.ones(len(spans), np.bool_)
    owners, times = gathered.owners, micros(gathered.payload(np.arange(len(gathered.owners)))[0])
    breaks = _is_new(owners)
    breaks[1:] |= times[1:] - times[:-1] >= gap
    chain = np.cumsum(breaks) - 1
    first = np.flatnonzero(breaks)
    last = np.append(first[1:], len(times)) - 1
    # The times of a span are less than a gap apart, so any one of them identifies its series.
    at = np.flatnonzero(times == spans.low[owners])
    begin, end = spans.low.copy(), spans.high.copy()
    begin[owners[at]] = times[first[chain[at]]]
    end[owners[at]] = times[last[chain[at]]]
    closed = (begin - low >= gap - 1) & (high - end >= gap - 1)
    return Spans(spans.groups, begin, end), closed
