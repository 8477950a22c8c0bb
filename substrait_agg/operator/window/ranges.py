"""The rows around the changes of a batch that a window operator reads."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.operator.top_k.window import (
    OrderedGroups,
    first_changed,
    greater,
    last_changed,
    lesser,
)
from substrait_agg.operator.window.frames import as_integers, move, of_integers
from substrait_agg.operator.window.spec import WindowSpec
from substrait_agg.state.keys.keys import prefix_keys
from substrait_agg.state.keys.rows import Mask, as_mask
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.ranks import EntryPositions

Int64s = npt.NDArray[np.int64]


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


def ranges_to_read(spec: WindowSpec, groups: OrderedGroups, rows: int | None) -> ReadRanges:
    """Return the ranges to read, of at most `rows` rows if that is not None."""
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
        around = reach.back + reach.ahead
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
    turn, distance = -1 if key.descending else 1, min(distance, _GREATEST)

    def at(numbers: Int64s, is_null: Mask) -> EntryPositions:
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


_GREATEST = np.iinfo(np.int64).max


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
