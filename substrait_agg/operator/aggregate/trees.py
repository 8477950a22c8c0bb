"""Changes of ordered trees by a slice, and the resulting counts, distinct sums and extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.functions.aggregates.accumulators import TREE_COUNTERS, Accumulator
from substrait_agg.functions.numbers import exact
from substrait_agg.operator.aggregate.groups import CollisionIds, RowGroups, Sums, group_ordinals
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.common.spec import OperatorSpec, TreeSpec
from substrait_agg.operator.measures.row_partials import Weights, split_accumulator
from substrait_agg.operator.measures.user_aggregates import with_computed
from substrait_agg.operator.numeric.delta import (
    FloatDigits,
    fixed_digits,
    float_digits,
    int64_column,
)
from substrait_agg.required import require
from substrait_agg.state.entries import Entries, TreeLayout, consolidate
from substrait_agg.state.keys.keys import compare, encode
from substrait_agg.state.keys.rows import Hashes, Indices, Mask, is_present, take, whole
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.weights import add_weights

Int64s = npt.NDArray[np.int64]
OpenTree = Callable[[int, Entries | None], OrderedTree]
"""Opens the ordered tree with this ordinal, with further entries on top of it."""


@dataclass(frozen=True, slots=True)
class GroupTrees:
    """The groups of a slice, and the ordered trees that have their entries."""

    hashes: Hashes
    collision_ids: CollisionIds
    open_tree: OpenTree


@dataclass(frozen=True, slots=True)
class TreeDelta:
    """The changes of a tree by a slice.

    Attributes:
        entries: changed entries with the change of their weights.
        groups: the group of each entry.
        weights_before: weights before the slice.
        weights_after: weights after the slice.
        tree: the tree with the changes.
    """

    entries: Entries
    groups: Indices
    weights_before: Int64s
    weights_after: Int64s
    tree: OrderedTree

    @property
    def appeared(self) -> Int64s:
        """Return 1 for entries that became live, -1 for entries that ceased to be live, else 0."""
        return (self.weights_after > 0).astype(np.int64) - (self.weights_before > 0)

    @property
    def never_negative(self) -> bool:
        """Return whether the live entries are all entries, before and after the slice."""
        least = (self.weights_before.min(initial=0), self.weights_after.min(initial=0))
        return bool(min(least) >= 0)


def tree_delta(
    ordinal: int, spec: TreeSpec, slice_: pa.Table, of_row: Indices, trees: GroupTrees
) -> TreeDelta:
    """Apply the rows of a slice to a tree.

    Args:
        ordinal: ordinal of the tree.
        spec: the tree.
        slice_: rows with ``x*`` and ``__weight`` (null: the row adds nothing).
        of_row: the group of each row.
        trees: the groups and their stored entries.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    entries = slice_entries(spec, slice_, of_row, trees.hashes, trees.collision_ids)
    return delta_of(ordinal, entries, trees)


def tree_deltas(
    spec: OperatorSpec,
    together: Sequence[int],
    slice_: pa.Table,
    of_row: Indices,
    trees: GroupTrees,
) -> dict[int, TreeDelta]:
    """Apply the rows of a slice to trees with the same runs, and return their changes by ordinal.

    Args:
        spec: the operator.
        together: ordinals of the trees, in order of their columns of weights.
        slice_: rows with ``x*`` and ``__weight`` (null: the row adds nothing).
        of_row: the group of each row.
        trees: the groups and their stored entries.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    first, *filtered = together
    entries = slice_entries(
        spec.trees[first],
        slice_,
        of_row,
        trees.hashes,
        trees.collision_ids,
        [spec.trees[ordinal] for ordinal in filtered],
    )
    old = trees.open_tree(first, None).weights_by_tree(entries)
    groups = group_ordinals(
        trees.hashes, trees.collision_ids, entries.hashes, entries.collision_ids
    )
    tree = trees.open_tree(first, entries)
    return {
        ordinal: TreeDelta(entries, groups, before, add_weights([before, change]), tree)
        for ordinal, before, change in zip(
            together, old, (entries.weights, *entries.further), strict=True
        )
    }


def slice_entries(
    spec: TreeSpec,
    slice_: pa.Table,
    of_row: Indices,
    hashes: Hashes,
    collision_ids: CollisionIds,
    filtered: Sequence[TreeSpec] = (),
) -> Entries:
    """Return the rows of a slice as entries of a tree; arguments and errors as `tree_delta`.

    With `filtered`, the entries have the weights of further trees over the same values.
    """
    rows = find_contributing(spec, slice_)
    columns = take([whole(slice_, f"x{a}") for a in spec.arguments], rows)
    weights = int64_column(slice_, WEIGHT)[rows]
    of = of_row[rows]
    if spec.elements:
        parents = pc.list_parent_indices(columns[0]).to_numpy()
        columns, weights, of = [columns[0].flatten()], weights[parents], of[parents]
    further = [np.where(contributes(other, slice_)[rows], weights, 0) for other in filtered]
    return consolidate(
        spec.layout,
        hashes[of],
        collision_ids[of],
        cast_columns(spec, columns),
        weights,
        of,
        further,
    )


def delta_of(ordinal: int, entries: Entries, trees: GroupTrees) -> TreeDelta:
    """Return the changes of a tree by entries.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    old = trees.open_tree(ordinal, None).weights(entries)
    new = add_weights([old, entries.weights])
    groups = group_ordinals(
        trees.hashes, trees.collision_ids, entries.hashes, entries.collision_ids
    )
    return TreeDelta(entries, groups, old, new, trees.open_tree(ordinal, entries))


def cast_columns(spec: TreeSpec, columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Cast columns of values to the types of a tree's components."""
    return [c.cast(k.type) for c, k in zip(columns, spec.layout.components, strict=True)]


def find_contributing(
    spec: TreeSpec, slice_: pa.Table, names: Sequence[str] | None = None
) -> Indices:
    """Return the rows of a slice that contribute to a tree; arguments as `contributes`."""
    return np.flatnonzero(contributes(spec, slice_, names))


def contributes(spec: TreeSpec, slice_: pa.Table, names: Sequence[str] | None = None) -> Mask:
    """Return a mask of the rows of a slice that contribute to a tree.

    Args:
        spec: the tree.
        slice_: the rows.
        names: columns of the tree's components, if they are not its arguments.
    """
    keep: Mask = int64_column(slice_, WEIGHT) != 0
    columns = names or [f"x{a}" for a in spec.arguments]
    needed = [columns[i] for i in spec.skipped]
    for name in [*needed, *([f"x{spec.present}"] if spec.present is not None else [])]:
        keep &= is_present(whole(slice_, name))
    return keep


def count_entries(accumulator: Accumulator, delta: TreeDelta, groups: int) -> exact.Digits:
    """Return the change of an accumulator that counts the entries of a tree.

    It counts the live entries or all entries of each group. With only extremes kept, it counts the
    extremes seen so far.
    """
    changed = delta.appeared
    if accumulator.kind == "entries":
        changed = (delta.weights_after != 0).astype(np.int64) - (delta.weights_before != 0)
    total = np.zeros((accumulator.digits, groups), np.int64)
    # Sums of floats are exact here: they are at most the number of entries.
    total[0] = np.bincount(delta.groups, changed, groups)
    return total


def distinct_sums(
    spec: OperatorSpec, ordinal: int, delta: TreeDelta, groups: int
) -> exact.Digits | FloatDigits:
    """Return the change of a sum over live entries, by entries that became or ceased to be live."""
    accumulator = spec.accumulators[ordinal]
    tree, appeared = spec.trees[require(accumulator.tree)], delta.appeared
    moved = np.flatnonzero(appeared)
    of, weight = delta.groups[moved], appeared[moved]
    values = take(delta.entries.payload, moved)
    arguments = {a: values[i] for i, a in enumerate(tree.arguments)}
    columns = with_computed(arguments, spec.computed)
    cells = split_accumulator(ordinal, accumulator, columns, Weights.of(weight))
    table = pa.table(cells)
    rows = RowGroups.of(of, groups)
    if accumulator.floating:
        return rows.sum_floats(float_digits(table, ordinal, accumulator))
    return rows.sum_rows(fixed_digits(table, ordinal, accumulator))


@dataclass(frozen=True, slots=True)
class GroupExtremes:
    """The least or greatest live entry of each group.

    Attributes:
        payload: columns of the entry; null if there is none.
    """

    exists: Mask
    payload: tuple[pa.Array, ...]


def moved_end(
    layout: TreeLayout,
    delta: TreeDelta,
    trees: GroupTrees,
    before: GroupExtremes,
    live: Mask,
    *,
    last: bool,
) -> GroupExtremes:
    """Return an extreme of each group after a slice.

    A group is searched only if its extreme is no longer live and no new entry is beyond it. The
    search starts at the previous extreme.

    Args:
        layout: layout of the tree.
        delta: the changes of the slice.
        trees: the groups.
        before: the extreme before the slice.
        live: groups with live entries after it.
        last: the greatest entry instead of the least.
    """
    count = len(trees.hashes)
    risen, has_new = _newcomers(delta, count, last=last)
    remains = before.exists & ~_mask_dead(layout, delta, before)
    keep = remains.copy()
    both = np.flatnonzero(before.exists & has_new)
    sign = compare(
        encode(take(delta.entries.payload, risen[both]), layout.components),
        encode(take(before.payload, both), layout.components),
    )
    beyond = np.zeros(count, np.bool_)
    beyond[both] = sign > 0 if last else sign < 0
    keep &= ~beyond
    search = np.flatnonzero(live & before.exists & ~remains & ~beyond)
    fresh = np.flatnonzero(live & ~keep & (beyond | ~before.exists))
    payload = _pick(before.payload, np.flatnonzero(keep), np.flatnonzero(keep), count)
    payload = _overlaid(payload, fresh, take(delta.entries.payload, risen[fresh]))
    if len(search):
        after = encode(take(before.payload, search), layout.components)
        of = trees.hashes[search], trees.collision_ids[search]
        _, first = delta.tree.first_live(*of, after, last=last)
        payload = _overlaid(payload, search, first)
    return GroupExtremes(live, payload)


def _newcomers(delta: TreeDelta, groups: int, *, last: bool) -> tuple[Indices, Mask]:
    """Return per group the least (greatest) live changed entry, and a mask of such groups."""
    live = np.flatnonzero(delta.weights_after > 0)
    of = delta.groups[live]
    entries = np.zeros(groups, np.int64)
    if last:
        entries[of] = live
    else:
        entries[of[::-1]] = live[::-1]
    has_new = np.zeros(groups, np.bool_)
    has_new[of] = True
    return entries, has_new


def _mask_dead(layout: TreeLayout, delta: TreeDelta, before: GroupExtremes) -> Mask:
    """Return a mask of the groups whose extreme is no longer live."""
    dead = np.flatnonzero((delta.weights_before > 0) & (delta.weights_after <= 0))
    of = delta.groups[dead]
    dead, of = dead[before.exists[of]], of[before.exists[of]]
    same = compare(
        encode(take(delta.entries.payload, dead), layout.components),
        encode(take(before.payload, of), layout.components),
    )
    result = np.zeros(len(before.exists), np.bool_)
    result[of[same == 0]] = True
    return result


def _pick(
    columns: Sequence[pa.Array], rows: Indices, at: Indices, count: int
) -> tuple[pa.Array, ...]:
    """Return `count` rows per column: the rows `rows` of `columns` at `at`, null elsewhere."""
    index = np.zeros(count, np.int64)
    missing = np.ones(count, np.bool_)
    index[at], missing[at] = rows, False
    indices = pa.array(index, mask=missing)
    return tuple(column.take(indices) for column in columns)


def overlaid(column: pa.Array, at: Indices, values: pa.Array) -> pa.Array:
    """Return the column with `values` at the positions `at`."""
    if not len(at):
        return column
    index = np.arange(len(column))
    index[at] = len(column) + np.arange(len(at))
    return pa.concat_arrays([column, values]).take(pa.array(index))


def _overlaid(
    columns: Sequence[pa.Array], at: Indices, values: Sequence[pa.Array]
) -> tuple[pa.Array, ...]:
    return tuple(overlaid(c, at, v) for c, v in zip(columns, values, strict=True))


def add_entries(spec: OperatorSpec, deltas: Sequence[TreeDelta], groups: int, sums: Sums) -> Sums:
    """Return `sums` with the changes of the accumulators that read trees."""
    fixed, floats = dict(sums.fixed), dict(sums.floats)
    live: dict[int, int] = {}  # tree -> the accumulator that counts its live entries
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.tree is None:
            continue
        delta = deltas[accumulator.tree]
        if accumulator.kind in TREE_COUNTERS:
            at = live.get(accumulator.tree) if accumulator.kind == "entries" else None
            if at is not None and delta.never_negative:
                fixed[i] = fixed[at].copy()
                continue
            fixed[i] = count_entries(accumulator, delta, groups)
            if accumulator.kind == "live":
                live[accumulator.tree] = i
            continue
        total = distinct_sums(spec, i, delta, groups)
        if isinstance(total, FloatDigits):
            floats[i] = total
        else:
            fixed[i] = total
    return Sums(sums.weight, fixed, floats)
