"""Assignment of the entries of an ordered tree of times to sessions, on whole columns.

A time is *live* if the weights of its entries sum to more than zero. Live times less than a gap
apart form one session. The session begins with the first of them and ends one gap after the last,
exclusive. A time that is not live, because it was retracted before it was inserted, does not extend
a session. It belongs to the session that contains it or, if there is none, to a window [time, time
+ gap) of its own. The rows of that window sum to zero or less, so the window is never shown. A
session cannot have the same bounds, since its first time is live.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.state.keys.keys import EncodedKeys, prefix_keys
from substrait_agg.state.keys.rows import Hashes, Indices, Mask
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.row_ranges import GatheredEntries
from substrait_agg.state.weights import sum_runs_of_rows

Int64s = npt.NDArray[np.int64]

GROWTH = 4
"""The factor by which the reading distance grows while a session may extend further."""

FURTHEST = 1 << 61
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Bounds:
    """The window of each entry in microseconds, from `start` to `end` (exclusive)."""

    start: Int64s
    end: Int64s

    def differ(self, other: Bounds) -> Mask:
        """Return a mask of the entries whose windows in `self` and `other` differ."""
        return np.asarray((self.start != other.start) | (self.end != other.end))


def sessions(owners: Indices, times: Int64s, weights: Int64s, gap: int) -> Bounds:
    """Return the session of each entry.

    Args:
        owners: what separates sessions (the group of each entry), ascending.
        times: microseconds, ascending within an owner; equal ones are adjacent.
        weights: of the entries.
        gap: microseconds.

    Raises:
        RunFailed: WEIGHT_OVERFLOW.
    """
    first = _changes(owners) | _changes(times)
    starts = np.flatnonzero(first)
    owner, time = owners[starts], times[starts]
    live = sum_runs_of_rows(weights, starts) > 0
    live_owner, live_time = owner[live], time[live]
    begins = _changes(live_owner)
    begins[1:] |= live_time[1:] - live_time[:-1] >= gap
    begin = np.flatnonzero(begins)
    session = np.cumsum(begins) - 1
    last = np.append(begin[1:], len(live_time)) - 1
    # Find the last live time up to each time, and check that its session reaches that far.
    before = np.cumsum(live) - 1
    inside = before >= 0
    near = before[inside]
    inside[inside] = (live_owner[near] == owner[inside]) & (time[inside] - live_time[near] < gap)
    start, end = time.copy(), time + gap
    found = session[before[inside]]
    start[inside] = live_time[begin[found]]
    end[inside] = live_time[last[found]] + gap
    of_entry = np.cumsum(first) - 1
    return Bounds(start[of_entry], end[of_entry])


def _changes(values: npt.NDArray[np.int64]) -> Mask:
    """Return a mask of the values that differ from the value before.

    The first one is always set.
    """
    changed = np.ones(len(values), np.bool_)
    changed[1:] = values[1:] != values[:-1]
    return changed


@dataclass(frozen=True, slots=True)
class Spans:
    """Time ranges of groups, ordered by group and time; from `low` to `high`, both inclusive."""

    groups: Indices
    low: Int64s
    high: Int64s

    def __len__(self) -> int:
        return len(self.groups)

    def take(self, chosen: npt.NDArray[np.bool_]) -> Spans:
        """Return some of the spans."""
        return Spans(self.groups[chosen], self.low[chosen], self.high[chosen])

    def joined(self, gap: int) -> Spans:
        """Merge the spans of a group that overlap or are less than a gap apart."""
        order = np.lexsort((self.low, self.groups))
        groups, low, high = self.groups[order], self.low[order], self.high[order]
        apart = _changes(groups)
        apart[1:] |= low[1:] - high[:-1] >= gap
        starts = np.flatnonzero(apart)
        if not len(starts):
            return self
        return Spans(groups[starts], low[starts], np.maximum.reduceat(high, starts))


@dataclass(frozen=True, slots=True)
class TimeTree:
    """An ordered tree whose entries begin with a time, and the groups of a query.

    Attributes:
        tree: the tree.
        time: Arrow type of the time.
        nullable: whether times can be null; nulls come last.
        hashes: of the groups.
        collision_ids: collision ids of the groups.
    """

    tree: OrderedTree
    time: pa.DataType
    nullable: bool
    hashes: Hashes
    collision_ids: npt.NDArray[np.uint16]

    def read(self, spans: Spans) -> GatheredEntries | None:
        """Return the entries in the spans, those that cancel included.

        None if the tree is empty.
        """
        low = self._keys(spans.low)
        # The upper bound is exclusive, so it is the next microsecond.
        high = self._keys(spans.high + 1)
        return self.tree.between(self.hashes, self.collision_ids, spans.groups, low, high)

    def _keys(self, times: Int64s) -> EncodedKeys:
        column = pa.array(times).cast(self.time)
        return prefix_keys(column, nullable=self.nullable, form=self.tree.key_form)


def micros(column: pa.Array) -> Int64s:
    """Return times without nulls as microseconds since 1970."""
    return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False))


def whole_sessions(tree: TimeTree, touched: Spans, gap: int) -> Spans:
    """Return the spans of all sessions, before and after, that the times in `touched` belong to.

    A span ends where no entry follows within a gap, so no session extends beyond it, whatever the
    weights of its entries. The reading distance grows until every span ends this way.
    """
    done: list[Spans] = []
    active, reach = touched.joined(gap), gap
    while len(active):
        grown, closed = _grown(tree, active, reach, gap)
        done.append(grown.take(closed))
        active, reach = grown.take(~closed).joined(gap), min(reach * GROWTH, FURTHEST)
    return Spans(
        *map(np.concatenate, zip(*((s.groups, s.low, s.high) for s in done), strict=True))
    ).joined(gap)


def _grown(tree: TimeTree, spans: Spans, reach: int, gap: int) -> tuple[Spans, Mask]:
    """Extend spans by all times that follow each other less than a gap apart.

    Args:
        tree: the tree to read.
        spans: the spans.
        reach: how far to read beyond each span, microseconds.
        gap: microseconds.

    Returns:
        The extended spans, and a mask of those that end within `reach`.
    """
    low = np.maximum(spans.low, _LEAST + reach) - reach
    high = np.minimum(spans.high, _MOST - 1 - reach) + reach
    found = tree.read(Spans(spans.groups, low, high))
    if found is None:
        return spans, np.ones(len(spans), np.bool_)
    owners, times = found.owners, micros(found.payload(np.arange(len(found.owners)))[0])
    breaks = _changes(owners)
    breaks[1:] |= times[1:] - times[:-1] >= gap
    chain = np.cumsum(breaks) - 1
    first = np.flatnonzero(breaks)
    last = np.append(first[1:], len(times)) - 1
    # The times of a span are less than a gap apart, so any one of them identifies its series.
    at = np.flatnonzero(times == spans.low[owners])
    begin, end = spans.low.copy(), spans.high.copy()
    begin[owners[at]] = times[first[chain[at]]]
    end[owners[at]] = times[last[chain[at]]]
    closed = (begin - low >= gap - 1) & (high - end >= gap - 1)
    return Spans(spans.groups, begin, end), closed
