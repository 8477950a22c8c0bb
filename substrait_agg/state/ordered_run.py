"""One run of an ordered tree, addressed by places 0, 1, ...

The module finds the places of groups and keys, and reads rows by place. All operations process many
places at once, page by page, and read only the pages concerned.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.state.entries import CollisionIds, Entries, TreeLayout
from substrait_agg.state.keys.keys import EncodedKeys, before
from substrait_agg.state.keys.rows import Hashes, Indices, Mask, beginnings
from substrait_agg.state.run import HASH_MAX, RunReader
from substrait_agg.state.weights import Weights

_MANY = 4
"""Rows of a page for one key that is searched for, up to which the page is searched as a whole."""
_WORD_BITS = 64


@dataclass(frozen=True, slots=True)
class RunPage:
    """Adjacent rows of a run.

    Attributes:
        entries: their entries.
        cum: the running sum of the weights.
        derived: cached objects that readers derive from the page.
    """

    entries: Entries
    cum: Weights
    derived: dict[object, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowsByPage:
    """Some places of a run, by page.

    Attributes:
        parts: pages, and the requested rows of each.
        restore_order: permutation from page order to the requested order; None if both are the same.
    """

    parts: tuple[tuple[RunPage, Indices], ...]
    restore_order: Indices | None

    def numbers(self, column: Callable[[RunPage], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return the requested rows of a column of numbers."""
        arrays = [column(page)[rows] for page, rows in self.parts]
        whole = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return whole if self.restore_order is None else whole[self.restore_order]

    def values(self, column: Callable[[RunPage], pa.Array]) -> pa.Array:
        """Return the requested rows of an Arrow column."""
        arrays = [column(page).take(pa.array(rows)) for page, rows in self.parts]
        whole = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        return whole if self.restore_order is None else whole.take(pa.array(self.restore_order))

    def keys(self) -> EncodedKeys:
        """Return the keys of the requested rows."""
        encoded = EncodedKeys.concat([page.entries.keys.take(rows) for page, rows in self.parts])
        return encoded if self.restore_order is None else encoded.take(self.restore_order)

    def weights(self) -> Weights:
        """Return the weights of the requested rows."""
        return self.numbers(lambda page: page.entries.weights)

    def weights_by_tree(self) -> list[Weights]:
        """Return the weights of the requested rows in each tree whose weights the run has."""
        further = range(len(self.parts[0][0].entries.further))
        return [
            self.weights(),
            *(self.numbers(lambda page, i=i: page.entries.further[i]) for i in further),  # type: ignore[misc]
        ]

    def cum(self) -> Weights:
        """Return the running sums of weights, each including its own row."""
        return self.numbers(lambda page: page.cum)

    def payload(self) -> tuple[pa.Array, ...]:
        """Return the values of the requested rows."""
        count = len(self.parts[0][0].entries.payload)
        return tuple(self.values(lambda page, i=i: page.entries.payload[i]) for i in range(count))  # type: ignore[misc]


class OrderedRun:
    """A run of an ordered tree, read on demand from nonempty pages, with all hashes live."""

    def __init__(self, pages: Sequence[RunPage]) -> None:
        self._pages = pages
        self._low, self._high = np.uint64(0), np.uint64(HASH_MAX)
        self._first = np.array([page.entries.hashes[0] for page in pages], np.uint64)
        self._last = np.array([page.entries.hashes[-1] for page in pages], np.uint64)
        self._starts = np.cumsum([0, *(len(page.entries) for page in pages)])
        # A list, so that views with other live hashes (`between`) share the computed keys.
        self._fences: list[EncodedKeys] = []

    @staticmethod
    def of_reader(reader: RunReader, layout: TreeLayout) -> OrderedRun:
        """Return the run in a file; its pages are prepared once per process."""
        run = reader.derived.get(OrderedRun)
        if not isinstance(run, OrderedRun):
            pages = [
                RunPage(Entries.from_table(page, layout), page.column("cum").to_numpy())
                for page in reader.pages
            ]
            run = reader.derived[OrderedRun] = OrderedRun(pages)
        return run.between(reader.file.low, reader.file.high)

    @staticmethod
    def of_entries(entries: Entries) -> OrderedRun:
        """Return a run in memory, of at least one entry."""
        return OrderedRun([RunPage(entries, np.cumsum(entries.weights))])

    def between(self, low: int, high: int) -> OrderedRun:
        """Return the same run with other live hashes."""
        run = object.__new__(OrderedRun)
        run.__dict__ |= self.__dict__
        run._low, run._high = np.uint64(low), np.uint64(high)
        return run

    def at(self, places: Indices) -> RowsByPage:
        """Return rows by place."""
        if len(self._pages) == 1:
            return RowsByPage(((self._pages[0], places),), None)
        pages = np.searchsorted(self._starts, places, "right") - 1
        order, parts = self._by_page(pages)
        rows_of_pages = [(self._pages[p], places[which] - self._starts[p]) for p, which in parts]
        if not rows_of_pages:
            return RowsByPage(((self._pages[0], places),), None)
        back = None
        if order is not None:
            back = np.empty_like(order)
            back[order] = np.arange(len(order))
        return RowsByPage(tuple(rows_of_pages), back)

    def pages_between(
        self, low: Indices, high: Indices
    ) -> Iterator[tuple[RunPage, Indices, Indices, Indices]]:
        """Yield the pages with rows of ranges of places, which follow one another.

        Yields:
            A page, the ordinals of the ranges with rows of it, and their starts and ends (exclusive)
            within the page.
        """
        some = np.flatnonzero(low < high)
        begin, end = low[some], high[some]
        firsts = np.searchsorted(end, self._starts[:-1], "right")
        lasts = np.searchsorted(begin, self._starts[1:], "left")
        for page in np.flatnonzero(firsts < lasts).tolist():
            inside, start = slice(firsts[page], lasts[page]), self._starts[page]
            stop = self._starts[page + 1]
            within = np.maximum(begin[inside], start) - start, np.minimum(end[inside], stop) - start
            yield self._pages[page], some[inside], *within

    @staticmethod
    def _by_page(pages: Indices) -> tuple[Indices | None, list[tuple[int, Indices]]]:
        """Return the elements of each page, and the resulting order (None if unchanged)."""
        order = None
        if (pages[1:] < pages[:-1]).any():
            order = np.argsort(pages, kind="stable")
            pages = pages[order]
        cuts = np.concatenate([np.flatnonzero(np.diff(pages, prepend=-1)), [len(pages)]])
        which = np.arange(len(pages)) if order is None else order
        return order, [(int(pages[a]), which[a:b]) for a, b in pairwise(cuts)]

    def groups(
        self, hashes: Hashes, chains: CollisionIds, starts: Indices | None = None
    ) -> tuple[Indices, Indices]:
        """Return the first place and the end (exclusive) of each group.

        The range of a missing group is empty. A group that is requested several times in succession
        is looked up once.

        Args:
            hashes: of the groups.
            chains: collision ids of the groups.
            starts: the rows whose group differs from that of the row before, if they are known.
        """
        if starts is None:
            starts = beginnings(hashes, chains)
        if len(starts) == len(hashes):
            return self._groups(hashes, chains)
        low, high = self._groups(hashes[starts], chains[starts])
        times = np.diff(starts, append=len(hashes))
        return np.repeat(low, times), np.repeat(high, times)

    def _groups(self, hashes: Hashes, chains: CollisionIds) -> tuple[Indices, Indices]:
        low = self._hash_bounds(hashes, right=False)
        high = self._hash_bounds(hashes, right=True)
        empty = (hashes < self._low) | (hashes > self._high) | (low >= high)
        low[empty] = high[empty] = 0
        occupied = np.flatnonzero(~empty)
        if len(occupied):
            self._narrow_to_collision_ids(low, high, chains, occupied)
        return low, high

    def _hash_bounds(self, hashes: Hashes, *, right: bool) -> Indices:
        """Return how many rows have a hash below (with `right`: not above) each hash."""
        if len(self._pages) == 1:
            own = self._pages[0].entries.hashes
            return np.asarray(np.searchsorted(own, hashes, "right" if right else "left"))
        if right:
            pages = np.searchsorted(self._first, hashes, "right") - 1
        else:
            pages = np.searchsorted(self._last, hashes, "left")
        inside = np.flatnonzero((pages >= 0) & (pages < len(self._pages)))
        bounds = np.where(pages < 0, 0, self._starts[-1])
        for page, which in self._by_page(pages[inside])[1]:
            at = inside[which]
            stored = self._pages[page].entries.hashes
            side: Any = "right" if right else "left"
            bounds[at] = self._starts[page] + np.searchsorted(stored, hashes[at], side)
        return bounds

    def _narrow_to_collision_ids(
        self, low: Indices, high: Indices, chains: CollisionIds, occupied: Indices
    ) -> None:
        one = (self._collision_ids(low[occupied]) == chains[occupied]) & (
            self._collision_ids(high[occupied] - 1) == chains[occupied]
        )
        if one.all():
            return
        mixed = occupied[~one]
        sought, start, stop = chains[mixed], low[mixed], high[mixed]
        low[mixed] = bisect(start, stop, lambda at, i: self._collision_ids(at) < sought[i])
        high[mixed] = bisect(start, stop, lambda at, i: self._collision_ids(at) <= sought[i])

    def _collision_ids(self, places: Indices) -> CollisionIds:
        return self.at(places).numbers(lambda page: page.entries.collision_ids)

    def bounds(self, low: Indices, high: Indices, keys: EncodedKeys, *, right: bool) -> Indices:
        """Return for each key the first place of its range whose key is not below it.

        Args:
            low: starts of the ranges; each lies within one group.
            high: ends of the ranges (exclusive).
            keys: one per range.
            right: return the first place whose key is above instead.
        """
        result = low.copy()
        occupied = np.flatnonzero(low < high)
        if len(self._pages) == 1:
            if len(occupied):
                own = keys.take(occupied) if len(occupied) < len(keys) else keys
                stored = self._pages[0].entries
                result[occupied] = _bounds_in_page(
                    stored, low[occupied], high[occupied], own, right=right
                )
            return result
        pages = self._pages_of(low[occupied], high[occupied], keys, occupied, right=right)
        for page, which in self._by_page(pages)[1]:
            at = occupied[which]
            start, stop = self._starts[page], self._starts[page + 1]
            inside = _bounds_in_page(
                self._pages[page].entries,
                np.maximum(low[at], start) - start,
                np.minimum(high[at], stop) - start,
                keys.take(at) if len(at) < len(keys) else keys,
                right=right,
            )
            result[at] = start + inside
        return result

    def _pages_of(
        self, low: Indices, high: Indices, keys: EncodedKeys, rows: Indices, *, right: bool
    ) -> Indices:
        """Return the page of each bound: the last page that does not begin after it."""
        first = np.searchsorted(self._starts, low, "right") - 1
        last = np.searchsorted(self._starts, high - 1, "right") - 1
        if (first == last).all():
            return first
        fences = self._page_keys()
        return (
            bisect(
                first + 1,
                last + 1,
                lambda at, i: before(fences, at, keys, rows[i], or_equal=right),
            )
            - 1
        )

    def _page_keys(self) -> EncodedKeys:
        """Return the first key of each page."""
        if not self._fences:
            begin = np.zeros(1, np.int64)
            self._fences.append(
                EncodedKeys.concat([p.entries.keys.take(begin) for p in self._pages])
            )
        return self._fences[0]


def _bounds_in_page(
    entries: Entries, low: Indices, high: Indices, keys: EncodedKeys, *, right: bool
) -> Indices:
    stored = entries.keys
    if len(keys) == 1:
        return np.array([_bound_of_one(stored, int(low[0]), int(high[0]), keys, right=right)])
    whole = len(stored.words) == 1 and stored.rest is None
    if _is_one_range(low, high):
        return _bounds_in_range(stored.wide(), low, high, keys.wide(), right=right)
    if whole and _MANY * len(keys) >= len(stored):
        bounds = _bounds_of_many(entries, low, high, keys.words[0], right=right)
        if bounds is not None:
            return bounds
    return bisect(low, high, lambda at, i: before(stored, at, keys, i, or_equal=right))


def _is_one_range(low: Indices, high: Indices) -> bool:
    return bool((low == low[0]).all() and (high == high[0]).all())


def _bounds_in_range(
    stored: EncodedKeys, low: Indices, high: Indices, keys: EncodedKeys, *, right: bool
) -> Indices:
    """Return the bounds of keys in one range.

    A word is searched for all keys at once, as long as the words before do not tell keys apart.
    """
    words, sought = stored.words, keys.words
    while words and _is_one_range(low, high):
        start, word = int(low[0]), words[0][low[0] : high[0]]
        if len(words) == 1 and stored.rest is None:
            return start + np.searchsorted(word, sought[0], "right" if right else "left")
        low = start + np.searchsorted(word, sought[0], "left")
        high = start + np.searchsorted(word, sought[0], "right")
        words, sought = words[1:], sought[1:]
    # The words that have been compared are equal in the remaining ranges.
    left = EncodedKeys(words or stored.words[-1:], stored.rest)
    others = EncodedKeys(sought or keys.words[-1:], keys.rest)
    return bisect(low, high, lambda at, i: before(left, at, others, i, or_equal=right))


def _bounds_of_many(
    entries: Entries, low: Indices, high: Indices, words: Hashes, *, right: bool
) -> Indices | None:
    """Return the bounds of keys of one word in a page with about as many rows.

    The ordinal of the group and the word of each row are packed in one number, in which the rows
    are ordered. None if they need more than 64 bits.
    """
    stored = entries.keys.words[0]
    starts = beginnings(entries.hashes, entries.collision_ids)
    least, greatest = stored.min(), stored.max()
    bits = np.uint64(int(greatest - least).bit_length())
    if int(bits) + len(starts).bit_length() > _WORD_BITS:
        return None
    ordinals = np.zeros(len(stored), np.uint64)
    ordinals[starts[1:]] = 1
    ordinals = np.cumsum(ordinals, dtype=np.uint64) << bits
    inside = np.clip(words, least, greatest) - least
    bounds = np.searchsorted(
        ordinals | (stored - least), ordinals[low] | inside, "right" if right else "left"
    )
    bounds = np.where(words < least, low, np.where(words > greatest, high, bounds))
    return np.clip(bounds, low, high)


def _bound_of_one(
    stored: EncodedKeys, low: int, high: int, keys: EncodedKeys, *, right: bool
) -> int:
    """Return the bound of one key: a view without groups has one, and arrays cost more than values."""
    for word, sought in zip(stored.words, keys.words, strict=True):
        equal = word[low:high]
        first, end = (int(np.searchsorted(equal, sought[0], s)) for s in ("left", "right"))
        low, high = low + first, low + end
    if stored.rest is None or keys.rest is None:
        return high if right else low
    rest, last = stored.rest, keys.rest[0].as_py()
    search = bisect_right if right else bisect_left
    return low + search(range(low, high), last, key=lambda place: rest[place].as_py())


def bisect(low: Indices, high: Indices, passed: Callable[[Indices, Indices], Mask]) -> Indices:
    """Return the first place not passed in each range from `low` to `high` (exclusive).

    Args:
        low: starts of the ranges.
        high: ends of the ranges, returned if all places are passed.
        passed: returns a mask of the places to pass, given places and the ordinals of their ranges;
            monotone within a range.
    """
    low, high = low.copy(), high.copy()
    active = np.flatnonzero(low < high)
    start, stop = low[active], high[active]
    while len(active):
        middle = (start + stop) >> 1
        go_on = passed(middle, active)
        start = np.where(go_on, middle + 1, start)
        stop = np.where(go_on, stop, middle)
        done = start >= stop
        if done.any():
            low[active[done]] = start[done]
            active, start, stop = active[~done], start[~done], stop[~done]
    return low
