"""Early retractions: retractions that come before their insertion.

If they are not carried, a tree of whole rows, the guard, detects them. An entry of that tree with a
weight below zero is a row with more retractions than insertions. ``refuse`` fails the batch.
``quarantine`` applies only changes of weights above zero; the rest stays in the tree, where a later
insertion cancels it.

The groups of a multiset are its rows, so it needs no guard: a group with a weight below zero is
such a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.errors import RunFailed
from substrait_agg.operator.aggregate.arrivals import matched_entries, positions
from substrait_agg.operator.aggregate.groups import (
    BatchGroups,
    RowGroups,
    group_ordinals,
)
from substrait_agg.operator.aggregate.trees import (
    GroupTrees,
    TreeDelta,
    find_contributing,
    tree_delta,
)
from substrait_agg.operator.common.names import LAST_POSITION, POSITION, WEIGHT
from substrait_agg.operator.common.spec import OperatorSpec, TreeSpec
from substrait_agg.operator.measures.finalize import GroupState, row_counts
from substrait_agg.operator.measures.row_partials import split_rows
from substrait_agg.required import require
from substrait_agg.state.entries import consolidate
from substrait_agg.state.keys.keys import encode
from substrait_agg.state.keys.rows import Indices, Mask, take, whole

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AcceptedRows:
    """The rows of a slice that count.

    Attributes:
        rows: delta rows as described in `operator.numeric.delta`.
        of_row: the group of each row.
        delta: the changes of the guard, if there is one.
        quarantined: change of the number of rows that wait for their insertion.
        early: number of rows newly set aside.
    """

    rows: pa.Table
    of_row: Indices
    groups: RowGroups
    delta: TreeDelta | None = None
    quarantined: int = 0
    early: int = 0


def hold_early_retractions(
    spec: OperatorSpec, slice_: pa.Table, groups: BatchGroups, trees: GroupTrees
) -> AcceptedRows:
    """Select the rows of a slice that count, by the operator's policy for early retractions.

    Raises:
        RunFailed: EARLY_RETRACTION under ``refuse``.
    """
    if spec.guard is None:
        return AcceptedRows(slice_, groups.of_row, groups.rows)
    guard = spec.trees[spec.guard]
    delta = tree_delta(spec.guard, guard, slice_, groups.of_row, trees)
    weights = delta.entries.weights
    if spec.early == "refuse":
        early = np.flatnonzero(_early(weights, delta.weights_after))
        _refuse(early, take(groups.keys, delta.groups[early[:1]]), delta.entries.payload)
        if spec.by_arrival:
            # All rows count, also those that cancel: the newest of them decides when a value arrived.
            rows = _split(_rows_of(slice_, guard), spec)
            return AcceptedRows(rows, groups.of_row, groups.rows, delta)
    else:
        weights = np.maximum(delta.weights_after, 0) - np.maximum(delta.weights_before, 0)
    single = np.zeros(0, np.int64)
    if spec.by_arrival:
        single = _rows_above_zero(spec.guard, guard, slice_, groups, trees)
        weights = np.where((delta.weights_before < 0) | (delta.weights_after < 0), weights, 0)
    moved = np.flatnonzero(weights)
    of_row = np.concatenate([groups.of_row[single], delta.groups[moved]])
    rows = _split(_counting_rows(spec, delta, weights, slice_, groups, single), spec)
    waiting = _below(delta.weights_after) - _below(delta.weights_before)
    early_rows = newly_below_zero(delta.weights_before, delta.weights_after)
    return AcceptedRows(
        rows, of_row, RowGroups.of(of_row, groups.count), delta, waiting, early_rows
    )


def _counting_rows(
    spec: OperatorSpec,
    delta: TreeDelta,
    weights: Int64s,
    slice_: pa.Table,
    groups: BatchGroups,
    single: Indices,
) -> pa.Table:
    """Return the rows that count: those that count one by one, then one row per changed entry."""
    guard, moved = spec.trees[require(spec.guard)], np.flatnonzero(weights)
    names = [f"x{a}" for a in guard.arguments]
    columns = dict(zip(names, take(delta.entries.payload, moved), strict=True))
    columns[WEIGHT] = pa.array(weights[moved])
    if spec.by_arrival:
        # Equal rows of one batch are one row from here on: store the first and last position.
        for name, latest in ((POSITION, False), (LAST_POSITION, True)):
            at = positions(guard, delta, slice_, groups.of_row, latest=latest)
            columns[name] = pa.array(at[moved])
    together = pa.table(columns)
    if not len(single):
        return together
    alone = _rows_of(slice_.take(pa.array(single)), guard)
    alone = alone.append_column(LAST_POSITION, alone.column(POSITION))
    return pa.concat_tables([alone.select(together.column_names), together])


def _rows_above_zero(
    ordinal: int,
    guard: TreeSpec,
    slice_: pa.Table,
    groups: BatchGroups,
    trees: GroupTrees,
) -> Indices:
    """Return the rows of a slice of which no equal row waits, before or after the slice.

    They count one by one, also those that cancel, because the position of each may be that of the
    arrival of a value.
    """
    rows = find_contributing(guard, slice_)
    of = groups.of_row[rows]
    some = slice_.take(pa.array(rows))
    pairs = zip(guard.arguments, guard.layout.components, strict=True)
    columns = [whole(some, f"x{a}").cast(c.type) for a, c in pairs]
    weights = whole(some, WEIGHT).to_numpy()
    place = trees.hashes[of], trees.collision_ids[of]
    touched = consolidate(guard.layout, *place, columns, np.ones(len(rows), np.int64))
    owners = group_ordinals(
        trees.hashes, trees.collision_ids, touched.hashes, touched.collision_ids
    )
    entry = matched_entries(owners, touched.keys, of, encode(columns, guard.layout.components))
    before = trees.open_tree(ordinal, None).weights(touched)
    after = before.copy()
    np.add.at(after, entry, weights)
    return np.asarray(rows[((before >= 0) & (after >= 0))[entry]])


def _rows_of(slice_: pa.Table, guard: TreeSpec) -> pa.Table:
    """Return the columns of the guard, the position and the weight."""
    columns = {f"x{a}": whole(slice_, f"x{a}") for a in guard.arguments}
    # The row that creates the group of an aggregate without grouping has neither.
    columns |= {name: whole(slice_, name).fill_null(0) for name in (POSITION, WEIGHT)}
    return pa.table(columns)


def _split(rows: pa.Table, spec: OperatorSpec) -> pa.Table:
    """Return rows as delta rows."""
    arrays = [whole(rows, name) for name in rows.column_names]
    batch = pa.RecordBatch.from_arrays(arrays, names=rows.column_names)
    return pa.Table.from_batches([split_rows(batch, spec)])


def _below(weights: Int64s) -> int:
    return -int(np.minimum(weights, 0).sum())


def newly_below_zero(old: Int64s, new: Int64s) -> int:
    """Return how many rows fell below zero; rows that return from below zero are not subtracted."""
    return int(np.maximum(np.minimum(old, 0) - np.minimum(new, 0), 0).sum())


def early_retractions(spec: OperatorSpec, old: GroupState, new: GroupState) -> int:
    """Return the number of early retractions, from the weights of groups before and after a slice.

    If they are carried, these are the groups whose total weight fell below zero. In the quarantine
    of a multiset, these are the rows newly quarantined. Other operators detect them by rows
    (`hold_early_retractions`).
    """
    if spec.weight == "append_only":
        return 0
    before, after = row_counts(spec, old), row_counts(spec, new)
    if spec.early == "carry":
        return int(np.count_nonzero((after < 0) & (before >= 0)))
    return newly_below_zero(before, after) if spec.groups_are_rows else 0


def report_early_retractions(
    spec: OperatorSpec, keys: Sequence[pa.Array], old: Int64s, new: Int64s
) -> int:
    """Return the change of the number of rows that wait in a multiset.

    Args:
        spec: the operator.
        keys: the rows of a slice.
        old: their weights before it; one line per input that is counted on its own.
        new: their weights after it, likewise.

    Raises:
        RunFailed: EARLY_RETRACTION under ``refuse``.
    """
    if spec.early == "carry":
        return 0
    if spec.early == "refuse":
        early = np.atleast_2d(_early(new - old, new)).any(axis=0)
        _refuse(np.flatnonzero(early), (), keys)
    return _below(new) - _below(old)


def _early(changes: Int64s, new: Int64s) -> Mask:
    return (new < 0) & (changes < 0)


def _refuse(early: Indices, key: Sequence[pa.Array], rows: Sequence[pa.Array]) -> None:
    """Fail if there are early retractions."""
    if not len(early):
        return
    values = ", ".join(str(column[0].as_py()) for column in take(rows, early[:1]))
    named = f"({values})"
    if key:
        named += f" in the group ({', '.join(str(column[0].as_py()) for column in key)})"
    raise RunFailed(
        "EARLY_RETRACTION",
        f"{len(early)} rows are retracted more often than they were inserted; the first is {named}",
        help="nothing of the batch was committed; correct the source and run again, or start a new checkpoint with "
        "--early-retraction carry or quarantine",
    )
