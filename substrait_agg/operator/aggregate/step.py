"""One step of the incremental aggregate: apply a slice of partial sums to the group tree.

A step is a pure function of Arrow tables. It uses no Spark, no clock and no files of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.errors import RunFailed
from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS
from substrait_agg.functions.numbers import exact
from substrait_agg.operator.aggregate.arrivals import (
    Arrivals,
    arrivals_delta,
    moved_arrivals,
    positions,
)
from substrait_agg.operator.aggregate.early_retractions import (
    AcceptedRows,
    early_retractions,
    hold_early_retractions,
    report_early_retractions,
)
from substrait_agg.operator.aggregate.eviction import (
    EvictedGroups,
    clear_state,
    closed_rows,
    evict_entries,
    evicted_groups,
    newest_times,
    restore_evicted,
)
from substrait_agg.operator.aggregate.extremes import extremes_delta
from substrait_agg.operator.aggregate.groups import (
    BatchGroups,
    CollisionIds,
    Sums,
    add_rows,
    collect_groups,
    with_collision_ids,
)
from substrait_agg.operator.aggregate.pending import PendingStatus, find_waiting, pending_rows
from substrait_agg.operator.aggregate.stored import StoredGroups, restore, stored_rows
from substrait_agg.operator.aggregate.trees import (
    GroupExtremes,
    GroupTrees,
    TreeDelta,
    add_entries,
    moved_end,
    tree_deltas,
)
from substrait_agg.operator.aggregate.values import MeasuredGroups, measure_values
from substrait_agg.operator.common.emission import ALL, Emission
from substrait_agg.operator.common.names import CLOSED, GROUP, PENDING, WEIGHT, entries_tree
from substrait_agg.operator.common.protocol import OperatorResult, StateReader
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.operator.measures.finalize import GroupState, count_of, row_counts
from substrait_agg.operator.numeric.delta import add_floats, trim
from substrait_agg.state.entries import consolidate_sorted
from substrait_agg.state.keys.rows import Indices, Mask, as_mask, equal, take


def _row_changes(
    spec: OperatorSpec,
    groups: BatchGroups,
    old: StoredGroups,
    shown: Int64s,
    values: Sequence[pa.Array],
) -> pa.Table:
    """Return the changes of a slice: output columns and ``__weight``, retractions first.

    Args:
        spec: the operator.
        groups: the groups of a slice.
        old: the groups as shown before.
        shown: the weight with which each group is shown now; 0 if it is not shown.
        values: its current measures.
    """
    same = (old.shown > 0) & (shown > 0)
    for before, after in zip(old.values, values, strict=True):
        same &= equal(before, after)
    delta = shown - old.shown
    if spec.groups_are_rows:
        parts = [_emit(spec, groups, values, delta, np.flatnonzero(delta < 0))]
        parts.append(_emit(spec, groups, values, delta, np.flatnonzero(delta > 0)))
        return pa.concat_tables(parts)
    retracted = np.flatnonzero((old.shown > 0) & ~same)
    inserted = np.flatnonzero((shown > 0) & ~same)
    return pa.concat_tables(
        [
            _emit(spec, groups, old.values, -old.shown, retracted),
            _emit(spec, groups, values, shown, inserted),
        ]
    )


def _emit(
    spec: OperatorSpec,
    groups: BatchGroups,
    values: Sequence[pa.Array],
    weights: Int64s,
    rows: Indices,
) -> pa.Table:
    columns = [*take(groups.keys, rows), *take(values, rows), pa.array(weights[rows])]
    schema = spec.output.append(pa.field(WEIGHT, pa.int64()))
    return pa.Table.from_arrays(columns, schema=schema)


Int64s = npt.NDArray[np.int64]
ShownWeights = Callable[[OperatorSpec, BatchGroups, GroupState], Int64s]


def step(
    spec: OperatorSpec,
    slice_: pa.Table,
    state: StateReader,
    emission: Emission = ALL,
    shown_weights: ShownWeights | None = None,
) -> OperatorResult:
    """Apply a slice to its groups and return the new tree rows and the changes of emitted groups.

    Args:
        spec: the operator.
        slice_: delta rows, as described in `operator.numeric.delta`; several rows of one key are
            summed. With ordered trees, one row per input row, with ``x*`` and ``__weight``. With a
            guard, ``x*`` and ``__weight`` alone. Unless all groups are emitted, also ``__rows``,
            the number of input rows that each row sums up.
        state: the operator's state before this batch.
        emission: the rules that select the groups to emit; the other groups wait in the pending
            tree.
        shown_weights: computes how often the output has the row of each group. By default it has
            that of a multiset as often as its weight says, and other rows once if their weight is
            above zero.

    Raises:
        RunFailed: RESULT_OVERFLOW, WEIGHT_OVERFLOW, TOTAL_OVERFLOW, EARLY_RETRACTION or
            USER_MEASURE_FAILED.
    """
    applied = apply_batch(spec, slice_.combine_chunks(), state, emission)
    groups, old, out = applied.groups, applied.before, applied.evicted
    shown, values = _to_emit(spec, applied, state, shown_weights or _count_shown)
    shown = np.where(out.forgotten, 0, shown)
    trees, freed_aside = _tree_rows(spec, applied)
    counters = {
        "touched": int((applied.pending.has_rows | out.forgotten).sum()),
        "quarantined": applied.quarantined - freed_aside,
        "early": applied.early,
        "emitted": applied.pending.emitted,
        "waiting": applied.pending.more,
    }
    rows = {
        GROUP: _group_rows(spec, applied, shown, values),
        PENDING: pending_rows(groups, applied.pending),
        **{entries_tree(i): entries for i, entries in enumerate(trees)},
        CLOSED: closed_rows(spec, groups, out, applied.returning, shown, values),
    }
    return OperatorResult(rows, _row_changes(spec, groups, old, shown, values), counters)


def _group_rows(
    spec: OperatorSpec, applied: AppliedBatch, shown: Int64s, values: Sequence[pa.Array]
) -> pa.Table:
    """Return the rows of the group tree, without groups that came and went within the batch."""
    evicted = applied.evicted.any
    shown_after = np.where(evicted, 0, shown)
    now = clear_state(applied.after, evicted)
    rows = stored_rows(
        spec,
        applied.groups,
        applied.collision_ids,
        now,
        shown_after,
        values,
        applied.extremes,
        applied.time,
    )
    unknown = as_mask(rows.column("dead")) & ~applied.before.exists
    return rows.filter(pa.array(~unknown)) if unknown.any() else rows


def _tree_rows(spec: OperatorSpec, applied: AppliedBatch) -> tuple[tuple[pa.Table, ...], int]:
    """Return the rows of the ordered trees, and the number of evicted quarantined rows."""
    tables, quarantined = [], 0
    evicted = applied.evicted.any
    for i, (delta, tree) in enumerate(zip(applied.deltas, spec.trees, strict=True)):
        if tree.extremes_only or tree.within is not None:
            tables.append(tree.layout.schema.empty_table())
            continue
        entries = delta.entries
        out = evict_entries(delta, applied.groups, applied.collision_ids, evicted)
        if out is not None:
            entries = consolidate_sorted([entries, out]) if len(entries) else out
            quarantined += int(out.weights[out.weights > 0].sum()) if i == spec.guard else 0
        tables.append(entries.to_table(tree.layout))
    if spec.groups_are_rows and spec.early == "quarantine":
        quarantined += int(-np.minimum(row_counts(spec, applied.after), 0)[:, evicted].sum())
    return tuple(tables), quarantined


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """The groups of a slice before and after it.

    Attributes:
        after: their accumulators after the slice.
        deltas: the changes of every tree.
        extremes: the extremes of trees after the slice.
        pending: which groups wait, and which are emitted.
        evicted: which groups leave the group tree.
        returning: mask of evicted groups that return with new rows; the view kept their old row.
        time: newest event times; None if idle groups are not evicted.
        stale: mask of groups whose trees changed since they were last emitted.
        quarantined: change of the number of quarantined rows.
        early: number of early retractions.
    """

    groups: BatchGroups
    collision_ids: CollisionIds
    before: StoredGroups
    after: GroupState
    deltas: list[TreeDelta]
    extremes: list[GroupExtremes]
    pending: PendingStatus
    evicted: EvictedGroups
    returning: Mask
    time: Int64s | None
    stale: Mask
    quarantined: int
    early: int

    def to_show(self, spec: OperatorSpec, shown: Mask, state: StateReader) -> MeasuredGroups:
        """Return the inputs of the measures of the groups that are shown."""
        return MeasuredGroups(
            spec=spec,
            hashes=self.groups.hashes,
            collision_ids=self.collision_ids,
            keys=self.groups.keys,
            state=self.after,
            shown=shown,
            existed=self.before.shown > 0,
            before=self.before.values,
            stale=self.stale,
            deltas=self.deltas,
            extremes=self.extremes,
            surrogates=state.surrogates,
        )


def _to_emit(
    spec: OperatorSpec, applied: AppliedBatch, state: StateReader, shown_weights: ShownWeights
) -> tuple[Int64s, list[pa.Array]]:
    """Return the weights and measures of the groups as shown after this batch.

    Groups that are not emitted keep the values last emitted.
    """
    old, fired = applied.before, applied.pending.fired
    if not fired.any():
        return old.shown, old.values
    shown = shown_weights(spec, applied.groups, applied.after)
    values = measure_values(applied.to_show(spec, fired & (shown > 0), state))
    if fired.all():
        return shown, values
    count = applied.groups.count
    index = pa.array(np.where(fired, 0, count) + np.arange(count))
    pairs = zip(values, old.values, strict=True)
    return np.where(fired, shown, old.shown), [pa.concat_arrays(p).take(index) for p in pairs]


def apply_batch(
    spec: OperatorSpec, slice_: pa.Table, state: StateReader, emission: Emission
) -> AppliedBatch:
    """Apply a slice to its groups; arguments and errors are those of `step`."""
    groups = collect_groups(spec, slice_)
    tree = state.open_keyed(GROUP)
    lookup = tree.lookup(groups.hashes, groups.keys)
    groups, lookup, collision_ids = with_collision_ids(spec, groups, lookup, tree)
    old, back = restore_evicted(spec, groups, restore(spec, groups.count, lookup), state.open_keyed)
    pending = find_waiting(slice_, groups, state.open_keyed, emission)
    time = newest_times(slice_, groups, old, emission.instant)
    pending, out = evicted_groups(spec, groups, pending, time, emission)
    # The values that the view kept of a returning group do not hold for its new rows.
    stale = _mask_waited(slice_, groups, pending) | back if spec.trees else back
    trees = GroupTrees(groups.hashes, collision_ids, state.open_tree)
    rows_in = hold_early_retractions(spec, slice_, groups, trees)
    deltas = _tree_deltas(spec, rows_in, trees, state.version)
    sums = add_rows(spec, rows_in.rows, rows_in.groups)
    now = add(spec, add_entries(spec, deltas, groups.count, sums), old.state)
    ends = _extremes(spec, trees, deltas, old, now)
    quarantined = rows_in.quarantined
    if spec.groups_are_rows:
        counts = row_counts(spec, old.state), row_counts(spec, now)
        quarantined = report_early_retractions(spec, groups.keys, *counts)
    early = rows_in.early + early_retractions(spec, old.state, now)
    return AppliedBatch(
        groups,
        collision_ids,
        old,
        now,
        deltas,
        ends,
        pending,
        out,
        back,
        time,
        stale,
        quarantined,
        early,
    )


def _tree_deltas(
    spec: OperatorSpec, rows_in: AcceptedRows, trees: GroupTrees, version: int
) -> list[TreeDelta]:
    """Return the changes of every tree; one of arrivals comes after the tree it follows."""
    deltas: list[TreeDelta] = []
    moved: dict[tuple[int, bool], Arrivals] = {}
    shared: dict[int, TreeDelta] = {}
    for i, tree in enumerate(spec.trees):
        if tree.follows is not None:
            pair = tree.follows.tree, tree.follows.latest
            if tree.follows.by_value:
                base, rows = deltas[pair[0]], (rows_in.rows, rows_in.of_row)
                arrived = positions(spec.trees[pair[0]], base, *rows, latest=tree.follows.latest)
                moved[pair] = moved_arrivals(base, arrived, tree, trees.open_tree(i, None), version)
            deltas.append(arrivals_delta(i, tree, moved[pair], trees))
        elif i == spec.guard and rows_in.delta is not None:
            deltas.append(rows_in.delta)
        elif tree.extremes_only:
            accepted = rows_in.rows, rows_in.groups
            deltas.append(extremes_delta(i, spec, *accepted, trees, version=version))
        else:
            if i not in shared:
                shared |= tree_deltas(spec, spec.together(i), rows_in.rows, rows_in.of_row, trees)
            deltas.append(shared[i])
    return deltas


def _add_to(total: exact.Digits, delta: exact.Digits) -> None:
    """Add uncarried digits to carried ones, in place."""
    lost = exact.add_to(total, delta)
    if lost is not None:
        raise RunFailed(
            "TOTAL_OVERFLOW",
            f"{int(lost.sum())} groups have a total or a weight of more than {32 * len(total)} bits",
            help="check the weight column of the source: such large weights are usually a mistake",
        )


def add(spec: OperatorSpec, sums: Sums, old: GroupState) -> GroupState:
    """Return the state of groups with `sums` added to their accumulators.

    Raises:
        RunFailed: TOTAL_OVERFLOW.
    """
    fixed = old.fixed.copy()
    _add_to(fixed[:COUNT_DIGITS], sums.weight)
    for i, accumulator in enumerate(spec.accumulators):
        if not accumulator.floating:
            start = spec.layout.offsets[i]
            _add_to(fixed[start : start + accumulator.digits], sums.fixed[i])
    floats = {
        i: add_floats(old.floats[i], trim(delta, carries=1)) for i, delta in sums.floats.items()
    }
    return GroupState(fixed, floats)


def _extremes(
    spec: OperatorSpec,
    trees: GroupTrees,
    deltas: Sequence[TreeDelta],
    old: StoredGroups,
    now: GroupState,
) -> list[GroupExtremes]:
    ends = []
    for (tree, side), payload in zip(spec.extremes, old.extremes, strict=True):
        ordinal = spec.alive(tree)
        before = GroupExtremes(count_of(spec, old.state, ordinal) > 0, payload)
        live = count_of(spec, now, ordinal) > 0
        layout, last = spec.trees[tree].layout, side == "last"
        ends.append(moved_end(layout, deltas[tree], trees, before, live, last=last))
    return ends


def _count_shown(spec: OperatorSpec, groups: BatchGroups, state: GroupState) -> Int64s:
    weight = state.weight()
    if spec.groups_are_rows:
        return np.maximum(weight, 0)
    if spec.is_global:
        return np.ones(len(weight), np.int64)
    shown = weight > 0
    if spec.always:
        shown |= np.isin(groups.keys[-1].to_numpy(zero_copy_only=False), spec.always)
    return shown.astype(np.int64)


def _mask_waited(slice_: pa.Table, groups: BatchGroups, pending: PendingStatus) -> Mask:
    """Return a mask of the groups that waited before or have a row that adds nothing.

    `GroupOperator.wake` creates rows that add nothing for groups to be emitted without input rows.
    """
    waited = pending.is_pending.copy()
    waited[groups.of_row[as_mask(pc.is_null(slice_.column(WEIGHT).combine_chunks()))]] = True
    return waited
