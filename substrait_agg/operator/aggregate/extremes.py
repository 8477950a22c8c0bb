"""The extremes of the rows of a slice, for trees with only extremes kept.

`flow.graph.measures` selects these trees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.flow.graph.graph import ARRIVAL_BATCH, ARRIVAL_POSITION
from substrait_agg.operator.aggregate.groups import RowGroups
from substrait_agg.operator.aggregate.trees import (
    GroupTrees,
    TreeDelta,
    cast_columns,
    find_contributing,
)
from substrait_agg.operator.common.names import END, POSITION
from substrait_agg.operator.common.spec import OperatorSpec, TreeSpec
from substrait_agg.state.entries import Entries
from substrait_agg.state.keys.canonical import canonical
from substrait_agg.state.keys.keys import EncodedKeys, compare, encode
from substrait_agg.state.keys.rows import Indices, take, whole

_ARRIVAL = {ARRIVAL_BATCH: "", ARRIVAL_POSITION: POSITION}
"""Columns of the components of an arrival; the batch is the same for all rows of a slice."""


@dataclass(frozen=True, slots=True)
class _Values:
    """The values that rows bring to a tree, ordered by group."""

    columns: list[pa.Array]
    keys: EncodedKeys
    groups: Indices

    def at(self, rows: Indices) -> _Values:
        """Return some of the values."""
        return _Values(take(self.columns, rows), self.keys.take(rows), self.groups[rows])


def extremes_delta(
    ordinal: int,
    spec: OperatorSpec,
    slice_: pa.Table,
    groups: RowGroups,
    trees: GroupTrees,
    *,
    version: int,
) -> TreeDelta:
    """Return the least and greatest values of a slice, as new entries.

    Args:
        ordinal: ordinal of the tree.
        spec: the operator.
        slice_: rows with ``x*``, or with ``lo*`` and ``hi*``, and ``__weight`` (null: the row adds
            nothing), all of them insertions.
        groups: the group of each row.
        trees: the groups and their stored entries.
        version: the version of the batch.
    """
    tree = spec.trees[ordinal]
    read: dict[tuple[str, ...], _Values] = {}
    ends = []
    for side in sorted(side for t, side in spec.extremes if t == ordinal):
        names = _names(tree, side, slice_)
        if names not in read:
            read[names] = _values(tree, names, slice_, groups, version)
        values = read[names]
        ends.append(values.at(extreme_rows(values.keys, values.groups, last=side == "last")))
    extremes = ends[0] if len(ends) == 1 else _each_once(*ends)
    shown = tuple(map(canonical, extremes.columns))
    at = extremes.groups
    weights = np.ones(len(at), np.int64)
    of = trees.hashes[at], trees.collision_ids[at]
    entries = Entries(*of, extremes.keys, shown, weights)
    return TreeDelta(
        entries, at, np.zeros_like(weights), weights, trees.open_tree(ordinal, entries)
    )


def _names(tree: TreeSpec, side: str, slice_: pa.Table) -> tuple[str, ...]:
    """Return the columns that contain the candidates for an extreme."""
    partial = f"{END[side]}{tree.arguments[0]}"
    if tree.partial and partial in slice_.column_names:
        return (partial,)
    return tuple(_ARRIVAL.get(argument, f"x{argument}") for argument in tree.arguments)


def _values(
    tree: TreeSpec, names: tuple[str, ...], slice_: pa.Table, groups: RowGroups, version: int
) -> _Values:
    takes = np.zeros(slice_.num_rows, np.bool_)
    takes[find_contributing(tree, slice_, names)] = True
    lengths = np.diff(groups.starts, append=len(groups.order))
    which = np.arange(groups.count) if groups.at is None else groups.at
    values_mask = takes[groups.order]
    rows = groups.order[values_mask]
    batch = pa.array(np.full(len(rows), version, np.int64))
    argument_columns = [
        whole(slice_, name).take(pa.array(rows)) if name else batch for name in names
    ]
    columns = cast_columns(tree, argument_columns)
    keys = encode(columns, tree.layout.components)
    return _Values(columns, keys, np.repeat(which, lengths)[values_mask])


def extreme_rows(keys: EncodedKeys, groups: Indices, *, last: bool) -> Indices:
    """Return, per group with rows, the first row with its least (greatest) key.

    Word by word, only the rows with the extreme of their group remain. The rest of the keys is
    compared only if several rows of a group remain.

    Args:
        keys: per row.
        groups: per row, ascending.
        last: the greatest key instead of the least.
    """
    left = np.arange(len(groups))
    reduce = np.maximum if last else np.minimum
    for word in keys.words:
        if not len(left):
            return left
        starts, lengths = _runs(groups[left])
        values = word[left]
        best = np.repeat(reduce.reduceat(values, starts), lengths)
        left = left[values == best]
    if keys.rest is not None:
        left = _by_rest(keys.rest, groups, left, last=last)
    starts, _ = _runs(groups[left])
    return left[starts]


def _by_rest(rest: pa.Array, groups: Indices, left: Indices, *, last: bool) -> Indices:
    """Return the first remaining row of each group with the extreme rest of the key."""
    _, lengths = _runs(groups[left])
    tied = np.repeat(lengths > 1, lengths)
    rows = left[tied]
    way = "descending" if last else "ascending"
    table = pa.table({"group": groups[rows], "rest": rest.take(pa.array(rows)), "row": rows})
    order = pc.sort_indices(table, [("group", "ascending"), ("rest", way), ("row", "ascending")])
    rows = rows[order.to_numpy()]
    firsts, _ = _runs(groups[rows])
    return np.sort(np.concatenate([left[~tied], rows[firsts]]))


def _runs(groups: Indices) -> tuple[Indices, Indices]:
    """Return the start of each group, and its number of rows."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return starts, np.diff(starts, append=len(groups))


def _each_once(least: _Values, greatest: _Values) -> _Values:
    """Return both extremes of every group, ordered by group and key, without duplicates."""
    count = len(least.groups)
    differ = compare(least.keys, greatest.keys) != 0
    places = np.stack([np.arange(count), np.arange(count) + count], axis=1).ravel()
    keep = np.stack([np.ones_like(differ), differ], axis=1).ravel()
    columns = zip(least.columns, greatest.columns, strict=True)
    both = _Values(
        [pa.concat_arrays(pair) for pair in columns],
        EncodedKeys.concat([least.keys, greatest.keys]),
        np.concatenate([least.groups, greatest.groups]),
    )
    return both.at(places[keep])
