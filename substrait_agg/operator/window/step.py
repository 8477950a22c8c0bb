"""The window operator: changes of rows whose values differ after a batch.

The values of the rows around the changed ones are computed before and after the batch. Where values
depend on a limited number of rows, only so many rows around the changed ones are read. Values at
the ends of what is read may be wrong, but are equal before and after the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.errors import RunFailed
from substrait_agg.operator.top_k.step import OrderedRowsOperator
from substrait_agg.operator.top_k.window import (
    OrderedGroups,
    RowChanges,
    first_changed,
    last_changed,
    lesser,
)
from substrait_agg.operator.window.frames import PartitionRows
from substrait_agg.operator.window.spec import WindowSpec
from substrait_agg.operator.window.values import function_values
from substrait_agg.state.keys.keys import Component, encode, sort_order
from substrait_agg.state.keys.rows import Indices, take
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.ranks import Positions
from substrait_agg.state.row_ranges import GatheredEntries

Int64s = npt.NDArray[np.int64]

ROWS_AT_ONCE = 1 << 18
"""Rows whose values are computed at once, or more if one partition has more."""
MOST_ROWS = 1 << 26
"""Most rows of a partition whose values a batch may compute."""


@dataclass(frozen=True, slots=True)
class WindowOperator(OrderedRowsOperator):
    """The operator that adds values of window functions to rows."""

    spec: WindowSpec

    def _changes(self, groups: OrderedGroups) -> Sequence[RowChanges]:
        return value_changes(self.spec, groups)


def value_changes(spec: WindowSpec, groups: OrderedGroups) -> list[RowChanges]:
    """Return the changes of the rows with their values.

    Raises:
        RunFailed: WINDOW_TOO_LARGE, or RESULT_OVERFLOW of a measure.
    """
    if not len(groups.changed):
        return []
    low, high, sizes = _range_to_read(spec, groups)
    if int(sizes.max()) > MOST_ROWS:
        raise _too_large()
    part = np.cumsum(sizes.astype(np.float64)) // ROWS_AT_ONCE
    cuts = np.flatnonzero(np.diff(part)) + 1
    changes = []
    for some in np.split(np.arange(len(sizes)), cuts):
        within = replace(
            groups, hashes=groups.hashes[some], collision_ids=groups.collision_ids[some]
        )
        entries_and_change = within.between(low.take(some), high.take(some))
        if entries_and_change is not None:
            changes.append(_differences(spec, some, *entries_and_change))
    return [change for change in changes if len(change.weights)]


def _too_large() -> RunFailed:
    return RunFailed(
        "WINDOW_TOO_LARGE",
        f"a batch changes a partition of a window function with over {MOST_ROWS:,} rows",
    )


def _range_to_read(spec: WindowSpec, groups: OrderedGroups) -> tuple[Positions, Positions, Int64s]:
    """Return the positions between which values may change, and how many rows are between them."""
    if spec.reach is None:
        starts = (groups.at_ranks(tree, [0])[0] for tree in (groups.old, groups.new))
        return lesser(*starts), groups.end(), _rows_before(groups, groups.end())
    around = sum(spec.reach)
    first, last = first_changed(groups), last_changed(groups)
    before = groups.old.weights_before(groups.hashes, groups.collision_ids, first)
    start = np.maximum(before - around, 0)
    low = lesser(first, _at(groups, groups.new, start))
    behind = groups.new.weights_before(groups.hashes, groups.collision_ids, last)
    last_row = behind + around - 1
    high = last if not around else _at(groups, groups.new, last_row).behind()
    sizes = _rows_before(groups, last) - before + 2 * around
    return low, high, np.minimum(sizes, _rows_before(groups, groups.end()))


def _rows_before(groups: OrderedGroups, position: Positions) -> Int64s:
    """Return the number of rows before a position, before or after the batch."""
    at = groups.hashes, groups.collision_ids, position
    return np.maximum(groups.old.weights_before(*at), groups.new.weights_before(*at))


def _at(groups: OrderedGroups, tree: OrderedTree, ranks: Int64s) -> Positions:
    """Return the position before the entry with a rank of each group; the end if there is none."""
    each = np.arange(len(groups.hashes))
    exists, payload = tree.at_ranks(groups.hashes, groups.collision_ids, each, ranks)
    return Positions.at(encode(payload, groups.layout.components), exists)


def _differences(
    spec: WindowSpec, groups: Indices, entries: GatheredEntries, change: Int64s
) -> RowChanges:
    """Return the rows with their values that are there more or less often than before."""
    now = entries.weights
    if (
        float(np.abs(now).astype(np.float64).sum())
        + float(np.abs(now - change).astype(np.float64).sum())
        > 2 * MOST_ROWS + 2 * ROWS_AT_ONCE
    ):
        raise _too_large()
    payload = entries.payload(np.arange(len(now)))
    every = np.arange(len(now))
    old_rows, new_rows = np.repeat(every, now - change), np.repeat(every, now)
    old, new = (
        function_values(
            spec, PartitionRows.of(entries.owners[rows], take(payload, rows), spec.sort_keys)
        )
        for rows in (old_rows, new_rows)
    )
    values = [pa.concat_arrays(pair) for pair in zip(old, new, strict=True)]
    of_entry = np.concatenate([old_rows, new_rows])
    signs = np.repeat([-1, 1], [len(old_rows), len(new_rows)])
    keys = encode(values, [Component(v.type, nullable=True) for v in values])
    order, first = sort_order([of_entry], keys)
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(signs[order], starts) if len(starts) else signs
    some = np.flatnonzero(sums)
    at = order[starts[some]]
    rows = of_entry[at]
    return RowChanges(
        groups[entries.owners[rows]],
        tuple(take(payload, rows)),
        sums[some],
        tuple(take(values, at)),
    )
