"""Find the rows of the other side that can match: by the key, or within a range.

The rows of a side are ordered by a number, the first column of its runs. Of a join with keys it is
the hash of the key. Of a join with a range (`bind.joins.ranges`) it is the *order code* of the
point, or of the first end of the interval: the first eight bytes of its order-preserving key
(`state.keys.keys`). A greater value never has a smaller code, and different long values may share
one. So the codes between those of two values contain all values between them, and perhaps a few
more, which the condition of the join removes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.bind.bound import Expr
from substrait_agg.bind.joins.ranges import JoinRange
from substrait_agg.evaluation.expressions import evaluate
from substrait_agg.operator.join.pairs import columns_of
from substrait_agg.operator.join.spec import JoinSpec
from substrait_agg.state.arrangement import (
    Arrangement,
    Matches,
    PageSlice,
    hash_ranges,
    iter_pairs,
    iter_places,
    match_page,
)
from substrait_agg.state.keys.keys import Component, encode
from substrait_agg.state.keys.row_sizes import slices_to_take
from substrait_agg.state.keys.rows import (
    Hashes,
    Indices,
    Mask,
    as_mask,
    group_rows,
    stable_order,
    take,
)
from substrait_agg.state.run import HASH_MAX

BLOCK_ROWS = 4096
"""Intervals for which the greatest end is known, so that blocks that end too early are not read."""

_WORD = 64
_BITS_PER_DIGIT = 3.33  # more than log2(10)


@dataclass(frozen=True, slots=True)
class ProbeSet:
    """What some rows look for on the other side.

    Attributes:
        low: the hash of the key, the point, or the least code.
        high: the greatest code; the same as `low` for a hash or a point.
        keys: key columns; none for a range.
        around: whether points look for the intervals around them.
        once: whether a row that several look for is found once.
    """

    low: Hashes
    high: Hashes
    keys: Sequence[pa.Array] = ()
    around: bool = False
    once: bool = False


class KeyLookup:
    """Finds rows with an equal key."""

    def __init__(self, spec: JoinSpec) -> None:
        self._spec = spec

    def order(self, port: int, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Mask]:
        """Return rows of a side in the order of a run, and which of them match nothing.

        Args:
            port: the side.
            rows: its rows, with the columns of a run, by the hashes of their keys.
        """
        keys = zip(self._keys(rows), self._spec.null_safe, strict=True)
        nulls = [as_mask(key.is_null()) for key, safe in keys if not safe and key.null_count]
        return rows, reduce(np.logical_or, nulls, np.zeros(rows.num_rows, np.bool_))

    def probes(self, port: int, rows: pa.RecordBatch) -> ProbeSet:
        """Return what rows of a side look for on the other one."""
        hashes = first_column(rows)
        return ProbeSet(hashes, hashes, self._keys(rows))

    def distinct_probes(self, port: int, rows: pa.RecordBatch) -> ProbeSet:
        """Return what rows look for together: each row of the other side is found once."""
        probes = KeyLookup.probes(self, port, rows)
        order, first = group_rows(probes.low, probes.keys)
        at = order[first]
        return ProbeSet(probes.low[at], probes.low[at], take(probes.keys, at), once=True)

    def probes_beside(self, rows: pa.RecordBatch) -> ProbeSet:
        """Return how to find the rows of the own side with the keys or codes of some rows."""
        return KeyLookup.probes(self, 0, rows)

    def iter_stored(self, probes: ProbeSet, old: Arrangement) -> Iterator[Matches]:
        """Yield the stored rows that probes look for."""
        return old.probe(probes.low, probes.keys)

    def iter_changed(self, probes: ProbeSet, rows: pa.RecordBatch) -> Iterator[Matches]:
        """Yield the rows that probes look for, of some that are ordered as in a run."""
        return match_page(rows, *hash_ranges(first_column(rows), probes.low), probes.keys)

    def count(self, probes: ProbeSet, old: Arrangement | None, rows: pa.RecordBatch) -> int:
        """Return the number of pairs that `iter_stored` and `iter_changed` test."""
        pairs = int(hash_ranges(first_column(rows), probes.low)[1].sum())
        return pairs + (0 if old is None else old.count_of(probes.low))

    def _keys(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return list(rows.columns[2 : 2 + len(self._spec.keys)])


class RangeLookup(KeyLookup):
    """Finds the points within intervals, and the intervals around points.

    Points are ordered by their value, so an interval finds its points by two binary searches.
    Intervals are ordered by their first end. Points read those that begin before the last of them,
    in blocks of which one ends after the first of them.
    """

    def __init__(self, spec: JoinSpec, range_: JoinRange) -> None:
        super().__init__(spec)
        self._range = range_

    def order(self, port: int, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Mask]:
        """See `KeyLookup`: a comparison with null is not true, so such rows match nothing."""
        range_ = self._range
        own = (range_.point,) if port == range_.point_port else (range_.least, range_.most)
        ends = [self._values(end, port, rows) for end in own if end is not None]
        nulls = reduce(np.logical_or, (as_mask(end.is_null()) for end in ends))
        codes = order_codes(ends[0])
        order = stable_order(codes)
        ordered = rows.set_column(0, rows.schema.field(0), pa.array(codes)).take(pa.array(order))
        return ordered, nulls[order]

    def probes(self, port: int, rows: pa.RecordBatch) -> ProbeSet:
        """See `KeyLookup`."""
        codes = first_column(rows)
        if port == self._range.point_port:
            return ProbeSet(codes, codes, around=True)
        return ProbeSet(*self._ends(rows))

    def distinct_probes(self, port: int, rows: pa.RecordBatch) -> ProbeSet:
        """See `KeyLookup`: different points, or the union of the intervals.

        Points within intervals that went and came have as many matches as before.
        """
        probes = self.probes(port, rows)
        if probes.around:
            codes = np.unique(probes.low)
            return ProbeSet(codes, codes, around=True, once=True)
        if self._range.is_whole:
            weights = np.asarray(rows.column(1).to_numpy())
            return ProbeSet(*_net_cover(probes.low, probes.high, weights), once=True)
        return ProbeSet(*_unite(probes.low, probes.high), once=True)

    def probes_beside(self, rows: pa.RecordBatch) -> ProbeSet:
        """See `KeyLookup`."""
        codes = np.unique(first_column(rows))
        return ProbeSet(codes, codes, once=True)

    def iter_stored(self, probes: ProbeSet, old: Arrangement) -> Iterator[Matches]:
        """See `KeyLookup`."""
        for rows in self._pages(probes, old):
            yield from self.iter_changed(probes, rows)

    def iter_changed(self, probes: ProbeSet, rows: pa.RecordBatch) -> Iterator[Matches]:
        """See `KeyLookup`."""
        low, lengths = self._places(probes, rows)
        if not probes.around:
            yield from iter_pairs(rows, low, lengths)
            return
        order = probes.low.argsort(kind="stable")
        for at, points in iter_places(low, lengths):
            for part in slices_to_take(rows.columns, at):
                yield Matches(order[points[part]], rows.take(pa.array(at[part])))

    def count(self, probes: ProbeSet, old: Arrangement | None, rows: pa.RecordBatch) -> int:
        """See `KeyLookup`."""
        pages = () if old is None else self._pages(probes, old)
        return sum(int(self._places(probes, page)[1].sum()) for page in (rows, *pages))

    def _places(self, probes: ProbeSet, rows: pa.RecordBatch) -> tuple[Indices, Indices]:
        """Return, per wanted interval, its first row and the number of its rows.

        Around points: per row the first of the points in their order, and their number.
        """
        if probes.around:
            points, (least, most) = np.sort(probes.low), self._ends(rows)
            low = points.searchsorted(least, "left")
            lengths = np.maximum(points.searchsorted(most, "right") - low, 0)
            return low, np.minimum(lengths, 1) if probes.once else lengths
        codes = first_column(rows)
        low = codes.searchsorted(probes.low, "left")
        return low, np.maximum(codes.searchsorted(probes.high, "right") - low, 0)

    def _ends(self, rows: pa.RecordBatch) -> tuple[Hashes, Hashes]:
        """Return the codes of the ends of intervals, of rows as in a run."""
        codes, port = first_column(rows), 1 - self._range.point_port
        least, most = self._range.least, self._range.most
        if most is None:
            return codes, np.full(len(codes), HASH_MAX, np.uint64)
        if least is None:
            return np.zeros(len(codes), np.uint64), codes
        return codes, order_codes(self._values(most, port, rows))

    def _pages(self, probes: ProbeSet, old: Arrangement) -> Iterator[pa.RecordBatch]:
        """Yield the stored rows that probes can look for."""
        if not len(probes.low):
            return
        low, high = int(probes.low.min()), int(probes.high.max())
        if not probes.around:
            yield from (page.rows for page in old.between(low, high))
        elif self._range.least is None:  # ordered by the greatest end
            yield from (page.rows for page in old.between(low, HASH_MAX))
        else:
            for page in old.between(0, high):
                yield from self._blocks(page, low)

    def _blocks(self, page: PageSlice, least: int) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of intervals of which one does not end before a code."""
        if self._range.most is None:
            yield page.rows
            return
        greatest = page.derive(("greatest ends", self._range), self._greatest_ends)
        reach = (greatest >= np.uint64(least)).astype(np.int8)
        edges = np.flatnonzero(np.diff(reach, prepend=0, append=0)) * BLOCK_ROWS
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            yield page.part(start, stop)

    def _greatest_ends(self, rows: pa.RecordBatch) -> Hashes:
        """Return the greatest end of each block of a page."""
        starts = np.arange(0, rows.num_rows, BLOCK_ROWS)
        return np.maximum.reduceat(self._ends(rows)[1], starts)

    def _values(self, expression: Expr, port: int, rows: pa.RecordBatch) -> pa.Array:
        columns = columns_of(self._spec.sides[port], rows)
        return evaluate(expression, columns, rows.num_rows)


def lookup_of(spec: JoinSpec) -> KeyLookup:
    """Return how the rows of a join find each other."""
    return KeyLookup(spec) if spec.range is None else RangeLookup(spec, spec.range)


def first_column(rows: pa.RecordBatch) -> Hashes:
    """Return the numbers by which the rows of a run are ordered."""
    return np.asarray(rows.column(0).to_numpy())


def order_codes(values: pa.Array) -> Hashes:
    """Return the order code of each value; 0 for nulls."""
    codes = np.zeros(len(values), np.uint64)
    present = as_mask(values.is_valid())
    values = values.drop_null()
    words = encode([values], [Component(values.type)]).words
    codes[present] = _cut(words[0], words[1], values.type.precision) if len(words) > 1 else words[0]
    return codes


def _cut(high: Hashes, low: Hashes, digits: int) -> Hashes:
    """Return the leading 64 bits that decimals of some digits use of their 128 bits.

    Args:
        high: the first word of the keys, which begins with the inverted sign.
        low: the second word.
        digits: greatest number of digits.
    """
    spare = max(_WORD + 1, int(digits * _BITS_PER_DIGIT) + 2) - _WORD
    least = np.uint64((1 << (_WORD - 1)) - (1 << (spare - 1)))  # the high word of the least number
    cut = np.uint64(spare)
    return ((high - least) << (np.uint64(_WORD) - cut)) | (low >> cut)


def _unite(low: Hashes, high: Hashes) -> tuple[Hashes, Hashes]:
    """Return the union of intervals of codes as disjoint ones; empty ones are left out."""
    some = low <= high
    low, high = low[some], high[some]
    order = low.argsort(kind="stable")
    low, reach = low[order], np.maximum.accumulate(high[order])
    first = np.ones(len(low), np.bool_)
    first[1:] = low[1:] > reach[:-1]
    last = np.append(first[1:], True)[: len(first)]
    return low[first], reach[last]


def _net_cover(low: Hashes, high: Hashes, weights: npt.NDArray[np.int64]) -> tuple[Hashes, Hashes]:
    """Return the codes that more or fewer intervals cover than before, as disjoint intervals.

    The ends are always among them: values with the code of an end may lie on either side of it.

    Args:
        low: the least code of each changed interval.
        high: its greatest code.
        weights: how many intervals came (above 0) or went.
    """
    some = low <= high
    low, high, weights = low[some], high[some], weights[some]
    stops = high < HASH_MAX  # others cover all further codes
    edges = np.concatenate([low, high[stops] + np.uint64(1)])
    steps = np.concatenate([weights, -weights[stops]])
    order = edges.argsort(kind="stable")
    edges, cover = edges[order], steps[order].cumsum()
    last = np.append(edges[1:] != edges[:-1], True)[: len(edges)]  # of the steps at one code
    edges, cover = edges[last], cover[last]
    ends = np.append(edges[1:] - np.uint64(1), np.uint64(HASH_MAX))[: len(edges)]
    changed = cover != 0
    return _unite(
        np.concatenate([edges[changed], low, high]), np.concatenate([ends[changed], low, high])
    )
