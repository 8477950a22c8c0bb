"""An ordered tree: per group an ordered multiset of values, stored as weight changes in a few runs.

The least or greatest live entry of many groups is searched for at once, by growing row ranges. They
start small and double in each round. The weight of an entry is known once every run has been read
up to it. A truncated range therefore limits its group at the last key read. Entries beyond the
least limit of a group are decided in the next round.


The weight of an entry is the sum of its weights in all runs. So a run only contains changes, and
there are no deletion markers: merging adds up weights and drops entries of weight 0. Rows are found
by bisection, extremes by growing row ranges, and ranks by bisection over keys and running sums of
weights. Only `entries`, `live` and `scan` read whole groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np
import pyarrow as pa

from substrait_agg.state.entries import CollisionIds, Entries, TreeLayout, consolidate_sorted
from substrait_agg.state.keys.keys import Component, EncodedKeys, before
from substrait_agg.state.keys.rows import Hashes, Indices, Mask, beginnings
from substrait_agg.state.ordered_run import OrderedRun
from substrait_agg.state.ranks import EntryPositions, find_ranks, weight_before
from substrait_agg.state.row_ranges import GatheredEntries, RowRange, gather_rows, payload_at
from substrait_agg.state.run import (
    HASH_MAX,
    RunFile,
    open_runs,
    rows_at_once,
    scan_ranges,
)
from substrait_agg.state.segments import Segments
from substrait_agg.state.storage import Storage
from substrait_agg.state.weights import Weights, add_weights

SCAN_ROWS = 1 << 20
GROUPS_AT_ONCE = 1 << 16


class OrderedTree:
    """Read view of an ordered tree of a snapshot, and of a batch's additions to it.

    Groups are given by hash and collision id, ordered by both, without duplicates.

    Args:
        storage: the storage of the runs.
        files: its runs, newest first.
        layout: its columns.
        extra: entries newer than all runs.

    Attributes:
        rows_read: number of rows read from runs so far, without bisection steps.
    """

    def __init__(
        self,
        storage: Storage,
        files: Sequence[RunFile],
        layout: TreeLayout,
        extra: Entries | None = None,
    ) -> None:
        self._layout = layout
        self._readers = open_runs(storage, files, layout.schema)
        self._runs = [OrderedRun.of_reader(reader, layout) for reader in self._readers]
        self._extra = extra
        if extra is not None and len(extra):
            self._runs.insert(0, OrderedRun.of_entries(extra))
        self.rows_read = 0

    def plus(self, extra: Entries | None) -> OrderedTree:
        """Return this tree, which has no additions, with those of a batch."""
        if extra is None:
            return self
        added = [OrderedRun.of_entries(extra)] if len(extra) else []
        tree = copy(self)
        tree.__dict__ |= {"_extra": extra, "_runs": [*added, *self._runs], "rows_read": 0}
        return tree

    def weights(self, entries: Entries) -> Weights:
        """Return the weight of each entry's group and key in this tree, 0 if it is missing.

        Raises:
            RunFailed: WEIGHT_OVERFLOW.
        """
        return self.weights_by_tree(entries)[0]

    def weights_by_tree(self, entries: Entries) -> list[Weights]:
        """Return the same for each tree whose weights the runs have.

        Raises:
            RunFailed: WEIGHT_OVERFLOW.
        """
        starts = beginnings(entries.hashes, entries.collision_ids)
        totals = [np.zeros(len(entries), np.int64) for _ in range(self._layout.trees)]
        # From the oldest run on, every sum is a weight that an earlier version had.
        for run in reversed(self._runs):
            rows, stored = self._weights_in(run, entries, starts)
            for total, weights in zip(totals, stored, strict=True):
                total[rows] = add_weights([total[rows], weights])
        return totals

    def _weights_in(
        self, run: OrderedRun, entries: Entries, starts: Indices
    ) -> tuple[Indices, Sequence[Weights]]:
        """Return the entries that a run has, and their weights by tree."""
        low, high = run.groups(entries.hashes, entries.collision_ids, starts)
        occupied = np.flatnonzero(low < high)
        if not len(occupied):
            return occupied, [np.zeros(0, np.int64)] * self._layout.trees
        keys = entries.keys if len(occupied) == len(entries) else entries.keys.take(occupied)
        places = run.bounds(low[occupied], high[occupied], keys, right=False)
        inside = np.flatnonzero(places < high[occupied])
        located = run.at(places[inside])
        self.rows_read += len(inside)
        equal = ~before(keys, inside, located.keys(), np.arange(len(inside)))
        stored = [weights[equal] for weights in located.weights_by_tree()]
        return occupied[inside[equal]], stored

    def first_live(
        self,
        hashes: Hashes,
        chains: CollisionIds,
        after: EncodedKeys | None = None,
        where_after: Mask | None = None,
        *,
        last: bool = False,
    ) -> tuple[Mask, tuple[pa.Array, ...]]:
        """Return the least entry of each group with a weight above 0.

        Args:
            hashes: of the groups.
            chains: collision ids of the groups.
            after: a key per group; only entries after it count.
            where_after: mask of the groups to which `after` applies; None means all.
            last: return the greatest entry instead; only entries before `after` count.

        Returns:
            A mask of the groups with such an entry, and its values, null if there is none.

        Raises:
            RunFailed: WEIGHT_OVERFLOW.
        """
        source = np.full(len(hashes), -1, np.int64)
        places = np.zeros(len(hashes), np.int64)
        windows = self._windows(hashes, chains)
        if after is not None:
            windows = [_limit(w, after, where_after, last=last) for w in windows]
        for start in range(0, len(hashes) if windows else 0, GROUPS_AT_ONCE):
            some = np.arange(start, min(start + GROUPS_AT_ONCE, len(hashes)))
            source[some], places[some], rows = find_first(
                [w.take(some) for w in windows], last=last
            )
            self.rows_read += rows
        return source >= 0, self._values(source, places)

    def rows_at_once(self, rows: int) -> int:
        """Return how many rows to request at once: `rows`, or fewer if they are long."""
        return rows_at_once(self._readers, rows)

    def entries(self, hashes: Hashes, chains: CollisionIds) -> Entries:
        """Return all entries of some groups, including those with a weight below 0.

        Raises:
            RunFailed: WEIGHT_OVERFLOW.
        """
        parts = []
        for run in self._runs:
            low, high = run.groups(hashes, chains)
            lengths = high - low
            ends = np.cumsum(lengths)
            at = np.repeat(low - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0)
            located = run.at(at)
            self.rows_read += len(at)
            owner = np.repeat(np.arange(len(hashes)), lengths)
            weights, *further = located.weights_by_tree()
            parts.append(
                Entries(
                    hashes[owner],
                    chains[owner],
                    located.keys(),
                    located.payload(),
                    weights,
                    tuple(further),
                )
            )
        parts = [part for part in parts if len(part)]
        return consolidate_sorted(parts) if parts else self._none()

    def _none(self) -> Entries:
        return Entries.from_table(self._layout.schema.empty_table(), self._layout)

    def live(self, hashes: Hashes, chains: CollisionIds) -> Segments:
        """Return all entries of each group with a weight above 0, in key order.

        Raises:
            RunFailed: WEIGHT_OVERFLOW.
        """
        windows = self._windows(hashes, chains)
        if not windows:
            offsets = np.zeros(len(hashes) + 1, np.int64)
            return Segments(offsets, tuple(self._layout.empty_columns()), np.zeros(0, np.int64))
        gathered = gather_rows(windows)
        self.rows_read += gathered.rows
        alive = np.flatnonzero(gathered.weights > 0)
        offsets = np.searchsorted(gathered.owners[alive], np.arange(len(hashes) + 1), "left")
        return Segments(offsets, gathered.payload(alive), gathered.weights[alive])

    @property
    def components(self) -> tuple[Component, ...]:
        """Return the components of the keys."""
        return self._layout.components

    def between(
        self,
        hashes: Hashes,
        chains: CollisionIds,
        groups: Indices,
        low: EncodedKeys,
        high: EncodedKeys,
    ) -> GatheredEntries | None:
        """Return the entries in ranges of keys, including entries of weight 0, in key order.

        Args:
            hashes: of the groups.
            chains: collision ids of the groups.
            groups: per range, the ordinal of its group.
            low: per range, the least key.
            high: per range, the upper bound of the keys, exclusive.

        Returns:
            The entries; `owners` are ordinals of ranges. Entries of the tree's `extra`, if there
            are any, have the source 0 and their ordinal in `extra` as place. None if the tree is
            empty.

        Raises:
            RunFailed: WEIGHT_OVERFLOW.
        """
        windows = []
        for window in self._windows(hashes, chains):
            ranges = window.take(groups)
            start = window.run.bounds(ranges.low, ranges.high, low, right=False)
            stop = window.run.bounds(ranges.low, ranges.high, high, right=False)
            windows.append(RowRange(window.run, start, stop))
        if not windows:
            return None
        gathered = gather_rows(windows)
        self.rows_read += gathered.rows
        return gathered

    def between_positions(
        self, hashes: Hashes, chains: CollisionIds, low: EntryPositions, high: EntryPositions
    ) -> GatheredEntries | None:
        """Return the entries between two positions of each group, in key order.

        As `between`, with one range per group. The range is empty if `high` comes before `low`.

        Raises:
            RunFailed: WEIGHT_OVERFLOW.
        """
        ranges = []
        for window in self._windows(hashes, chains):
            start = _place(window, low)
            ranges.append(RowRange(window.run, start, np.maximum(start, _place(window, high))))
        if not ranges:
            return None
        gathered = gather_rows(ranges)
        self.rows_read += gathered.rows
        return gathered

    def weights_before(
        self, hashes: Hashes, chains: CollisionIds, positions: EntryPositions
    ) -> Weights:
        """Return per group the sum of the weights of its entries before a position.

        No entry may have a weight below 0 in the tree, and the sum must fit 63 bits.
        """
        total = np.zeros(len(hashes), np.int64)
        for window in self.ranges_before(hashes, chains, positions):
            total += weight_before(window, window.high)
        return total

    def ranges_before(
        self, hashes: Hashes, chains: CollisionIds, positions: EntryPositions
    ) -> list[RowRange]:
        """Return per run the rows of each group before a position."""
        return [
            RowRange(window.run, window.low, _place(window, positions))
            for window in self._windows(hashes, chains)
        ]

    def total_weights(self, hashes: Hashes, chains: CollisionIds) -> Weights:
        """Return per group the sum of the weights of all its entries; see `weights_before`."""
        total = np.zeros(len(hashes), np.int64)
        for window in self._windows(hashes, chains):
            total += weight_before(window, window.high)
        return total

    def extra_weights_before(
        self, hashes: Hashes, chains: CollisionIds, positions: EntryPositions
    ) -> Weights:
        """Return per group what the batch's additions change in the sum of `weights_before`."""
        total = np.zeros(len(hashes), np.int64)
        if self._extra is not None and len(self._extra):
            window = RowRange(self._runs[0], *self._runs[0].groups(hashes, chains))
            total += weight_before(window, _place(window, positions))
        return total

    def at_ranks(
        self, hashes: Hashes, chains: CollisionIds, groups: Indices, ranks: Indices
    ) -> tuple[Mask, tuple[pa.Array, ...]]:
        """Return entries by rank, counting each entry by its weight, from 0 in key order.

        Args:
            hashes: of the groups.
            chains: collision ids of the groups; no group may have an entry with a weight below 0.
            groups: per query, the ordinal of its group.
            ranks: per query, the rank.

        Returns:
            A mask of the queries whose group has that rank, and the values, null where it has not.
        """
        source = np.full(len(ranks), -1, np.int64)
        places = np.zeros(len(ranks), np.int64)
        bounds = self._windows(hashes, chains)
        for start in range(0, len(ranks) if bounds else 0, GROUPS_AT_ONCE):
            some = slice(start, start + GROUPS_AT_ONCE)
            windows = [w.take(groups[some]) for w in bounds]
            source[some], places[some], rows = find_ranks(windows, ranks[some])
            self.rows_read += rows
        return source >= 0, self._values(source, places)

    def heads(
        self, hashes: Hashes, chains: CollisionIds, rows: int
    ) -> tuple[GatheredEntries, Mask, Mask] | None:
        """Return the first entries of each group, from the first rows of each run.

        Args:
            hashes: of the groups.
            chains: collision ids of the groups.
            rows: number of rows to read per group and run.

        Returns:
            The entries in key order, including entries of weight 0; a mask of those up to which
            all runs have been read, so that their weight is known; and a mask of the groups that
            have further entries. None if the tree is empty.

        Raises:
            RunFailed: WEIGHT_OVERFLOW.
        """
        windows = self._windows(hashes, chains)
        if not windows:
            return None
        parts = [_part(window, rows, last=False) for window in windows]
        gathered = gather_rows(parts)
        self.rows_read += gathered.rows
        limits, cut = _limits(windows, parts, gathered.row_entries(), last=False)
        return gathered, np.arange(len(gathered.owners)) <= limits[gathered.owners], cut

    def _windows(self, hashes: Hashes, chains: CollisionIds) -> list[RowRange]:
        """Return the row ranges of the groups in each run."""
        return [RowRange(run, *run.groups(hashes, chains)) for run in self._runs]

    def _values(self, source: Indices, places: Indices) -> tuple[pa.Array, ...]:
        """Return the values at places of runs, null where the run is -1."""
        present = np.flatnonzero(source >= 0)
        if not len(present):
            return tuple(pa.nulls(len(source), c.type) for c in self._layout.components)
        columns = payload_at(self._runs, source[present], places[present])
        if len(present) == len(source):
            return columns
        index = np.zeros(len(source), np.int64)
        index[present] = np.arange(len(present))
        indices = pa.array(index, mask=source < 0)
        return tuple(column.take(indices) for column in columns)

    def scan(self, low: int = 0, high: int = HASH_MAX) -> Iterator[pa.Table]:
        """Yield all entries of nonzero weight as rows of a run, in order.

        Each table has about `SCAN_ROWS` rows and contains whole groups.

        Raises:
            RunFailed: WEIGHT_OVERFLOW.
        """
        if not self._readers and self._extra is not None:
            yield self._piece(low, high)
        for start, stop in scan_ranges(self._readers, low, high, SCAN_ROWS):
            yield self._piece(start, stop)

    def _piece(self, low: int, high: int) -> pa.Table:
        parts = [] if self._extra is None else [self._extra.between(low, high)]
        for reader in self._readers:
            start, stop = max(low, reader.file.low), min(high, reader.file.high)
            if start <= stop:
                rows = reader.rows_between(start, stop)
                parts.append(Entries.from_table(rows, self._layout))
        parts = [part for part in parts if len(part)]
        return (
            consolidate_sorted(parts).to_table(self._layout)
            if parts
            else self._layout.schema.empty_table()
        )


def _place(window: RowRange, positions: EntryPositions) -> Indices:
    """Return the first place of each row range that is not before a position."""
    if positions.end.all():
        return window.high
    bounds: dict[bool, Indices] = {
        right: window.run.bounds(window.low, window.high, positions.keys, right=right)
        for right in np.unique(positions.after).tolist()
    }
    after, before = bounds.get(True, window.high), bounds.get(False, window.high)
    return np.where(positions.end, window.high, np.where(positions.after, after, before))


def _limit(window: RowRange, after: EncodedKeys, where: Mask | None, *, last: bool) -> RowRange:
    """Return the part of row ranges after (with `last`: before) a key."""
    some = np.flatnonzero(window.lengths if where is None else window.lengths.astype(bool) & where)
    low, high = window.low[some], window.high[some]
    bounds = window.run.bounds(low, high, after.take(some), right=not last)
    moved = window.high.copy() if last else window.low.copy()
    moved[some] = bounds
    low, high = (window.low, moved) if last else (moved, window.high)
    return RowRange(window.run, low, high)


FIRST_ROWS = 4  # per group and run in the first round


def find_first(windows: Sequence[RowRange], *, last: bool) -> tuple[Indices, Indices, int]:
    """Return the place of the least (greatest) entry of each group with a weight above 0.

    Args:
        windows: per run (at least one), newest first, the candidate rows of each group.
        last: search for the greatest entry, from the end.

    Returns:
        The ordinal of a run with the entry (-1 if there is none), its place in the run, and the
        number of rows read.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    count = len(windows[0].low)
    source, places = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    active = np.flatnonzero(np.any([w.lengths > 0 for w in windows], axis=0))
    rest = [w.take(active) for w in windows]
    size, rows = FIRST_ROWS, 0
    while len(active):
        parts = [_part(w, size, last=last) for w in rest]
        gathered = gather_rows(parts)
        rows += gathered.rows
        row_entries = gathered.row_entries()
        limits, cut = _limits(rest, parts, row_entries, last=last)
        owners, entries = _first_alive(gathered, limits, last=last)
        source[active[owners]] = gathered.source[entries]
        places[active[owners]] = gathered.places[entries]
        cut[owners] = False
        rest = [
            _behind(w, part, entries, limits, last=last).take(cut)
            for w, part, entries in zip(rest, parts, row_entries, strict=True)
        ]
        active = active[cut]
        size *= 2
    return source, places, rows


def _part(window: RowRange, size: int, *, last: bool) -> RowRange:
    if last:
        return RowRange(window.run, np.maximum(window.low, window.high - size), window.high)
    return RowRange(window.run, window.low, np.minimum(window.high, window.low + size))


def _limits(
    rest: Sequence[RowRange],
    parts: Sequence[RowRange],
    row_entries: Sequence[Indices],
    *,
    last: bool,
) -> tuple[Indices, Mask]:
    """Return per group the entry up to which weights are known, and a mask of truncated groups."""
    count = len(rest[0].low)
    limits = np.full(count, -1 if last else np.iinfo(np.int64).max, np.int64)
    cut = np.zeros(count, np.bool_)
    for whole, part, entries in zip(rest, parts, row_entries, strict=True):
        here = part.lengths < whole.lengths
        ends = np.cumsum(part.lengths)[here]
        if last:
            limits[here] = np.maximum(limits[here], entries[ends - part.lengths[here]])
        else:
            limits[here] = np.minimum(limits[here], entries[ends - 1])
        cut |= here
    return limits, cut


def _first_alive(
    gathered: GatheredEntries, limits: Indices, *, last: bool
) -> tuple[Indices, Indices]:
    """Return the groups in which an entry was found, and that entry."""
    ordinals = np.arange(len(gathered.owners))
    limit = limits[gathered.owners]
    within_limit = ordinals >= limit if last else ordinals <= limit
    alive = np.flatnonzero(within_limit & (gathered.weights > 0))
    owners = gathered.owners[alive]
    turn = owners[1:] != owners[:-1]
    end = np.ones(len(owners), np.bool_)
    if last:
        end[:-1] = turn
    else:
        end[1:] = turn
    return owners[end], alive[end]


def _behind(
    window: RowRange, part: RowRange, entries: Indices, limits: Indices, *, last: bool
) -> RowRange:
    """Return the remainder of a row range after the rows up to the limits."""
    owners = np.repeat(np.arange(len(limits)), part.lengths)
    done = entries >= limits[owners] if last else entries <= limits[owners]
    count = np.bincount(owners[done], minlength=len(limits))
    if last:
        return RowRange(window.run, window.low, window.high - count)
    return RowRange(window.run, window.low + count, window.high)
