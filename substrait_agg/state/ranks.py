"""Search for entries by rank: bisection over keys, with the running sums of weights in the runs.

The number of rows of a group up to a key is the sum over the runs of a difference of two running
sums. Each round computes it for several pivot keys from the run with most candidates, and keeps the
candidates between two pivots. When few candidates are left, they are read one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from substrait_agg.state.keys.keys import EncodedKeys, compare
from substrait_agg.state.keys.rows import Indices, Mask
from substrait_agg.state.ordered_run import OrderedRun
from substrait_agg.state.row_ranges import RowRange, gather_rows
from substrait_agg.state.weights import Weights


@dataclass(frozen=True, slots=True)
class EntryPositions:
    """One position per group: before an entry, after it, or after all entries of the group.

    Attributes:
        keys: the key of the entry; ignored at the end.
        after: mask of the positions after the entry.
        end: mask of the positions after all entries.
    """

    keys: EncodedKeys
    after: Mask
    end: Mask

    @staticmethod
    def at(keys: EncodedKeys, exists: Mask) -> EntryPositions:
        """Return the positions before entries, and the end where an entry is not there."""
        return EntryPositions(keys, np.zeros(len(exists), np.bool_), ~exists)

    def behind(self, where: Mask | None = None) -> EntryPositions:
        """Return the positions after the entries, for all groups or for those of a mask."""
        after = np.ones(len(self.end), np.bool_) if where is None else self.after | where
        return EntryPositions(self.keys, after, self.end)

    def take(self, indices: npt.NDArray[np.int64]) -> EntryPositions:
        """Return the positions of some groups, in this order."""
        return EntryPositions(self.keys.take(indices), self.after[indices], self.end[indices])

    def or_else(self, other: EntryPositions, where: Mask) -> EntryPositions:
        """Return the positions where the mask is set, and those of `other` elsewhere."""
        both = EntryPositions(
            EncodedKeys.concat([self.keys, other.keys]),
            np.concatenate([self.after, other.after]),
            np.concatenate([self.end, other.end]),
        )
        return both.take(np.arange(len(where)) + np.where(where, 0, len(where)))


def compare_entries(left: EntryPositions, right: EntryPositions) -> npt.NDArray[np.int8]:
    """Compare the entries of positions: -1 if the left one comes first, 0 if equal, else 1.

    The end comes after all entries. Whether a position is before or after its entry has no effect.
    """
    by_end = left.end.astype(np.int8) - right.end.astype(np.int8)
    same = compare(left.keys, right.keys)
    return np.where(left.end | right.end, by_end, same).astype(np.int8)


PIVOTS = 15
FEW_ROWS = 128  # maximal number of candidates of a query, over all runs, to read one by one
FEW_ROWS_PER_RUN = 2 * (PIVOTS + 1)  # a round must reduce the number of candidates

Table = npt.NDArray[np.int64]  # a row per run, a column per query


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The candidate places of some queries.

    Attributes:
        start: start of the group in each run.
        base: running sum of weights before the start.
        low: starts of the candidates.
        high: ends of the candidates (exclusive).
        ranks: the requested ranks.
    """

    runs: tuple[OrderedRun, ...]
    start: Table
    base: Table
    low: Table
    high: Table
    ranks: Indices

    def take(self, which: npt.NDArray[np.int64]) -> _Candidates:
        """Return the candidates of some queries."""
        return _Candidates(
            self.runs,
            self.start[:, which],
            self.base[:, which],
            self.low[:, which],
            self.high[:, which],
            self.ranks[which],
        )

    def counts(self, places: Table) -> Weights:
        """Count the rows of the group, by weight, before these places of all runs."""
        total = np.zeros(places.shape[1], np.int64)
        for i, run in enumerate(self.runs):
            total += _sums(run, self.start[i], places[i], self.base[i])
        return total


def _sums(run: OrderedRun, start: Indices, places: Indices, base: Weights) -> Weights:
    """Return the sum of the weights from the start of a group to each place (exclusive)."""
    result = np.zeros(len(places), np.int64)
    some = np.flatnonzero(places > start)
    result[some] = run.at(places[some] - 1).cum() - base[some]
    return result


def weight_before(window: RowRange, places: Indices) -> Weights:
    """Return the sum of the weights from the start of each row range to a place (exclusive)."""
    return _sums(window.run, window.low, places, _base(window))


def find_ranks(windows: Sequence[RowRange], ranks: Indices) -> tuple[Indices, Indices, int]:
    """Return the place of the entry of each rank.

    Args:
        windows: per run (at least one), newest first, the rows of the group of each query.
        ranks: of each query, from 0.

    Returns:
        The ordinal of a run with the entry (-1 if the group has fewer), its place in the run, and
        the number of rows read.
    """
    source, places = np.full(len(ranks), -1, np.int64), np.zeros(len(ranks), np.int64)
    left = _begin(windows, ranks)
    active = np.flatnonzero((ranks >= 0) & (ranks < left.counts(left.high)))
    left, rows = left.take(active), 0
    few = max(FEW_ROWS, FEW_ROWS_PER_RUN * len(windows))
    while len(active):
        small = (left.high - left.low).sum(axis=0) <= few
        now = np.flatnonzero(small)
        if len(now):
            source[active[now]], places[active[now]], read = _look(left.take(now))
            rows += read
        active, left = active[~small], left.take(np.flatnonzero(~small))
        if len(active):
            left = _narrow(left)
            rows += PIVOTS * len(active)
    return source, places, rows


def _begin(windows: Sequence[RowRange], ranks: Indices) -> _Candidates:
    low = np.stack([w.low for w in windows])
    high = np.stack([w.high for w in windows])
    base = np.stack([_base(window) for window in windows])
    return _Candidates(tuple(w.run for w in windows), low, base, low, high, ranks)


def _base(window: RowRange) -> Weights:
    """Return the running sum of weights before the start of each row range."""
    base = np.zeros(len(window.low), np.int64)
    some = np.flatnonzero(window.lengths)
    first = window.run.at(window.low[some])
    base[some] = first.cum() - first.weights()
    return base


def _look(left: _Candidates) -> tuple[Indices, Indices, int]:
    """Read a few candidates and return the answers."""
    gathered = gather_rows(
        [RowRange(r, left.low[i], left.high[i]) for i, r in enumerate(left.runs)],
    )
    # The running sum over all queries may wrap around; differences within a query remain correct.
    running = np.cumsum(gathered.weights)
    starts = np.searchsorted(gathered.owners, np.arange(len(left.ranks)), "left")
    before = running[starts] - gathered.weights[starts]
    offsets = left.ranks - left.counts(left.low)
    hits = np.flatnonzero(running - before[gathered.owners] > offsets[gathered.owners])
    owners, where = np.unique(gathered.owners[hits], return_index=True)
    answers = hits[where]
    source, places = np.full(len(offsets), -1, np.int64), np.zeros(len(offsets), np.int64)
    source[owners], places[owners] = gathered.source[answers], gathered.places[answers]
    return source, places, gathered.rows


def _narrow(left: _Candidates) -> _Candidates:
    """Return the candidates between two adjacent pivots."""
    count = len(left.ranks)
    each = np.repeat(np.arange(count), PIVOTS)
    wide = left.take(each)
    keys = _pivots(left)
    bounds = np.stack(
        [run.bounds(wide.low[i], wide.high[i], keys, right=True) for i, run in enumerate(left.runs)]
    )
    passed = (wide.counts(bounds) <= wide.ranks).reshape(count, PIVOTS).sum(axis=1)
    by_pivot = bounds.reshape(len(left.runs), count, PIVOTS)
    at = np.arange(count)
    below = by_pivot[:, at, np.maximum(passed - 1, 0)]
    above = by_pivot[:, at, np.minimum(passed, PIVOTS - 1)]
    low = np.where(passed > 0, below, left.low)
    high = np.where(passed < PIVOTS, above, left.high)
    return _Candidates(left.runs, left.start, left.base, low, high, left.ranks)


def _pivots(left: _Candidates) -> EncodedKeys:
    """Return evenly spaced keys per query from the run with most candidates."""
    lengths = left.high - left.low
    widest = lengths.argmax(axis=0)
    at = np.arange(len(widest))
    steps = np.arange(1, PIVOTS + 1)
    places = left.low[widest, at][:, None] + lengths[widest, at][:, None] * steps // (PIVOTS + 1)
    parts: list[EncodedKeys] = []
    order: list[Indices] = []
    for i, run in enumerate(left.runs):
        queries = np.flatnonzero(widest == i)
        if len(queries):
            parts.append(run.at(places[queries].reshape(-1)).keys())
            order.append((queries[:, None] * PIVOTS + np.arange(PIVOTS)).reshape(-1))
    back = np.empty(places.size, np.int64)
    back[np.concatenate(order)] = np.arange(places.size)
    return EncodedKeys.concat(parts).take(back)
