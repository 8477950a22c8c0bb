"""Aggregate functions that need every value of their frame: medians, modes, lists, DISTINCT.

Each frame is read as a whole, so the cost is the number of values in all frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.errors import RunFailed
from substrait_agg.functions.aggregates.accumulators import TREE_COUNTERS
from substrait_agg.functions.aggregates.kinds import KINDS
from substrait_agg.functions.numbers import exact
from substrait_agg.operator.aggregate.trees import cast_columns, contributes
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.common.spec import MeasureSpec, OperatorSpec, TreeSpec
from substrait_agg.operator.measures.contributors import concat
from substrait_agg.operator.measures.multiset_aggregates import SCANS
from substrait_agg.operator.measures.row_partials import Weights
from substrait_agg.operator.numeric.delta import FloatDigits, concat_floats
from substrait_agg.operator.window.sums import Digits, digits_of_rows, sums_in_ranges
from substrait_agg.required import require
from substrait_agg.state.keys.keys import encode, sort_order
from substrait_agg.state.keys.rows import Indices, take
from substrait_agg.state.segments import Segments

Int64s = npt.NDArray[np.int64]

MOST_VALUES = 1 << 28
"""Most values in the frames of a partition of which a batch computes the values."""
VALUES_AT_ONCE = 1 << 22
"""Values of frames that are in memory at once, or more if one frame has more."""


@dataclass(frozen=True, slots=True)
class FrameValues:
    """The values of a tree in each frame.

    Attributes:
        columns: the different values of all rows, in the order of the tree.
        ranks: per row that has a value, its ordinal among these.
        low: per frame, its first row that has a value.
        high: per frame, the end (exclusive) of its rows that have a value.
    """

    columns: tuple[pa.Array, ...]
    ranks: Indices
    low: Indices
    high: Indices

    @staticmethod
    def of(
        tree: TreeSpec, arguments: Mapping[int, pa.Array], low: Indices, high: Indices
    ) -> FrameValues:
        """Return the values of a tree over columns of rows, by argument, in frames."""
        has_value, values = tree_values(tree, arguments)
        some = np.flatnonzero(has_value)
        before = np.concatenate([[0], np.cumsum(has_value)])
        values = take(values, some)
        ranks, different = np.zeros(len(some), np.int64), some[:0]
        if len(some):
            order, first = sort_order([], encode(values, tree.layout.components))
            ranks[order] = np.cumsum(first) - 1
            different = order[first]
        return FrameValues(tuple(take(values, different)), ranks, before[low], before[high])

    def check(self, owners: Indices) -> None:
        """Refuse frames whose values take too long to read.

        Args:
            owners: the partition of each frame.

        Raises:
            RunFailed: WINDOW_FRAMES_TOO_LARGE.
        """
        totals = np.bincount(owners, (self.high - self.low).astype(np.float64))
        if float(totals.max(initial=0)) > MOST_VALUES:
            raise RunFailed(
                "WINDOW_FRAMES_TOO_LARGE",
                f"the frames of a partition have over {MOST_VALUES:,} values together, and a function needs each",
            )

    def parts(self) -> Iterator[Segments]:
        """Yield the different values of each frame with their number, for consecutive frames."""
        lengths = self.high - self.low
        part = (np.cumsum(np.maximum(lengths, 1)) - 1) // VALUES_AT_ONCE
        for frames in np.split(np.arange(len(lengths)), np.flatnonzero(np.diff(part)) + 1):
            yield self._segments(self.low[frames], lengths[frames])

    def _segments(self, low: Indices, lengths: Int64s) -> Segments:
        count, width = len(lengths), max(len(self.columns[0]), 1)
        ends = np.cumsum(lengths)
        at = np.repeat(low - ends + lengths, lengths) + np.arange(ends[-1] if count else 0)
        frames = np.repeat(np.arange(count), lengths)
        keys = np.sort(frames * width + self.ranks[at])
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        owners, ranks = np.divmod(keys[starts], width)
        offsets = np.searchsorted(owners, np.arange(count + 1))
        weights = np.diff(starts, append=len(keys))
        return Segments(offsets, tuple(take(self.columns, ranks)), weights)


def tree_values(
    tree: TreeSpec, arguments: Mapping[int, pa.Array]
) -> tuple[npt.NDArray[np.bool_], list[pa.Array]]:
    """Return a mask of the rows that have a value in a tree, and the columns of the values."""
    table = pa.table({f"x{a}": column for a, column in arguments.items()})
    table = table.append_column(WEIGHT, pa.array(np.ones(table.num_rows, np.int64)))
    return contributes(tree, table), cast_columns(tree, [arguments[a] for a in tree.arguments])


def needs_all(measure: MeasureSpec) -> bool:
    """Return whether a measure is computed from all values, without accumulators."""
    return KINDS[measure.kind].evaluation == "multiset"


def trees_read(spec: OperatorSpec, measures: Sequence[MeasureSpec]) -> list[int]:
    """Return the trees of which measures need every value of a frame."""
    scanned = {require(measure.tree) for measure in measures if needs_all(measure)}
    return sorted(scanned | {*_summed(spec, measures)})


def _summed(spec: OperatorSpec, measures: Sequence[MeasureSpec]) -> Iterator[int]:
    for measure in measures:
        for ordinal in () if needs_all(measure) else measure.accumulators:
            tree = None if ordinal is None else spec.accumulators[ordinal].tree
            if tree is not None:
                yield tree


def collected_value(values: FrameValues, measure: MeasureSpec) -> pa.Array:
    """Return the value of a measure in each frame."""
    return concat([SCANS[measure.kind](part, measure) for part in values.parts()], measure)


def distinct_sums(spec: OperatorSpec, tree: int, values: FrameValues) -> Digits:
    """Return the accumulators over the different values of each frame."""
    parts = [_sums_of_part(spec, tree, part) for part in values.parts()]
    return {i: concat_floats([part[i] for part in parts]) for i in parts[0]}


def _sums_of_part(spec: OperatorSpec, tree: int, part: Segments) -> Digits:
    columns = dict(zip(spec.trees[tree].arguments, part.columns, strict=True))
    ones = Weights(np.ones(len(part.weights), np.int64), ones=True)
    low, high = part.offsets[:-1], part.offsets[1:]
    digits = digits_of_rows(spec, columns, ones, tree)
    sums = {i: value.apply(lambda d: sums_in_ranges(d, low, high)) for i, value in digits.items()}
    counts = exact.from_words((high - low)[:, None])
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.tree == tree and accumulator.kind in TREE_COUNTERS:
            sums[i] = FloatDigits(0, counts)
    return sums
