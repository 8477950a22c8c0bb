"""The operator ahead of an aggregate that groups by sessions: which session each row is in, as changes of rows with sessions.

It keeps the rows that the aggregate reads in an ordered tree per value of the other grouping expressions: time, then what
the measures read, each with its weight. Where a batch moves the bounds of a session, all its rows are retracted with
the old bounds and inserted with the new ones; where it does not, only the rows of the batch go on. Read are the sessions
around the times of the batch, never a whole group. Rows without a time have no session: their window is null.

Under ``quarantine`` a row counts only as often as its weight is above zero, so the tree of rows is the guard's, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.operator.aggregate.groups import places
from substrait_agg.operator.aggregate.operator import GroupOperator
from substrait_agg.operator.aggregate.step import AppliedBatch, apply_batch
from substrait_agg.operator.aggregate.stored import stored_rows
from substrait_agg.operator.aggregate.trees import Delta
from substrait_agg.operator.common.emission import ALL, Emission
from substrait_agg.operator.common.names import GROUP, WEIGHT, entries_tree
from substrait_agg.operator.common.protocol import OperatorResult, Runs, Seeds, State, Work
from substrait_agg.operator.common.spec import SessionSpec
from substrait_agg.operator.measures.row_partials import split_rows
from substrait_agg.operator.sessionize.sessions import (
    Bounds,
    Int64s,
    Spans,
    TimeTree,
    micros,
    sessions,
    whole_sessions,
)
from substrait_agg.state.entries import Entries, TreeLayout
from substrait_agg.state.keys.rows import Indices, as_mask, take
from substrait_agg.state.merging import rows_in
from substrait_agg.state.run import HASH_MAX
from substrait_agg.state.tree import KeyedLayout, dead_rows, newest


@dataclass(frozen=True, slots=True)
class SessionOperator(GroupOperator):
    """Tells which session each row is in; its groups are never shown, so none of them waits or is closed."""

    spec: SessionSpec

    def state_schema(self, *, final: bool = True) -> Mapping[str, KeyedLayout | TreeLayout]:
        """See `StatefulOperator`: groups, and the rows of each."""
        schema = GroupOperator.state_schema(self, final=final)
        return {name: schema[name] for name in (GROUP, entries_tree(0))}

    def apply(self, ports: Sequence[pa.Table], state: State, emission: Emission) -> OperatorResult:
        """See `StatefulOperator`."""
        (rows,) = ports
        return session_step(self.spec, rows, state, emission)

    def expected(
        self, runs: Mapping[str, Runs], emission: Emission, low: int = 0, high: int = HASH_MAX
    ) -> Work:
        """See `StatefulOperator`: all rows are looked through for sessions that have ended."""
        if emission.watermark is None:
            return Work()
        return Work(0, sum(rows_in(run, low, high) for run in runs.get(entries_tree(0), ())))

    def wake(
        self,
        state: State,
        emission: Emission,
        low: int = 0,
        high: int = HASH_MAX,
        seeds: Seeds = (),
    ) -> tuple[list[pa.Table], Mapping[str, int]]:
        """See `StatefulOperator`: no group acts without rows."""
        return [], {}

    def advance(
        self, state: State, emission: Emission, low: int = 0, high: int = HASH_MAX
    ) -> Iterator[OperatorResult]:
        """See `StatefulOperator`: drop the rows of sessions that have ended."""
        if emission.watermark is not None:
            for rows in finished_rows(self.spec, state, emission.watermark, low, high):
                yield drop_rows(self.spec, rows, state)


def session_step(
    spec: SessionSpec, slice_: pa.Table, state: State, emission: Emission = ALL
) -> OperatorResult:
    """Fold a slice into the rows that are kept, and say how rows with their sessions changed.

    Args:
        spec: the operator.
        slice_: delta rows as for `operator.aggregate.step.step`.
        state: the operator's state before this batch.
        emission: as for `operator.aggregate.step.step`; the changes of a session are never held back.

    Raises:
        RunFailed: WEIGHT_OVERFLOW, TOTAL_OVERFLOW or EARLY_RETRACTION.
    """
    folded = apply_batch(spec, slice_.combine_chunks(), state, emission)
    return _result(spec, folded, _changes(spec, folded))


def drop_rows(spec: SessionSpec, slice_: pa.Table, state: State) -> OperatorResult:
    """Take rows out of the tree without a word: those of sessions that are finished (`finished_rows`)."""
    folded = apply_batch(spec, slice_.combine_chunks(), state, ALL)
    return _result(spec, folded, _table(spec, [], _Moves.none(), []))


def _result(spec: SessionSpec, folded: AppliedBatch, changes: pa.Table) -> OperatorResult:
    groups = folded.groups
    shown = np.zeros(groups.count, np.int64)
    rows = stored_rows(spec, groups, folded.chains, folded.now, shown, [], [])
    gone = as_mask(rows.column("dead")) & ~folded.old.known
    trees = {
        GROUP: rows.filter(pa.array(~gone)),
        entries_tree(0): folded.deltas[0].entries.to_table(spec.trees[0].layout),
    }
    counters = {"touched": groups.count, "quarantined": folded.kept_aside}
    return OperatorResult(trees, changes, counters)


@dataclass(frozen=True, slots=True)
class _Moves:
    """Changes of rows with their sessions.

    Attributes:
        rows: of which entry each is.
        bounds: of its session.
        weights: how often the row comes (goes).
    """

    rows: Indices
    bounds: Bounds
    weights: Int64s

    @staticmethod
    def none() -> _Moves:
        """No change at all."""
        nothing = np.zeros(0, np.int64)
        return _Moves(nothing, Bounds(nothing, nothing), nothing)


def _changes(spec: SessionSpec, folded: AppliedBatch) -> pa.Table:
    delta = folded.deltas[0]
    timeless = as_mask(delta.entries.payload[0].is_null())
    parts = []
    if timeless.any():
        parts.append(_of_timeless(spec, folded, delta, np.flatnonzero(timeless)))
    if not timeless.all():
        parts.append(_of_sessions(spec, folded, np.flatnonzero(~timeless)))
    if not parts:
        parts.append(_table(spec, [], _Moves.none(), []))
    changes = pa.concat_tables(parts)
    first = np.argsort(changes.column(WEIGHT).to_numpy() > 0, kind="stable")
    return changes.take(pa.array(first))  # retractions first


def _counted(spec: SessionSpec, weights: Int64s) -> Int64s:
    """How often rows count: what waits in quarantine does not."""
    return np.maximum(weights, 0) if spec.early == "quarantine" else weights


def _of_timeless(spec: SessionSpec, folded: AppliedBatch, delta: Delta, rows: Indices) -> pa.Table:
    weights = _counted(spec, delta.new[rows]) - _counted(spec, delta.old[rows])
    keys = take(folded.groups.keys, delta.groups[rows])
    zeros = np.zeros(len(rows), np.int64)
    moves = _Moves(np.arange(len(rows)), Bounds(zeros, zeros), weights)
    return _table(spec, keys, moves, take(delta.entries.payload, rows), timeless=True)


def _of_sessions(spec: SessionSpec, folded: AppliedBatch, rows: Indices) -> pa.Table:
    delta, gap = folded.deltas[0], spec.gap
    time = spec.trees[0].layout.components[0]
    tree = TimeTree(
        delta.tree, time.type, time.nullable, folded.groups.hashes, folded.chains
    )  # fmt: skip
    times = micros(take(delta.entries.payload[:1], rows)[0])
    spans = whole_sessions(tree, Spans(delta.groups[rows], times, times), gap)
    found = tree.read(spans)
    if found is None:
        return _table(spec, [], _Moves.none(), [])
    payload = found.payload(np.arange(len(found.owners)))
    at, new = micros(payload[0]), found.weights
    old = new.copy()
    # The newest rows of the tree are those of the slice, in the order of its entries.
    changed = np.flatnonzero(found.source == 0)
    old[changed] -= delta.entries.weights[found.places[changed]]
    moves = _moved(found.owners, at, _counted(spec, old), _counted(spec, new), gap)
    keys = take(folded.groups.keys, spans.groups[found.owners[moves.rows]])
    return _table(spec, keys, moves, take(payload, moves.rows))


def _moved(owners: Indices, times: Int64s, old: Int64s, new: Int64s, gap: int) -> _Moves:
    """What retracts rows where their session was another, and inserts them where it is now."""
    before, after = sessions(owners, times, old, gap), sessions(owners, times, new, gap)
    differ = before.differ(after)
    gone = np.flatnonzero(differ & (old != 0))
    come = np.flatnonzero(differ & (new != 0))
    stay = np.flatnonzero(~differ & (old != new))
    rows = np.concatenate([gone, come, stay])
    return _Moves(
        rows,
        Bounds(
            np.concatenate([before.start[gone], after.start[come], after.start[stay]]),
            np.concatenate([before.end[gone], after.end[come], after.end[stay]]),
        ),
        np.concatenate([-old[gone], new[come], (new - old)[stay]]),
    )


def _table(
    spec: SessionSpec,
    keys: list[pa.Array],
    moves: _Moves,
    payload: list[pa.Array] | tuple[pa.Array, ...],
    *,
    timeless: bool = False,
) -> pa.Table:
    """Changes as the operator's output: other keys, window, what the measures read, weight; rows of weight 0 are left out."""
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
    spec: SessionSpec, state: State, watermark: int, low: int = 0, high: int = HASH_MAX
) -> Iterator[pa.Table]:
    """Rows that take out of the tree all that belongs to sessions which end at the watermark or before it.

    Args:
        spec: the operator.
        state: its state.
        watermark: microseconds since 1970.
        low: least hash of the range that is looked through.
        high: greatest hash.

    Yields:
        Slices for `drop_rows`, in order of hash; groups of one hash are in one slice.
    """
    layout = spec.trees[0].layout
    gap = spec.gap
    for rows in state.open_tree(0, None).scan(low, high):
        entries = Entries.from_table(rows, layout)
        timed = np.flatnonzero(~as_mask(entries.payload[0].is_null()))
        times = micros(take(entries.payload[:1], timed)[0])
        owners = _owners(entries)[timed]
        weights = _counted(spec, entries.weights[timed])
        ended = sessions(owners, times, weights, gap).end <= watermark
        if ended.any():
            yield _taken_out(spec, state, entries, timed[ended])


def _owners(entries: Entries) -> Indices:
    """A number per group of entries, ascending."""
    other = np.zeros(len(entries), np.bool_)
    other[1:] = entries.hashes[1:] != entries.hashes[:-1]
    other[1:] |= entries.chains[1:] != entries.chains[:-1]
    return np.cumsum(other)


def _taken_out(spec: SessionSpec, state: State, entries: Entries, rows: Indices) -> pa.Table:
    """Delta rows that bring the weight of some entries to zero."""
    hashes, chains = entries.hashes[rows], entries.chains[rows]
    columns: dict[str, pa.Array | npt.NDArray[np.uint64]] = {"hash": hashes}
    columns |= {f"k{i}": k for i, k in enumerate(_keys_of(spec, state, hashes, chains))}
    payload = take(entries.payload, rows)
    columns |= {f"x{i}": p for i, p in enumerate(payload)}
    batch = pa.RecordBatch.from_pydict({**columns, WEIGHT: -entries.weights[rows]})
    if spec.guard < 0:
        # Weights below zero come here also where all that comes in is inserted.
        batch = split_rows(batch, replace(spec, weight="sign"))
    return pa.Table.from_batches([batch])


def _keys_of(
    spec: SessionSpec,
    state: State,
    hashes: npt.NDArray[np.uint64],
    chains: npt.NDArray[np.uint16],
) -> list[pa.Array]:
    """The keys of groups by hash and chain, which are in order; only the group tree has them."""
    names = [f"k{i}" for i in range(len(spec.keys))]
    stored = state.keyed(GROUP).rows_of(np.unique(hashes), ("hash", "dead", *names, "chain"))
    groups = newest(stored, len(spec.keys))
    groups = groups.filter(pa.array(~dead_rows(groups))).combine_chunks()
    order = np.lexsort((groups.column("chain").to_numpy(), groups.column("hash").to_numpy()))
    groups = groups.take(pa.array(order))
    at = places(groups.column("hash").to_numpy(), groups.column("chain").to_numpy(), hashes, chains)
    return take([groups.column(name).combine_chunks() for name in names], at)
