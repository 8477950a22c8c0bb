"""What a slice does to an ordered tree, and what follows for the group: live entries, sums of distinct values, ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.functions.aggregates.accumulators import DIGIT_BITS, TREE_COUNTERS, Accumulator
from substrait_agg.functions.numbers import exact
from substrait_agg.operator.aggregate.groups import CollisionIds, RowGroups, Sums, places
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.common.spec import OperatorSpec, TreeSpec
from substrait_agg.operator.measures.row_partials import split_accumulator
from substrait_agg.operator.measures.user_aggregates import with_computed
from substrait_agg.operator.numeric.delta import FloatDigits, fixed_digits, float_digits
from substrait_agg.state.entries import Entries, TreeLayout, consolidate
from substrait_agg.state.keys.keys import compare, encode
from substrait_agg.state.keys.rows import Hashes, Indices, Mask, as_mask, take, whole
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.weights import add_weights

Int64s = npt.NDArray[np.int64]
OpenTree = Callable[[int, Entries | None], OrderedTree]
"""Opens the tree of an ordinal with the entries of the slice on top."""


@dataclass(frozen=True, slots=True)
class Delta:
    """What a slice changes in a tree.

    Attributes:
        entries: changed entries with what is added to their weights.
        groups: per entry its group.
        old: weights before.
        new: weights after.
        tree: the tree with the changes.
    """

    entries: Entries
    groups: Indices
    old: Int64s
    new: Int64s
    tree: OrderedTree

    @property
    def appeared(self) -> Int64s:
        """1 where an entry came to life, -1 where it died."""
        return (self.new > 0).astype(np.int64) - (self.old > 0)


def tree_delta(
    ordinal: int,
    spec: TreeSpec,
    slice_: pa.Table,
    of_row: Indices,
    hashes: Hashes,
    chains: CollisionIds,
    open_tree: OpenTree,
) -> Delta:
    """Fold the rows of a slice into a tree.

    Args:
        ordinal: which tree.
        spec: the tree.
        slice_: rows with ``x*`` and ``__weight`` (null: the row adds nothing).
        of_row: the group of each row.
        hashes: per group.
        chains: per group.
        open_tree: gives the tree.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    rows = contributing(spec, slice_)
    columns = [whole(slice_, f"x{a}").take(pa.array(rows)) for a in spec.arguments]
    weights = pc.fill_null(whole(slice_, WEIGHT), 0).to_numpy(zero_copy_only=False)[rows]
    of = of_row[rows]
    if spec.elements:
        parents = pc.list_parent_indices(columns[0]).to_numpy()
        columns, weights, of = [columns[0].flatten()], weights[parents], of[parents]
    entries = consolidate(spec.layout, hashes[of], chains[of], typed(spec, columns), weights, of)
    return delta_of(ordinal, entries, hashes, chains, open_tree)


def delta_of(
    ordinal: int, entries: Entries, hashes: Hashes, chains: CollisionIds, open_tree: OpenTree
) -> Delta:
    """What entries change in a tree.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    old = open_tree(ordinal, None).weights(entries)
    new = add_weights([old, entries.weights])
    at = places(hashes, chains, entries.hashes, entries.chains)
    return Delta(entries, at, old, new, open_tree(ordinal, entries))


def typed(spec: TreeSpec, columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Columns of values in the types that a tree has them in."""
    return [c.cast(k.type) for c, k in zip(columns, spec.layout.components, strict=True)]


def contributing(spec: TreeSpec, slice_: pa.Table, names: Sequence[str] | None = None) -> Indices:
    """The rows of a slice that a tree takes in; `names` are the columns of its components where they are not the arguments."""
    weight = whole(slice_, WEIGHT)
    keep = pc.fill_null(pc.not_equal(weight, 0), False)
    columns = names or [f"x{a}" for a in spec.arguments]
    needed = [columns[i] for i in spec.skipped]
    for name in [*needed, *([f"x{spec.present}"] if spec.present >= 0 else [])]:
        keep = pc.and_(keep, pc.is_valid(whole(slice_, name)))
    return np.flatnonzero(as_mask(keep))


def counted(accumulator: Accumulator, delta: Delta, groups: int) -> exact.Digits:
    """What a slice adds to the number of live entries, or of entries at all, of each group, or to that of ends it has met."""
    changed = delta.appeared
    if accumulator.kind == "entries":
        changed = (delta.new != 0).astype(np.int64) - (delta.old != 0)
    total = np.zeros((accumulator.digits, groups), np.int64)
    np.add.at(total[0], delta.groups, changed)
    return total


def distinct_sums(
    spec: OperatorSpec, ordinal: int, delta: Delta, groups: int
) -> exact.Digits | FloatDigits:
    """What the entries that came to life or died add to a sum over the live entries."""
    accumulator = spec.accumulators[ordinal]
    tree, appeared = spec.trees[accumulator.tree], delta.appeared
    moved = np.flatnonzero(appeared)
    of, weight = delta.groups[moved], appeared[moved]
    values = take(delta.entries.payload, moved)
    given = {a: values[i] for i, a in enumerate(tree.arguments)}
    columns = with_computed(given, spec.computed)
    cells = split_accumulator(ordinal, accumulator, columns, weight, "sign")
    table = pa.table(cells)
    rows = RowGroups.of(of, groups)
    if accumulator.floating:
        return rows.add_up_floats(float_digits(table, ordinal, accumulator, DIGIT_BITS))
    return rows.sum_rows(fixed_digits(table, ordinal, accumulator, DIGIT_BITS))


@dataclass(frozen=True, slots=True)
class Extreme:
    """The least or greatest live entry of each group: payload columns, null where `there` is False."""

    there: Mask
    payload: tuple[pa.Array, ...]


def moved_end(
    layout: TreeLayout,
    delta: Delta,
    hashes: Hashes,
    chains: CollisionIds,
    before: Extreme,
    live: Mask,
    *,
    last: bool,
) -> Extreme:
    """Where an end of the tree is after a slice.

    Only a group whose end died, and that got no entry beyond it, is searched, and from there on.

    Args:
        layout: of the tree.
        delta: what the slice changed.
        hashes: per group.
        chains: per group.
        before: the end before the slice.
        live: groups with live entries after it.
        last: the greatest entry instead of the least.
    """
    count = len(hashes)
    risen, came = _newcomers(delta, count, last=last)
    held = before.there & ~_died(layout, delta, before)
    keep = held.copy()
    both = np.flatnonzero(before.there & came)
    sign = compare(
        encode(take(delta.entries.payload, risen[both]), layout.components),
        encode(take(before.payload, both), layout.components),
    )
    beyond = np.zeros(count, np.bool_)
    beyond[both] = sign > 0 if last else sign < 0
    keep &= ~beyond
    search = np.flatnonzero(live & before.there & ~held & ~beyond)
    fresh = np.flatnonzero(live & ~keep & (beyond | ~before.there))
    payload = _picked(before.payload, np.flatnonzero(keep), np.flatnonzero(keep), count)
    payload = _overlaid(payload, fresh, take(delta.entries.payload, risen[fresh]))
    if len(search):
        after = encode(take(before.payload, search), layout.components)
        _, found = delta.tree.first_live(hashes[search], chains[search], after, last=last)
        payload = _overlaid(payload, search, found)
    return Extreme(live, payload)


def _newcomers(delta: Delta, groups: int, *, last: bool) -> tuple[Indices, Mask]:
    """Per group its least (greatest) changed entry that is live, and which groups have one."""
    live = np.flatnonzero(delta.new > 0)
    of = delta.groups[live]
    chosen = np.zeros(groups, np.int64)
    if last:
        chosen[of] = live
    else:
        chosen[of[::-1]] = live[::-1]
    came = np.zeros(groups, np.bool_)
    came[of] = True
    return chosen, came


def _died(layout: TreeLayout, delta: Delta, before: Extreme) -> Mask:
    """Groups whose end is no longer live."""
    dead = np.flatnonzero((delta.old > 0) & (delta.new <= 0))
    of = delta.groups[dead]
    dead, of = dead[before.there[of]], of[before.there[of]]
    same = compare(
        encode(take(delta.entries.payload, dead), layout.components),
        encode(take(before.payload, of), layout.components),
    )
    result = np.zeros(len(before.there), np.bool_)
    result[of[same == 0]] = True
    return result


def _picked(
    columns: Sequence[pa.Array], rows: Indices, at: Indices, count: int
) -> tuple[pa.Array, ...]:
    """Columns of `count` rows with the rows `rows` of `columns` at the places `at`, null elsewhere."""
    index = np.zeros(count, np.int64)
    missing = np.ones(count, np.bool_)
    index[at], missing[at] = rows, False
    chosen = pa.array(index, mask=missing)
    return tuple(column.take(chosen) for column in columns)


def overlaid(column: pa.Array, at: Indices, values: pa.Array) -> pa.Array:
    """The column with `values` at the places `at`."""
    if not len(at):
        return column
    index = np.arange(len(column))
    index[at] = len(column) + np.arange(len(at))
    return pa.concat_arrays([column, values]).take(pa.array(index))


def _overlaid(
    columns: Sequence[pa.Array], at: Indices, values: Sequence[pa.Array]
) -> tuple[pa.Array, ...]:
    return tuple(overlaid(c, at, v) for c, v in zip(columns, values, strict=True))


def add_entries(spec: OperatorSpec, deltas: Sequence[Delta], groups: int, sums: Sums) -> Sums:
    """`sums` with what the slice adds to the accumulators that trees feed."""
    fixed, floats = dict(sums.fixed), dict(sums.floats)
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.tree < 0:
            continue
        delta = deltas[accumulator.tree]
        if accumulator.kind in TREE_COUNTERS:
            fixed[i] = counted(accumulator, delta, groups)
            continue
        total = distinct_sums(spec, i, delta, groups)
        if isinstance(total, FloatDigits):
            floats[i] = total
        else:
            fixed[i] = total
    return Sums(sums.weight, fixed, floats)
