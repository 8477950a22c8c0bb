"""Changes of a rank range of ordered multisets, read from the entries around its ends only.

A row of weight w at rank r takes the ranks r to r + w - 1. A rank range shows each row as often as
its ranks are in the range. After a batch, only these entries can be shown another number of times:
the changed entries within the range, and the entries between the old and the new place of either
end. If the range has moved completely, these are the entries of the old and of the new range. So
the cost depends on the changes and on the length of the range, not on its offset or on the size of
the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.errors import RunFailed
from substrait_agg.state.entries import CollisionIds, Entries, TreeLayout
from substrait_agg.state.keys.keys import encode, prefix_keys
from substrait_agg.state.keys.rows import Hashes, Indices, Mask, take
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.ranks import EntryPositions, compare_entries
from substrait_agg.state.row_ranges import GatheredEntries

Int64s = npt.NDArray[np.int64]

GREATEST_TOTAL = 1 << 62
"""Exclusive limit of the total weight of a group, so that ranks fit 63 bits."""
SPARE_ROWS = 32
"""Rows that are read at the beginning of a group beyond the end of the range: some may be deleted."""
MOST_RANKS = 1 << 26
"""Most rows that a batch may number again in a hash range."""
FIRST_ROWS = 1 << 12
"""Maximal number of rows to read in each run at the beginnings of groups, instead of searching ranks."""


@dataclass(frozen=True, slots=True)
class RankRange:
    """The ranks from `start` to `stop` (exclusive); None is no end."""

    start: int
    stop: int | None

    @property
    def empty(self) -> bool:
        """Return whether no rank is in the range."""
        return self.stop is not None and self.stop <= self.start

    def count_shown(self, ranks: Int64s, weights: Int64s) -> Int64s:
        """Return how often rows are shown, given the rank and the weight (0 or more) of each."""
        first, stop = self.within(ranks, weights)
        return stop - first

    def within(self, ranks: Int64s, weights: Int64s) -> tuple[Int64s, Int64s]:
        """Return the ranks in the range that rows have: of each the first, and the end (exclusive)."""
        first = np.maximum(ranks, min(self.start, GREATEST_TOTAL))
        ends = ranks + weights
        if self.stop is not None:
            ends = np.minimum(ends, min(self.stop, GREATEST_TOTAL))
        return first, np.maximum(first, ends)


@dataclass(frozen=True, slots=True)
class OrderedGroups:
    """Groups of ordered entries before and after a batch. No entry has a weight below 0.

    Attributes:
        hashes: of the groups.
        collision_ids: of the groups.
        layout: layout of the trees.
        old: the tree before the batch.
        new: the tree with the changes; its source 0 is `changed`, unless that is empty.
        changed: the changed entries with the change of their weights.
        groups: ordinal of the group of each of them.
    """

    hashes: Hashes
    collision_ids: CollisionIds
    layout: TreeLayout
    old: OrderedTree
    new: OrderedTree
    changed: Entries
    groups: Indices

    def at_ranks(self, tree: OrderedTree, ranks: Sequence[int]) -> list[EntryPositions]:
        """Return per rank the positions before the entries with this rank of each group.

        A position is the end if the group has no such rank.
        """
        count = len(self.hashes)
        each = np.tile(np.arange(count), len(ranks))
        sought = np.repeat([min(rank, GREATEST_TOTAL) for rank in ranks], count)
        weights_before, payload = tree.at_ranks(self.hashes, self.collision_ids, each, sought)
        positions = EntryPositions.at(encode(payload, self.layout.components), weights_before)
        return [positions.take(each[:count] + i * count) for i in range(len(ranks))]

    def end(self) -> EntryPositions:
        """Return the end of each group."""
        count = len(self.hashes)
        nulls = [pa.nulls(count, c.type) for c in self.layout.components]
        return EntryPositions.at(encode(nulls, self.layout.components), np.zeros(count, np.bool_))

    def between(
        self, low: EntryPositions, high: EntryPositions
    ) -> tuple[GatheredEntries, Int64s] | None:
        """Return the entries of the new tree between positions, with the change of their weights.

        None if the new tree is empty.
        """
        gathered = self.new.between_positions(self.hashes, self.collision_ids, low, high)
        if gathered is None:
            return None
        return gathered, self._change_of(gathered)

    def heads(self, rows: int) -> tuple[GatheredEntries, Int64s, Mask, Mask] | None:
        """Return the first entries of each group, as `OrderedTree.heads` of the new tree.

        The change of the weight of each entry comes second.
        """
        heads = self.new.heads(self.hashes, self.collision_ids, rows)
        if heads is None:
            return None
        gathered, is_known, cut = heads
        return gathered, self._change_of(gathered), is_known, cut

    def _change_of(self, gathered: GatheredEntries) -> Int64s:
        """Return the change of the weight of each entry of the new tree."""
        change = np.zeros(len(gathered.owners), np.int64)
        if len(self.changed):
            mine = np.flatnonzero(gathered.source == 0)
            change[mine] = self.changed.weights[gathered.places[mine]]
        return change


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Changes of shown rows.

    Attributes:
        groups: ordinal of the group of each.
        payload: columns of the row.
        weights: change of the number of times that it is shown, not 0.
        added: columns that the operator adds to the row.
    """

    groups: Indices
    payload: tuple[pa.Array, ...]
    weights: Int64s
    added: tuple[pa.Array, ...] = ()


def window_changes(groups: OrderedGroups, ranks: RankRange) -> list[RowChanges]:
    """Return the changes of the rows that a rank range shows; each row is in one part at most."""
    if ranks.empty or not len(groups.changed):
        return []
    at_beginning = _changes_at_beginning(groups, ranks)
    if at_beginning is not None:
        return [at_beginning] if len(at_beginning.weights) else []
    olds, news = (_range_limits(groups, tree, ranks) for tree in (groups.old, groups.new))
    (first_old, last_old), (first_new, last_new) = olds, news
    starts = _order(first_old, first_new)
    stops = _order(last_old, last_new)
    meet = compare_entries(starts[1], stops[0])
    overlapping = meet <= 0  # the ranges overlap: only their ends have moved
    low = starts[0].or_else(first_old, overlapping)
    high = starts[1].or_else(last_old, overlapping).behind()
    parts = [_shown_between(groups, ranks, low, high)]
    low = stops[0].behind(meet == 0).or_else(first_new, overlapping)
    high = stops[1].or_else(last_new, overlapping).behind()
    parts.append(_shown_between(groups, ranks, low, high))
    parts.append(_changed_inside(groups, starts[1], stops[0], overlapping))
    return [part for part in parts if part is not None and len(part.weights)]


def _changes_at_beginning(groups: OrderedGroups, ranks: RankRange) -> RowChanges | None:
    """Return the changes of the shown rows from the first rows of the groups.

    That is the quickest way for few groups and a range near their beginning. None otherwise.
    """
    if ranks.stop is None:
        return None
    count, rows = len(groups.hashes), ranks.stop + SPARE_ROWS
    while rows * count <= FIRST_ROWS:
        heads = groups.heads(rows)
        if heads is None:
            return None
        entries, change, is_known, cut = heads
        owners, now = entries.owners, entries.weights
        if cut.any():
            sums = (np.zeros(count, np.int64), np.zeros(count, np.int64))
            for total, weights in zip(sums, (now, now - change), strict=True):
                np.add.at(total, owners[is_known], weights[is_known])
            cut &= np.minimum(*sums) < ranks.stop
        if not cut.any():
            # An entry behind those that are known is behind the range.
            before, after = sums_before(owners, now - change), sums_before(owners, now)
            differ = ranks.count_shown(after, now) - ranks.count_shown(before, now - change)
            some = np.flatnonzero(is_known & (differ != 0))
            return RowChanges(owners[some], entries.payload(some), differ[some])
        rows *= 4
    return None


def _range_limits(
    groups: OrderedGroups, tree: OrderedTree, ranks: RankRange
) -> tuple[EntryPositions, EntryPositions]:
    """Return the first and the last entry of the range; the end where there is none."""
    if ranks.stop is None:
        (first,) = groups.at_ranks(tree, [ranks.start])
        return first, groups.end()
    first, last = groups.at_ranks(tree, [ranks.start, ranks.stop - 1])
    return first, last


def _order(left: EntryPositions, right: EntryPositions) -> tuple[EntryPositions, EntryPositions]:
    """Return the lesser and the greater entry of each pair."""
    swapped = compare_entries(left, right) > 0
    return right.or_else(left, swapped), left.or_else(right, swapped)


def _shown_between(
    groups: OrderedGroups, ranks: RankRange, low: EntryPositions, high: EntryPositions
) -> RowChanges | None:
    """Return the changes of all entries between two positions of each group."""
    entries_and_change = groups.between(low, high)
    if entries_and_change is None:
        return None
    entries, change = entries_and_change
    owners, now = entries.owners, entries.weights
    before, after = _ranks_from(groups, low, owners, now, change)
    differ = ranks.count_shown(after, now) - ranks.count_shown(before, now - change)
    some = np.flatnonzero(differ)
    return RowChanges(owners[some], entries.payload(some), differ[some])


def _ranks_from(
    groups: OrderedGroups, low: EntryPositions, owners: Indices, now: Int64s, change: Int64s
) -> tuple[Int64s, Int64s]:
    """Return the ranks before and after a batch of entries that follow a position of their group."""
    at = (groups.hashes, groups.collision_ids, low)
    below = groups.old.weights_before(*at)
    before = below[owners] + sums_before(owners, now - change)
    after = (below + groups.new.extra_weights_before(*at))[owners] + sums_before(owners, now)
    return before, after


def numbered_changes(groups: OrderedGroups, ranks: RankRange) -> list[RowChanges]:
    """Return the changes of the rows in a rank range, each shown once for every rank it has.

    A changed row moves all rows behind it in its group, so these are read up to the end of the range.

    Raises:
        RunFailed: ROW_NUMBERS_TOO_MANY.
    """
    if ranks.empty or not len(groups.changed):
        return []
    low, high = first_changed(groups), groups.end()
    if ranks.start or ranks.stop is not None:
        olds, news = (_range_limits(groups, tree, ranks) for tree in (groups.old, groups.new))
        low = greater(low, lesser(olds[0], news[0]))
        high = greater(olds[1], news[1]).behind()
    entries_and_change = groups.between(low, high)
    if entries_and_change is None:
        return []
    entries, change = entries_and_change
    owners, now = entries.owners, entries.weights
    before, after = _ranks_from(groups, low, owners, now, change)
    old, new = ranks.within(before, now - change), ranks.within(after, now)
    parts = []
    for sign, of, other in ((-1, old, new), (1, new, old)):
        rows, numbers = each_rank(*of, without=other)
        weights = np.full(len(rows), sign, np.int64)
        parts.append(
            RowChanges(owners[rows], entries.payload(rows), weights, added=(pa.array(numbers + 1),))
        )
    return [part for part in parts if len(part.weights)]


def first_changed(groups: OrderedGroups, sorts: int = 0) -> EntryPositions:
    """Return the position before the first changed entry of each group; the end if there is none.

    Args:
        groups: the groups, with at least one changed entry.
        sorts: if above zero, the position before the entries whose first `sorts` components are
            those of the changed entry.
    """
    ordinals = np.arange(len(groups.hashes))
    first = np.minimum(np.searchsorted(groups.groups, ordinals), len(groups.groups) - 1)
    if sorts:
        values = take(groups.changed.payload[:sorts], first)
        keys = prefix_keys(values, groups.layout.components)
    else:
        keys = groups.changed.keys.take(first)
    return EntryPositions.at(keys, groups.groups[first] == ordinals)


def last_changed(groups: OrderedGroups) -> EntryPositions:
    """Return the position after the last changed entry of each group; the end if there is none."""
    ordinals = np.arange(len(groups.hashes))
    last = np.maximum(np.searchsorted(groups.groups, ordinals, "right") - 1, 0)
    at = EntryPositions.at(groups.changed.keys.take(last), groups.groups[last] == ordinals)
    return at.behind()


def lesser(left: EntryPositions, right: EntryPositions) -> EntryPositions:
    """Return the lesser entry of each pair."""
    return _order(left, right)[0]


def greater(left: EntryPositions, right: EntryPositions) -> EntryPositions:
    """Return the greater entry of each pair."""
    return _order(left, right)[1]


def each_rank(
    first: Int64s, stop: Int64s, without: tuple[Int64s, Int64s] | None = None
) -> tuple[Indices, Int64s]:
    """Return each rank from `first` to `stop` (exclusive) of each row: the row, and the rank.

    Args:
        first: per row.
        stop: per row, at least `first`.
        without: per row, a range of ranks to leave out.

    Raises:
        RunFailed: ROW_NUMBERS_TOO_MANY.
    """
    lengths = stop - first
    if without is not None:
        lengths[(first == without[0]) & (stop == without[1])] = 0
    if float(lengths.astype(np.float64).sum()) > MOST_RANKS:
        raise RunFailed(
            "ROW_NUMBERS_TOO_MANY", f"a batch changes the numbers of over {MOST_RANKS:,} rows"
        )
    rows = np.repeat(np.arange(len(first)), lengths)
    ranks = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths - first, lengths)
    if without is None:
        return rows, ranks
    outside = np.flatnonzero((ranks < without[0][rows]) | (ranks >= without[1][rows]))
    return rows[outside], ranks[outside]


def sums_before(owners: Indices, weights: Int64s) -> Int64s:
    """Return the sum of the weights before each entry within its owner; owners are ascending."""
    running = np.cumsum(weights) - weights
    first = np.searchsorted(owners, owners, "left")
    return np.asarray(running - running[first])


def _changed_inside(
    groups: OrderedGroups, low: EntryPositions, high: EntryPositions, where: npt.NDArray[np.bool_]
) -> RowChanges:
    """Return the changed entries between two entries of their group, without either.

    All of their ranks are in the range, before and after the batch.
    """
    keys, of = groups.changed.keys, groups.groups
    inside = where[of]
    none = np.zeros(len(of), np.bool_)
    position = EntryPositions.at(keys, ~none)
    inside &= compare_entries(low.take(of), position) < 0
    inside &= compare_entries(position, high.take(of)) < 0
    some = np.flatnonzero(inside)
    changed = groups.changed
    return RowChanges(of[some], tuple(take(changed.payload, some)), changed.weights[some])


def entries_behind(groups: OrderedGroups, stop: int) -> Entries | None:
    """Return the ranks from `stop` on as entries of negative weight, which remove them.

    An entry that begins before `stop` and ends after it is cut. None if there are none.
    """
    (low,) = groups.at_ranks(groups.new, [stop])
    if low.end.all():
        return None
    entries_and_change = groups.between(low, groups.end())
    if entries_and_change is None:
        return None
    entries, _ = entries_and_change
    owners, weights = entries.owners, entries.weights
    before = groups.new.weights_before(groups.hashes, groups.collision_ids, low)[owners]
    before += sums_before(owners, weights)
    cut = np.minimum(weights, before + weights - stop)
    some = np.flatnonzero(cut > 0)
    payload = entries.payload(some)
    of = owners[some]
    keys = encode(payload, groups.layout.components)
    return Entries(groups.hashes[of], groups.collision_ids[of], keys, payload, -cut[some])
