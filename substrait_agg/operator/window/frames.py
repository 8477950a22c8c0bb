"""Rows of partitions in order, and the rows that the frame of each has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.bind.bound import Frame
from substrait_agg.operator.measures.finalize import GroupState
from substrait_agg.operator.window.distances import as_integers, at_distance
from substrait_agg.required import require
from substrait_agg.state.keys.keys import Component, encode
from substrait_agg.state.keys.rows import Indices, Mask, as_mask

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowsBefore:
    """The rows of partitions that come before those that are read.

    Attributes:
        counts: per partition, their number.
        state: per partition, the accumulators of frames over them; None if no frame reads them.
        first: columns of the first rows of the partitions, `number` for each, null if there are
            fewer.
        number: how many there are of each partition.
    """

    counts: Int64s
    state: GroupState | None = None
    first: tuple[pa.Array, ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """Rows of partitions, in the order of partitions and within each in its order.

    Values are computed for some of the rows.

    Attributes:
        payload: columns of all rows: the sort keys, then the others.
        positions: the rows whose values are computed, ascending.
        first: per such row, the first row of its partition.
        stop: per such row, the end (exclusive) of its partition.
        first_peer: per such row, the first row of the partition with the same sort keys.
        stop_peer: per such row, the end (exclusive) of the rows with the same sort keys.
        peers_before: per such row, the number of sort keys of the partition before its own.
        owners: per such row, its partition.
        before: the rows of the partitions that come before all these.
        sort_keys: the sort keys, which are the first columns.
    """

    payload: tuple[pa.Array, ...]
    positions: Indices
    first: Indices
    stop: Indices
    first_peer: Indices
    stop_peer: Indices
    peers_before: Indices
    owners: Indices
    before: RowsBefore
    sort_keys: tuple[Component, ...]

    @staticmethod
    def of(
        payload: Sequence[pa.Array],
        owners: Indices,
        peers: Indices,
        before: RowsBefore,
        sort_keys: tuple[Component, ...],
        some: Indices | None = None,
    ) -> PartitionRows:
        """Return the rows of partitions.

        Args:
            payload: columns of the rows.
            owners: the partition of each row, ascending.
            peers: per row, the number of its sort keys, as of `peer_numbers`.
            before: the rows of the partitions that come before these.
            sort_keys: the sort keys, which are the first columns.
            some: the rows whose values are computed; None for all.
        """
        some = np.arange(len(owners)) if some is None else some
        (first, stop), (first_peer, stop_peer) = _ends(owners), _ends(peers)
        partition = first[some]
        ordinals = np.cumsum(np.diff(peers, prepend=-1) != 0)  # of sort keys that rows have
        return PartitionRows(
            tuple(payload),
            some,
            partition,
            stop[some],
            first_peer[some],
            stop_peer[some],
            ordinals[some] - ordinals[partition],
            owners[some],
            before,
            sort_keys,
        )

    @property
    def rows_before(self) -> Int64s:
        """Return per row the number of rows of its partition that come before `first`."""
        return self.before.counts[self.owners]

    def frames(self, frame: Frame) -> tuple[Indices, Indices]:
        """Return the frame of each row: its first row, and its end (exclusive), not before it."""
        low, high = self.first, self.stop
        if frame.rows:
            if frame.lower is not None:
                low = np.clip(self.positions + frame.lower, self.first, self.stop)
            if frame.upper is not None:
                high = np.clip(self.positions + frame.upper + 1, self.first, self.stop)
        else:
            if frame.lower is not None:
                away = frame.lower or frame.lower_rest
                low = self._at_distance(frame, stop=False) if away else self.first_peer
            if frame.upper is not None:
                away = frame.upper or frame.upper_rest
                high = self._at_distance(frame, stop=True) if away else self.stop_peer
        return low, np.maximum(low, high)

    def _at_distance(self, frame: Frame, *, stop: bool) -> Indices:
        """Return per row the first row whose sort key is at least the own one plus the lower bound.

        With `stop`, the row after the last one whose sort key is at most that plus the upper bound.
        """
        distance = require(frame.upper if stop else frame.lower)
        rest = frame.upper_rest if stop else frame.lower_rest
        keys = _SortKeys.of(self)
        target, outside = keys.at_distance(distance, rest, months=frame.months)
        place = keys.place(target, right=np.where(outside, target > 0, stop))
        place = np.where(keys.exists, place, self.stop_peer if stop else self.first_peer)
        # Plus a month, January 30 at noon is after January 31 at ten. As in Spark, no frame ends
        # or begins before that of an earlier row.
        return np.maximum.accumulate(place) if frame.months else place


@dataclass(frozen=True, slots=True)
class _SortKeys:
    """The values of the only sort key of rows, in least units, turned so that they ascend.

    Attributes:
        numbers: the number of each row of the partitions; 0 for null.
        own: the sort key of each row whose values are computed.
        descending: whether the order is.
        exists: mask of these rows whose sort key is not null.
        low: per such row, the first row of its partition without null.
        high: per such row, the end (exclusive) of the rows of its partition without null.
    """

    numbers: Int64s
    own: pa.Array
    descending: bool
    exists: Mask
    low: Indices
    high: Indices

    @staticmethod
    def of(rows: PartitionRows) -> _SortKeys:
        """Return the sort keys of rows."""
        (key,), values = rows.sort_keys, rows.payload[0]
        is_null = as_mask(values.is_null())
        nulls = np.concatenate([[0], np.cumsum(is_null)])
        count = nulls[rows.stop] - nulls[rows.first]
        return _SortKeys(
            _turn(as_integers(values), descending=key.descending),
            values.take(pa.array(rows.positions)),
            key.descending,
            ~is_null[rows.positions],
            rows.first + (count if key.nulls_first else 0),
            rows.stop - (0 if key.nulls_first else count),
        )

    def at_distance(self, distance: int | float, rest: int, *, months: bool) -> tuple[Int64s, Mask]:
        """Return the numbers at a distance from those of rows, and a mask of those limited to 64 bits."""
        sign = -1 if self.descending else 1
        numbers, outside = at_distance(self.own, sign * distance, sign * rest, months=months)
        return _turn(numbers, descending=self.descending), outside

    def place(self, target: Int64s, right: Mask) -> Indices:
        """Return per row the first place whose number is not below `target`, or is above it."""
        low, high = self.low, np.maximum(self.low, self.high)
        while (active := low < high).any():
            middle = (low + high) // 2
            number = self.numbers[np.minimum(middle, len(self.numbers) - 1)]
            below = active & ((number < target) | (right & (number == target)))
            low, high = np.where(below, middle + 1, low), np.where(active & ~below, middle, high)
        return low


def _turn(numbers: Int64s, *, descending: bool) -> Int64s:
    return ~numbers if descending else numbers  # -n would not fit for the least n


def peer_numbers(
    owners: Indices, payload: Sequence[pa.Array], sort_keys: Sequence[Component]
) -> Indices:
    """Number the sort keys of ordered rows, over all partitions.

    Args:
        owners: the partition of each row, ascending.
        payload: columns of the rows.
        sort_keys: the sort keys, which are the first columns; without any, all rows of a partition
            have the same number.
    """
    if not sort_keys:
        return owners
    # Rows are in order, so rows with equal sort keys are adjacent.
    keys = encode(payload[: len(sort_keys)], sort_keys)
    differs = np.zeros(len(owners), np.bool_)
    for column in (owners, *keys.words):
        differs[1:] |= column[1:] != column[:-1]
    if keys.rest is not None and len(owners):
        differs[1:] |= as_mask(pc.not_equal(keys.rest[1:], keys.rest[:-1]))
    return np.cumsum(differs)


def _ends(sections: Indices) -> tuple[Indices, Indices]:
    """Return the start and the end (exclusive) of the section of each row."""
    starts = np.flatnonzero(np.diff(sections, prepend=-1))
    lengths = np.diff(starts, append=len(sections))
    return np.repeat(starts, lengths), np.repeat(starts + lengths, lengths)


def least_in_ranges(values: Int64s, low: Indices, high: Indices, nothing: int) -> Int64s:
    """Return the least value in each range of rows; `nothing` for an empty range.

    A range is the union of two ranges whose length is a power of two.
    """
    lengths = high - low
    result = np.full(len(low), nothing, np.int64)
    levels = np.frexp(lengths.astype(np.float64))[1] - 1  # -1 for an empty range
    table, width = values, 1
    for level in range(int(levels.max(initial=-1)) + 1):
        some = np.flatnonzero(levels == level)
        result[some] = np.minimum(table[low[some]], table[high[some] - width])
        table = np.minimum(table[:-width], table[width:])
        width *= 2
    return result
