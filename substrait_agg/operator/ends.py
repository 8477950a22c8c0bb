"""The ends of the values that rows bring, where nothing else is kept of them (`flow.ends`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.operator.groups import Chains, RowGroups
from substrait_agg.operator.spec import OperatorSpec, TreeSpec
from substrait_agg.operator.trees import Delta, OpenTree, argument_of, contributing, typed
from substrait_agg.state.canonical import canonical
from substrait_agg.state.entries import Entries
from substrait_agg.state.keys import Keys, compare, encode
from substrait_agg.state.rows import Hashes, Indices, take


def ends_delta(
    ordinal: int,
    spec: OperatorSpec,
    slice_: pa.Table,
    groups: RowGroups,
    hashes: Hashes,
    chains: Chains,
    open_tree: OpenTree,
) -> Delta:
    """The least and greatest values of a slice, as entries that nothing was there of before.

    Args:
        ordinal: which tree.
        spec: the operator.
        slice_: rows with ``x*`` and ``__weight`` (null: the row adds nothing), all of them insertions.
        groups: the group of each row.
        hashes: per group.
        chains: per group.
        open_tree: gives the tree.
    """
    tree = spec.trees[ordinal]
    rows, of = _in_groups(tree, slice_, groups)
    columns = typed(tree, [argument_of(slice_, a).take(pa.array(rows)) for a in tree.arguments])
    keys = encode(columns, tree.layout.components)
    sides = sorted(side for t, side in spec.ends if t == ordinal)
    chosen = _each_once(keys, [extreme_rows(keys, of, last=side == "last") for side in sides])
    at = of[chosen]
    weights = np.ones(len(chosen), np.int64)
    shown = tuple(canonical(column) for column in take(columns, chosen))
    entries = Entries(hashes[at], chains[at], keys.take(chosen), shown, weights)
    return Delta(entries, at, np.zeros_like(weights), weights, open_tree(ordinal, entries))


def _in_groups(tree: TreeSpec, slice_: pa.Table, groups: RowGroups) -> tuple[Indices, Indices]:
    """The rows that the tree takes in, those of one group behind each other, and the group of each."""
    takes = np.zeros(slice_.num_rows, np.bool_)
    takes[contributing(tree, slice_)] = True
    lengths = np.diff(groups.starts, append=len(groups.order))
    which = np.arange(groups.count) if groups.at is None else groups.at
    kept = takes[groups.order]
    return groups.order[kept], np.repeat(which, lengths)[kept]


def extreme_rows(keys: Keys, groups: Indices, *, last: bool) -> Indices:
    """Per group that has rows, the first of those with its least (greatest) key.

    Word by word, the rows are left that have the extreme of their group; texts are compared where more than one is left.

    Args:
        keys: per row.
        groups: per row, ascending.
        last: the greatest instead of the least.
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
    """The rows, of those that are left, whose rest is the extreme of their group: the first of each group."""
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
    """Where each group begins, and how many rows it has."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return starts, np.diff(starts, append=len(groups))


def _each_once(keys: Keys, ends: list[Indices]) -> Indices:
    """One end of each group, or both in order of group and key: one entry where the least is the greatest."""
    if len(ends) == 1:
        return ends[0]
    least, greatest = ends
    differ = compare(keys.take(least), keys.take(greatest)) != 0
    both: Indices = np.stack([least, greatest], axis=1).ravel()
    return both[np.stack([np.ones_like(differ), differ], axis=1).ravel()]
