"""Accumulators over ranges of rows, and over the rows of a partition before a position.

The sums over the rows before a position are those of the entries before it in each run, so a weight
below zero removes what an older run has. Each page keeps the running sums of its blocks of rows, from
the first time that they are read. So a batch reads two blocks of each run for a partition of any
size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS, TREE_COUNTERS
from substrait_agg.functions.numbers import exact
from substrait_agg.operator.aggregate.groups import Sums
from substrait_agg.operator.aggregate.step import add
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.operator.measures.finalize import GroupState
from substrait_agg.operator.measures.row_partials import Weights, split_accumulator
from substrait_agg.operator.numeric.delta import (
    FloatDigits,
    concat_floats,
    consolidate_floats,
    fixed_digits,
    float_digits,
)
from substrait_agg.state.keys.rows import Indices, take
from substrait_agg.state.ordered_run import RunPage
from substrait_agg.state.row_ranges import RowRange

Int64s = npt.NDArray[np.int64]
Digits = dict[int, FloatDigits]
"""Digits by accumulator; those of a fixed number of digits begin at position 0."""

BLOCK_ROWS = 256
"""Rows of a page of which only the sum is kept."""


def no_rows(spec: OperatorSpec, count: int) -> GroupState:
    """Return the accumulators of frames without rows."""
    floats = [i for i, accumulator in enumerate(spec.accumulators) if accumulator.floating]
    nothing = {i: FloatDigits(0, exact.zeros(1, count)) for i in floats}
    return GroupState(exact.zeros(spec.layout.digits, count), nothing)


def state_of_ranges(
    spec: OperatorSpec,
    arguments: Mapping[int, pa.Array],
    low: Indices,
    high: Indices,
    before: GroupState,
    distinct: Digits,
) -> GroupState:
    """Return the accumulators over ranges of rows, each added to a state.

    Args:
        spec: the aggregate.
        arguments: columns of the rows, by argument.
        low: starts of the ranges.
        high: ends of the ranges (exclusive), not before the starts.
        before: per range, the state to which it is added.
        distinct: per range, the accumulators over its different values that are read.

    Raises:
        RunFailed: TOTAL_OVERFLOW.
    """
    ones = Weights(np.ones(max(map(len, arguments.values()), default=0), np.int64), ones=True)
    sums = {
        i: value.apply(lambda digits: sums_in_ranges(digits, low, high))
        for i, value in digits_of_rows(spec, arguments, ones).items()
    }
    return _add(spec, high - low, sums | distinct, before)


def state_before(
    spec: OperatorSpec, arguments: Sequence[int], ranges: Sequence[RowRange], counts: Int64s
) -> GroupState:
    """Return the accumulators over the entries of row ranges, which are the first of their groups.

    Args:
        spec: the aggregate.
        arguments: per argument, the component of the tree.
        ranges: per run, a row range per group. Groups are in the order of the runs.
        counts: per group, the sum of the weights of all its entries.

    Raises:
        RunFailed: TOTAL_OVERFLOW.
    """
    parts = [
        part
        for of_run in ranges
        for page, groups, low, high in of_run.run.pages_between(of_run.low, of_run.high)
        for part in _sums_in_page(spec, arguments, page, groups, low, high)
    ]
    state = no_rows(spec, len(counts))
    if not parts:
        return state
    groups = np.concatenate([groups for groups, _ in parts])
    sums = {
        i: consolidate_floats(
            concat_floats([digits[i] for _, digits in parts]), groups, len(counts)
        )
        for i in parts[0][1]
    }
    return _add(spec, counts, sums, state)


def _add(spec: OperatorSpec, weights: Int64s, sums: Digits, state: GroupState) -> GroupState:
    """Return a state with the sums of rows added."""
    count = len(weights)
    # Nothing reads how many extremes a frame has had.
    fixed = {
        i: sums[i].digits if i in sums else exact.zeros(accumulator.digits, count)
        for i, accumulator in enumerate(spec.accumulators)
        if not accumulator.floating
    }
    floats = {i: value for i, value in sums.items() if i not in fixed}
    weight = exact.widen(exact.from_words(weights[:, None]), COUNT_DIGITS + 1)
    return add(spec, Sums(weight, fixed, floats), state)


def digits_of_rows(
    spec: OperatorSpec,
    arguments: Mapping[int, pa.Array],
    weights: Weights,
    tree: int | None = None,
) -> Digits:
    """Return what each row adds to the accumulators, as carried digits.

    With `tree`, what each of its entries adds to those over its different values.
    """
    result: Digits = {}
    for i, accumulator in enumerate(spec.accumulators):
        if accumulator.tree == tree and accumulator.kind not in TREE_COUNTERS:
            cells = pa.table(split_accumulator(i, accumulator, arguments, weights))
            if accumulator.floating:
                value = float_digits(cells, i, accumulator)
            else:
                value = FloatDigits(0, fixed_digits(cells, i, accumulator))
            result[i] = value.apply(lambda digits: exact.carry(digits.copy()))
    return result


def sums_in_ranges(digits: exact.Digits, low: Indices, high: Indices) -> exact.Digits:
    """Return the sums of carried digits in ranges; they leave room for 2^31 rows."""
    running = _sum_running(digits)
    return running[:, high] - running[:, low]


def _sum_running(digits: exact.Digits) -> exact.Digits:
    """Return the sum of the numbers before each, and that of all."""
    running = exact.zeros(len(digits), digits.shape[1] + 1)
    np.cumsum(digits, axis=1, out=running[:, 1:])
    return running


# --- sums in pages -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PageSums:
    """The sums of the rows of a page before each of its blocks, and of all its rows.

    Attributes:
        block: number of rows of a block; the last one may have fewer.
        running: running sums.
    """

    block: int
    running: Digits

    def between(self, first: Indices, last: Indices) -> Digits:
        """Return the sums between the starts of blocks, or the end of the page."""
        low, high = -(-first // self.block), -(-last // self.block)
        return {
            i: value.apply(lambda running: running[:, high] - running[:, low])
            for i, value in self.running.items()
        }


def _page_sums(spec: OperatorSpec, arguments: Sequence[int], page: RunPage) -> _PageSums:
    """Return the sums of a page, computed once."""
    key = (_PageSums, spec.accumulators, tuple(arguments))
    sums = page.derived.get(key)
    if not isinstance(sums, _PageSums):
        columns = {a: page.entries.payload[place] for a, place in enumerate(arguments)}
        rows = digits_of_rows(spec, columns, Weights.of(page.entries.weights))
        starts = np.arange(0, len(page.entries), BLOCK_ROWS)
        running = {
            i: value.apply(lambda digits: _sum_running(np.add.reduceat(digits, starts, axis=1)))
            for i, value in rows.items()
        }
        sums = page.derived[key] = _PageSums(BLOCK_ROWS, running)
    return sums


def _sums_in_page(
    spec: OperatorSpec,
    arguments: Sequence[int],
    page: RunPage,
    groups: Indices,
    low: Indices,
    high: Indices,
) -> list[tuple[Indices, Digits]]:
    """Return sums that add up to those of ranges of rows of a page, with the group of each."""
    sums, rows = _page_sums(spec, arguments, page), len(page.entries)
    first = np.minimum(-(-low // sums.block) * sums.block, high)
    last = np.maximum(first, np.where(high == rows, rows, high // sums.block * sums.block))
    parts = []
    whole = np.flatnonzero(first < last)
    if len(whole):
        parts.append((groups[whole], sums.between(first[whole], last[whole])))
    starts, stops = np.stack([low, last], 1).reshape(-1), np.stack([first, high], 1).reshape(-1)
    lengths = stops - starts
    ends = np.cumsum(lengths)
    if len(ends) and ends[-1]:
        at = np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1])
        values = take([page.entries.payload[place] for place in arguments], at)
        weights = Weights.of(page.entries.weights[at])
        single = digits_of_rows(spec, dict(enumerate(values)), weights)
        parts.append((np.repeat(np.repeat(groups, 2), lengths), single))
    return parts
