"""The order in which values arrived: the version of the batch, and the position in it.

Equal values of a group are one entry, so a value has one arrival. For `first` it is the row that
made the value appear; for `last` it is the newest row with the value. Two trees store arrivals: one
to look them up by value, one ordered by arrival. Deleting one of several equal rows changes neither
tree. Deleting the last of them deletes the arrival of the value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.operator.aggregate.trees import (
    GroupTrees,
    TreeDelta,
    delta_of,
    find_contributing,
)
from substrait_agg.operator.common.names import LAST_POSITION, POSITION, WEIGHT
from substrait_agg.operator.common.spec import TreeSpec
from substrait_agg.state.entries import consolidate
from substrait_agg.state.keys.keys import EncodedKeys, encode, sort_order
from substrait_agg.state.keys.rows import Indices
from substrait_agg.state.ordered import OrderedTree

Int64s = npt.NDArray[np.int64]
_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Changes of arrivals, as rows of both trees.

    Attributes:
        groups: the group of each row.
        values: the value that arrived.
        batch: int64, the version of the batch.
        position: int64, the position in the batch.
        weights: -1 for deleted arrivals, 1 for new ones.
    """

    groups: Indices
    values: pa.Array
    batch: Int64s
    position: Int64s
    weights: Int64s

    def columns(self, spec: TreeSpec) -> list[pa.Array]:
        """Return the columns in the order of a tree's components."""
        batch, position = pa.array(self.batch), pa.array(self.position)
        by_value = spec.follows is not None and spec.follows.by_value
        return [self.values, batch, position] if by_value else [batch, position, self.values]


def arrivals_delta(ordinal: int, spec: TreeSpec, moved: Arrivals, trees: GroupTrees) -> TreeDelta:
    """Apply changes of arrivals to one of the trees that store them."""
    of = trees.hashes[moved.groups], trees.collision_ids[moved.groups]
    entries = consolidate(spec.layout, *of, moved.columns(spec), moved.weights)
    return delta_of(ordinal, entries, trees)


def moved_arrivals(
    base: TreeDelta,
    arrived: Int64s,
    by_value: TreeSpec,
    stored: OrderedTree,
    version: int,
) -> Arrivals:
    """Return the changes of arrivals that follow from the changes of the tree of values.

    Args:
        base: the changes of the tree of values.
        arrived: per changed entry the position of the row that inserts it (`positions`).
        by_value: the tree of arrivals by value.
        stored: the stored entries of that tree.
        version: the version of the batch.
    """
    latest = by_value.follows is not None and by_value.follows.latest
    was, is_ = base.weights_before > 0, base.weights_after > 0
    gains = is_ & (base.entries.weights > 0) if latest else is_ & ~was
    leaves = was & (gains | ~is_)
    left_rows, new_rows = np.flatnonzero(leaves), np.flatnonzero(gains)
    old = _find_known(base, left_rows, by_value, stored)
    values = base.entries.payload[0]
    return Arrivals(
        np.concatenate([base.groups[left_rows], base.groups[new_rows]]),
        values.take(pa.array(np.concatenate([left_rows, new_rows]))),
        np.concatenate([old[0], np.full(len(new_rows), version, np.int64)]),
        np.concatenate([old[1], arrived[new_rows]]),
        np.repeat(np.array([-1, 1], np.int64), [len(left_rows), len(new_rows)]),
    )


def _find_known(
    base: TreeDelta, rows: Indices, by_value: TreeSpec, stored: OrderedTree
) -> tuple[Int64s, Int64s]:
    """Return the stored arrivals of values that have one: batch and position."""
    if not len(rows):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    never = pa.array(np.full(len(rows), _NEVER, np.int64))
    values = base.entries.payload[0].take(pa.array(rows))
    after = encode([values, never, never], by_value.layout.components)
    hashes, collision_ids = base.entries.hashes[rows], base.entries.collision_ids[rows]
    _, arrivals = stored.first_live(hashes, collision_ids, after)
    return arrivals[1].to_numpy(zero_copy_only=False), arrivals[2].to_numpy(zero_copy_only=False)


def positions(
    spec: TreeSpec, delta: TreeDelta, slice_: pa.Table, of_row: Indices, *, latest: bool
) -> Int64s:
    """Return per changed entry the position of the first (last) row that inserts it."""
    weight = slice_.column(WEIGHT).combine_chunks()
    rows = find_contributing(spec, slice_)
    rows = rows[weight.take(pa.array(rows)).to_numpy() > 0]
    indices = pa.array(rows)
    columns = [
        slice_.column(f"x{a}").combine_chunks().take(indices).cast(c.type)
        for a, c in zip(spec.arguments, spec.layout.components, strict=True)
    ]
    keys = encode(columns, spec.layout.components)
    entry = matched_entries(delta.groups, delta.entries.keys, of_row[rows], keys)
    name = LAST_POSITION if latest and LAST_POSITION in slice_.column_names else POSITION
    position = slice_.column(name).combine_chunks().take(indices).to_numpy()
    here = entry >= 0
    result = np.full(len(delta.entries), -1 if latest else np.iinfo(np.int64).max, np.int64)
    pick = np.maximum if latest else np.minimum
    pick.at(result, entry[here], position[here])
    return result


def matched_entries(
    owners: Indices, entries: EncodedKeys, groups: Indices, keys: EncodedKeys
) -> Indices:
    """Return the entry with the group and key of each row, -1 if there is none.

    Args:
        owners: the group of each entry.
        entries: the key of each entry; no two entries are equal.
        groups: the group of each row.
        keys: the key of each row.
    """
    count = len(entries)
    order, first = sort_order(
        [np.concatenate([owners, groups])], EncodedKeys.concat([entries, keys])
    )
    label = np.empty(len(order), np.int64)
    label[order] = np.cumsum(first) - 1
    entry_of = np.full(len(order), -1, np.int64)
    entry_of[label[:count]] = np.arange(count)
    return np.asarray(entry_of[label[count:]])
