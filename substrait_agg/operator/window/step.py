"""The window operator: changes of rows whose values differ after a batch.

Values are computed before and after the batch, for the rows from the first one on whose value may
have changed. Where values depend on a limited number of rows, only so many rows around the changed
ones are read. Values at the ends of what is read may be wrong, but are equal before and after the
batch. Where values depend on the nearest value that is not null, more rows are read until there is
one on either side of the changed rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.errors import RunFailed
from substrait_agg.operator.top_k.step import OrderedRowsOperator
from substrait_agg.operator.top_k.window import (
    SPARE_ROWS,
    OrderedGroups,
    RowChanges,
    first_changed,
    greater,
    last_changed,
    lesser,
)
from substrait_agg.operator.window.distances import as_integers, move, of_integers
from substrait_agg.operator.window.frames import PartitionRows, RowsBefore, peer_numbers
from substrait_agg.operator.window.spec import Reach, WindowSpec
from substrait_agg.operator.window.sums import state_before
from substrait_agg.operator.window.values import function_values, within_limit
from substrait_agg.state.keys.keys import Component, encode, prefix_keys, sort_order
from substrait_agg.state.keys.rows import Indices, Mask, as_mask, take
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.ranks import EntryPositions


@dataclass(frozen=True, slots=True)
class ReadRanges:
    """The rows of groups that are read: all whose values may change, and those that these depend on.

    Attributes:
        low: position before the first row.
        high: position after the last row.
        before: number of rows before `low`.
        sizes: number of rows between, before or after the batch, at most.
    """

    low: EntryPositions
    high: EntryPositions
    before: Int64s
    sizes: Int64s


def _ranges_to_read(
    spec: WindowSpec, groups: OrderedGroups, rows: int | None, spare: int
) -> ReadRanges:
    """Return the ranges to read.

    Args:
        spec: the operator.
        groups: all groups.
        rows: the most rows to read; None if there is no limit.
        spare: number of rows to read on either side to find the nearest value.
    """
    reach, end = spec.reach, groups.end()
    sizes = _rows_before(groups, end)
    if reach.back is None or reach.ahead is None or (reach.peers and not spec.sorts):
        starts = (groups.at_ranks(tree, [0])[0] for tree in (groups.old, groups.new))
        ranges = ReadRanges(lesser(*starts), end, np.zeros(len(sizes), np.int64), sizes)
    elif any(reach.values):
        low, high = _within_values(spec, groups, sum(reach.values))
        high = end if reach.peers or reach.to_end else high
        before = groups.old.weights_before(groups.hashes, groups.collision_ids, low)
        ranges = ReadRanges(low, high, before, _rows_before(groups, high) - before)
    else:
        around = reach.back + reach.ahead + spare * reach.nearest
        sorts = spec.sorts if reach.peers else 0
        low = first_changed(groups, sorts)
        at = groups.hashes, groups.collision_ids
        before = groups.old.weights_before(*at, low)
        if around:
            first_row = np.maximum(before - around, 0)
            low = lesser(low, _at(groups, groups.new, first_row, sorts))
            before = groups.old.weights_before(*at, low)
        high = end
        if not (reach.peers or reach.to_end):
            high = last_changed(groups)
            sizes = np.minimum(sizes, _rows_before(groups, high) + around)
            if around:
                last_row = groups.new.weights_before(*at, high) + around - 1
                high = _at(groups, groups.new, last_row).behind()
        ranges = ReadRanges(low, high, before, sizes - before)
    if rows is None:
        return ranges
    stops = (_at(groups, tree, ranges.before + rows) for tree in (groups.old, groups.new))
    high = lesser(ranges.high, greater(*stops))
    return replace(ranges, high=high, sizes=np.minimum(ranges.sizes, rows))


def _within_values(
    spec: WindowSpec, groups: OrderedGroups, distance: int
) -> tuple[EntryPositions, EntryPositions]:
    """Return the ends of the rows whose sort key is within a distance of that of a changed row."""
    key, changed = spec.sort_keys[0], groups.changed.payload[0]
    ordinals = np.arange(len(groups.hashes))
    first = np.minimum(np.searchsorted(groups.groups, ordinals), len(groups.groups) - 1)
    last = np.maximum(np.searchsorted(groups.groups, ordinals, "right") - 1, 0)
    exists = groups.groups[first] == ordinals
    turn = -1 if key.descending else 1

    def at(numbers: Int64s, is_null: Mask) -> EntryPositions:
        """Return the position of each value among the sort keys."""
        values = of_integers(numbers, key.type)
        values = pc.if_else(pa.array(is_null), pa.scalar(None, key.type), values)
        return EntryPositions.at(prefix_keys([values], groups.layout.components), exists)

    start, stop = changed.take(pa.array(first)), changed.take(pa.array(last))
    numbers, _ = move(as_integers(start), -turn * distance)
    low = at(numbers, as_mask(start.is_null()))
    numbers, is_beyond = move(as_integers(stop), turn * distance)
    behind, is_limit = move(numbers, turn)
    is_beyond |= is_limit | (as_integers(of_integers(behind, key.type)) != behind)
    # Nulls first are before every value, nulls last before the end.
    is_null = as_mask(stop.is_null())
    high = at(behind, np.zeros(len(is_null), np.bool_))
    is_end = np.where(is_null, not key.nulls_first, is_beyond)
    return low, replace(high, end=high.end | is_end)


def _rows_before(groups: OrderedGroups, position: EntryPositions) -> Int64s:
    """Return the number of rows before a position, before or after the batch."""
    at = groups.hashes, groups.collision_ids, position
    return np.maximum(groups.old.weights_before(*at), groups.new.weights_before(*at))


def _at(groups: OrderedGroups, tree: OrderedTree, ranks: Int64s, sorts: int = 0) -> EntryPositions:
    """Return the position before the entry with a rank of each group; the end if there is none.

    If `sorts` is above zero, it is the position before the entries with the same sort keys.
    """
    each = np.arange(len(groups.hashes))
    exists, payload = tree.at_ranks(groups.hashes, groups.collision_ids, each, ranks)
    return EntryPositions.at(
        prefix_keys(payload[: sorts or None], groups.layout.components), exists
    )


Int64s = npt.NDArray[np.int64]

ROWS_AT_ONCE = 1 << 18
"""Rows whose values are computed at once, or more if one partition has more."""
NEAREST_ROWS = 32
"""Rows that are read at first on either side of changed rows to find the nearest value."""
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
    changes = []
    rest = np.flatnonzero(~first_changed(groups).end)
    # More than so many rows are too many anyway.
    rows = None if spec.last is None else min(spec.last + SPARE_ROWS, 2 * MOST_ROWS)
    spare = NEAREST_ROWS
    while len(rest):
        ranges = _ranges_to_read(spec, groups, rows, spare)
        sizes = ranges.sizes[rest]
        if int(sizes.max()) > MOST_ROWS:
            raise _too_large()
        part = np.cumsum(sizes.astype(np.float64)) // ROWS_AT_ONCE
        again = []
        for some in np.split(rest, np.flatnonzero(np.diff(part)) + 1):
            change, limited = _differences(spec, groups, some, ranges)
            changes.append(change)
            again.append(limited)
        rest = np.concatenate(again)
        rows, spare = None if rows is None else rows * 4, spare * 4
    return [change for change in changes if len(change.weights)]


def _too_large() -> RunFailed:
    return RunFailed(
        "WINDOW_TOO_LARGE",
        f"a batch changes a partition of a window function with over {MOST_ROWS:,} rows",
    )


def _differences(
    spec: WindowSpec, groups: OrderedGroups, some: Indices, ranges: ReadRanges
) -> tuple[RowChanges, Indices]:
    """Return the rows with their values that are there more or less often than before.

    Args:
        spec: the operator.
        groups: all groups.
        some: ordinals of the groups whose rows are compared.
        ranges: the rows to read of all groups.

    Returns:
        The changes, and the groups without any because more rows must be read.
    """
    within = replace(groups, hashes=groups.hashes[some], collision_ids=groups.collision_ids[some])
    low = ranges.low.take(some)
    entries_and_change = within.between(low, ranges.high.take(some))
    if entries_and_change is None:
        return RowChanges(some[:0], (), np.zeros(0, np.int64)), some[:0]
    entries, change = entries_and_change
    now = entries.weights
    before = now - change
    if float(now.astype(np.float64).sum() + before.astype(np.float64).sum()) > 2 * (
        MOST_ROWS + ROWS_AT_ONCE
    ):
        raise _too_large()
    payload = entries.payload(np.arange(len(now)))
    peers = peer_numbers(entries.owners, payload, spec.sort_keys)
    affected = _mask_affected(spec.reach, entries.owners, peers, np.minimum(now, before), change)
    earlier = _rows_before_read(spec, within, low, ranges.before[some])
    of_entry, values = [], []
    complete = np.zeros(len(some), np.int64)
    for weights in (before, now):
        rows, columns = _rows(payload, weights)
        computed = np.flatnonzero(affected[rows])
        owners = entries.owners[rows]
        ordered = PartitionRows.of(
            columns,
            owners,
            peers[rows],
            earlier,
            spec.sort_keys,
            computed,
        )
        values.append(function_values(spec, ordered))
        of_entry.append(rows[computed])
        greater_rank = ~within_limit(spec, values[-1])
        complete[np.unique(owners[computed[greater_rank]])] += 1
    is_complete = ranges.high.end[some] | (complete == 2) | (spec.last is None)
    whole = ranges.before[some] == 0, ranges.high.end[some]
    is_complete &= _mask_found(spec, entries.owners, payload, now, change, whole)
    shown = [
        within_limit(spec, of_rows) & is_complete[entries.owners[at]]
        for of_rows, at in zip(values, of_entry, strict=True)
    ]
    at, added, sums = _not_in_both(
        [rows[mask] for rows, mask in zip(of_entry, shown, strict=True)],
        [[v.filter(pa.array(mask)) for v in vs] for vs, mask in zip(values, shown, strict=True)],
    )
    changes = RowChanges(some[entries.owners[at]], tuple(take(payload, at)), sums, tuple(added))
    return changes, some[~is_complete]


def _mask_found(
    spec: WindowSpec,
    owners: Indices,
    payload: Sequence[pa.Array],
    now: Int64s,
    change: Int64s,
    whole: tuple[Mask, Mask],
) -> Mask:
    """Return a mask of the groups whose nearest values are among the rows that are read.

    Args:
        spec: the operator.
        owners: the group of each entry.
        payload: the columns of the entries.
        now: the weight of each entry after the batch.
        change: the change of the weight of each entry.
        whole: masks of the groups that are read from their first row, and up to their last one.
    """
    mask = np.ones(len(whole[0]), np.bool_)
    changed = np.flatnonzero(change)
    groups, first = np.unique(owners[changed], return_index=True)
    last = np.append(first[1:], len(changed)) - 1
    start, stop = np.searchsorted(owners, groups), np.searchsorted(owners, groups, "right")
    for component in spec.sought_values:
        exists = as_mask(payload[component].is_valid()) & (now > 0)
        before = np.concatenate([[0], np.cumsum(exists)])
        is_before = before[changed[first]] > before[start]
        is_behind = before[stop] > before[changed[last] + 1]
        mask[groups] &= (is_before | whole[0][groups]) & (is_behind | whole[1][groups])
    return mask


def _rows_before_read(
    spec: WindowSpec, groups: OrderedGroups, low: EntryPositions, counts: Int64s
) -> RowsBefore:
    """Return the rows before a position, which are the same before and after the batch."""
    if not counts.any():
        return RowsBefore(counts)
    at, state, first = (groups.hashes, groups.collision_ids), None, ()
    if spec.frames is not None:
        ranges = groups.old.ranges_before(*at, low)
        state = state_before(spec.frames, spec.frame_arguments, ranges, counts)
    number = max(function.first_rows for function in spec.functions)
    if number:
        each = np.repeat(np.arange(len(counts)), number)
        _, first = groups.old.at_ranks(*at, each, np.tile(np.arange(number), len(counts)))
    return RowsBefore(counts, state, first, number)


def _rows(payload: Sequence[pa.Array], weights: Int64s) -> tuple[Indices, Sequence[pa.Array]]:
    """Return each entry as often as its weight says, and the columns of these rows."""
    rows = np.repeat(np.arange(len(weights)), weights)
    once = len(rows) > 0 and int(weights.max()) == 1
    if once and int(rows[-1] - rows[0]) + 1 == len(rows):  # no entry between is left out
        return rows, [column.slice(int(rows[0]), len(rows)) for column in payload]
    return rows, take(payload, rows)


def _mask_affected(
    reach: Reach, owners: Indices, peers: Indices, both: Int64s, change: Int64s
) -> Mask:
    """Return a mask of the entries whose rows may have other values than before the batch.

    Args:
        reach: the rows on which a value depends.
        owners: the group of each entry.
        peers: the number of the sort keys of each entry.
        both: the number of rows of each entry that are there before and after the batch.
        change: the change of the weight of each entry.
    """
    count = len(owners)
    if reach.ahead is None or any(reach.values):
        return np.ones(count, np.bool_)
    changed = np.flatnonzero(change)
    groups, at = np.unique(owners[changed], return_index=True)
    start = changed[at]
    if reach.peers:
        start = np.searchsorted(peers, peers[start])
    if reach.ahead:
        until = np.cumsum(both)
        start = np.searchsorted(until, until[start] - both[start] - reach.ahead, "right")
        start = np.maximum(start, np.searchsorted(owners, groups))
    first = np.full(int(owners.max(initial=0)) + 1, count)
    first[groups] = start
    return np.arange(count) >= first[owners]


def _not_in_both(
    rows: Sequence[Indices], values: Sequence[Sequence[pa.Array]]
) -> tuple[Indices, list[pa.Array], Int64s]:
    """Return the rows that are there another number of times before and after the batch.

    Args:
        rows: the entry of each row, before and after.
        values: their values, before and after.

    Returns:
        The entry of each, its values, and the difference.
    """
    both = [pa.concat_arrays(pair) for pair in zip(*values, strict=True)]
    entries = np.concatenate(rows)
    signs = np.repeat([-1, 1], [len(part) for part in rows])
    keys = encode(both, [Component(v.type, nullable=True) for v in both])
    order, first = sort_order([entries], keys)
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(signs[order], starts) if len(starts) else signs
    some = np.flatnonzero(sums)
    at = order[starts[some]]
    return entries[at], take(both, at), sums[some]
