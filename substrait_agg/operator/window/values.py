"""The values of window functions.

An aggregate function over frames is computed as the aggregate operator computes it over groups:
each frame is a group. Its sums are differences of running sums, in exact digits. So a frame has the
same value as a group with the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.bind.bound import WindowKind
from substrait_agg.functions.aggregates.kinds import complete
from substrait_agg.operator.aggregate.trees import GroupExtremes
from substrait_agg.operator.aggregate.values import MeasuredGroups, measure_value
from substrait_agg.operator.common.spec import OperatorSpec, TreeSpec
from substrait_agg.operator.measures.finalize import GroupState
from substrait_agg.operator.window.collected import (
    FrameValues,
    collected_value,
    distinct_sums,
    needs_all,
    tree_values,
    trees_read,
)
from substrait_agg.operator.window.frames import PartitionRows, least_in_ranges
from substrait_agg.operator.window.spec import FunctionSpec, WindowSpec
from substrait_agg.operator.window.sums import Digits, no_rows, state_of_ranges
from substrait_agg.required import require
from substrait_agg.state.keys.keys import encode, sort_order
from substrait_agg.state.keys.rows import Indices, Mask, as_mask

Floats = npt.NDArray[np.float64]


def function_values(spec: WindowSpec, rows: PartitionRows) -> list[pa.Array]:
    """Return per function its value in each row.

    Raises:
        RunFailed: RESULT_OVERFLOW if a value does not fit the type of an aggregate function whose
            overflow option is ERROR.
    """
    measured = _measures(spec, rows)
    return [
        (_VALUES[f.function](f, rows) if f.measure is None else measured[f.measure]).cast(f.type)
        for f in spec.functions
    ]


def within_limit(spec: WindowSpec, values: Sequence[pa.Array]) -> Mask:
    """Return a mask of the rows that are not left out because of their rank."""
    if spec.last is None:
        return np.ones(len(values[0]), np.bool_)
    return np.asarray(values[0].to_numpy(zero_copy_only=False) <= spec.last)


# --- functions of a row --------------------------------------------------------------------------


def _rank(_function: FunctionSpec, rows: PartitionRows) -> pa.Array:
    return pa.array(rows.rows_before + rows.first_peer - rows.first + 1)


def _dense_rank(_function: FunctionSpec, rows: PartitionRows) -> pa.Array:
    return pa.array(rows.peers_before + 1)


def _take(values: pa.Array, at: Indices, exists: Mask) -> pa.Array:
    """Return values at some rows, null where there is none."""
    return values.take(pa.array(np.where(exists, at, 0), mask=~exists))


def _at_distance(function: FunctionSpec, rows: PartitionRows, distance: int) -> pa.Array:
    value, *default = (rows.payload[argument] for argument in function.arguments)
    if function.skip_nulls and distance:
        before = distance < 0
        low = rows.first if before else rows.positions + 1
        high = rows.positions if before else rows.stop
        at, inside = _at_not_null(value, distance, low, high)
    else:
        at = rows.positions + distance
        inside = (at >= rows.first) & (at < rows.stop)
    if not default:
        return _take(value, at, inside)
    both = pa.concat_arrays([value, default[0].cast(value.type)])
    return both.take(pa.array(np.where(inside, at, len(value) + rows.positions)))


def _lag(function: FunctionSpec, rows: PartitionRows) -> pa.Array:
    return _at_distance(function, rows, -function.number)


def _lead(function: FunctionSpec, rows: PartitionRows) -> pa.Array:
    return _at_distance(function, rows, function.number)


def _at(number: int, low: Indices, high: Indices) -> tuple[Indices, Mask]:
    """Return the place with a number in each range, counted from 1, or below zero from the end.

    Returns:
        The places, and a mask of the ranges that have one.
    """
    at = low + (number - 1) if number > 0 else high + number
    return at, (at >= low) & (at < high)


def _at_not_null(
    values: pa.Array, number: int, low: Indices, high: Indices
) -> tuple[Indices, Mask]:
    """Return the place with a number among those of each range whose value is not null, as `_at`."""
    exists = as_mask(values.is_valid())
    before = np.concatenate([[0], np.cumsum(exists)])
    at, inside = _at(number, before[low], before[high])
    return np.append(np.flatnonzero(exists), 0)[np.where(inside, at, 0)], inside


def _in_frame(function: FunctionSpec, rows: PartitionRows, number: int) -> pa.Array:
    """Return the value of the row with a number in the frame, null if the frame has none."""
    low, high = rows.frames(require(function.frame))
    values = rows.payload[function.arguments[0]]
    if function.skip_nulls:
        return _take(values, *_at_not_null(values, number, low, high))
    return _take(values, *_at(number, low, high))


def _first_value(function: FunctionSpec, rows: PartitionRows) -> pa.Array:
    return _from_start(function, rows, 1)


def _last_value(function: FunctionSpec, rows: PartitionRows) -> pa.Array:
    return _in_frame(function, rows, -1)


def _nth_value(function: FunctionSpec, rows: PartitionRows) -> pa.Array:
    number = function.number
    return (_in_frame if number < 0 else _from_start)(function, rows, number)


def _from_start(function: FunctionSpec, rows: PartitionRows, number: int) -> pa.Array:
    """Return the value of the row with a number in the frame, counted from its first row."""
    if not rows.before.number or require(function.frame).lower is not None or function.skip_nulls:
        return _in_frame(function, rows, number)
    _, high = rows.frames(require(function.frame))
    argument, before = function.arguments[0], rows.rows_before
    both = pa.concat_arrays([rows.payload[argument], rows.before.first[argument]])
    first = len(both) - len(rows.before.first[argument]) + rows.owners * rows.before.number
    place = number - 1
    is_before, at = place < before, rows.first + place - before
    return _take(both, np.where(is_before, first + place, at), is_before | (at < high))


def _ntile(function: FunctionSpec, rows: PartitionRows) -> pa.Array:
    """Number parts of equal length; the first ones have one row more if that is needed."""
    place, size = rows.positions - rows.first, rows.stop - rows.first
    length, longer = np.divmod(size, function.number)
    in_longer = (length + 1) * longer
    behind = longer + (place - in_longer) // np.maximum(length, 1)
    return pa.array(np.where(place < in_longer, place // (length + 1), behind) + 1)


def _percent_rank(_function: FunctionSpec, rows: PartitionRows) -> pa.Array:
    before, others = rows.first_peer - rows.first, rows.stop - rows.first - 1
    return pa.array(before / np.maximum(others, 1))


def _cume_dist(_function: FunctionSpec, rows: PartitionRows) -> pa.Array:
    return pa.array((rows.stop_peer - rows.first) / (rows.stop - rows.first))


def _no_function(function: FunctionSpec, _rows: PartitionRows) -> pa.Array:
    raise TypeError(function)


_VALUES: Mapping[WindowKind, Callable[[FunctionSpec, PartitionRows], pa.Array]] = complete(
    {
        "rank": _rank,
        "dense_rank": _dense_rank,
        "lag": _lag,
        "lead": _lead,
        "first_value": _first_value,
        "last_value": _last_value,
        "nth_value": _nth_value,
        "ntile": _ntile,
        "percent_rank": _percent_rank,
        "cume_dist": _cume_dist,
        "aggregate": _no_function,
    },
    WindowKind,
)


# --- aggregate functions over frames -------------------------------------------------------------


def _measures(spec: WindowSpec, rows: PartitionRows) -> dict[int, pa.Array]:
    """Return the values of aggregate functions by their ordinal among the measures."""
    frames = spec.frames
    if frames is None:
        return {}
    arguments = {a: rows.payload[place] for a, place in enumerate(spec.frame_arguments)}
    by_frame: dict[object, list[int]] = {}
    for function in spec.functions:
        if function.measure is not None:
            by_frame.setdefault(function.frame, []).append(function.measure)
    values: dict[int, pa.Array] = {}
    for function in spec.functions:
        ordinals = by_frame.pop(function.frame, []) if function.measure is not None else []
        if ordinals:
            of_frame = _values_in_frames(frames, arguments, rows, function, ordinals)
            values |= dict(zip(ordinals, of_frame, strict=True))
    return values


def _values_in_frames(
    spec: OperatorSpec,
    arguments: Mapping[int, pa.Array],
    rows: PartitionRows,
    function: FunctionSpec,
    ordinals: Sequence[int],
) -> list[pa.Array]:
    """Return the values of some measures in the frames of a function."""
    low, high = rows.frames(require(function.frame))
    measures = [spec.measures[ordinal] for ordinal in ordinals]
    distinct: Digits = {}
    collected: dict[int | None, FrameValues] = {}
    for tree in trees_read(spec, measures):
        collected[tree] = FrameValues.of(spec.trees[tree], arguments, low, high)
        collected[tree].check(rows.owners)
        if any(not needs_all(measure) and measure.tree == tree for measure in measures):
            distinct |= distinct_sums(spec, tree, collected[tree])
    before = _state_before(spec, rows, function)
    state = state_of_ranges(spec, arguments, low, high, before, distinct)
    groups = _as_groups(spec, arguments, low, high, state)
    return [
        collected_value(collected[measure.tree], measure)
        if needs_all(measure)
        else measure_value(groups, ordinal)
        for ordinal, measure in zip(ordinals, measures, strict=True)
    ]


def _as_groups(
    spec: OperatorSpec,
    arguments: Mapping[int, pa.Array],
    low: Indices,
    high: Indices,
    state: GroupState,
) -> MeasuredGroups:
    """Return frames as groups with these accumulators."""
    count = len(low)
    every = np.ones(count, np.bool_)
    return MeasuredGroups(
        spec=spec,
        hashes=np.zeros(count, np.uint64),
        collision_ids=np.zeros(count, np.uint16),
        keys=(),
        state=state,
        shown=every,
        existed=~every,
        before=(),
        stale=~every,
        deltas=(),
        extremes=[
            _extremes(spec.trees[tree], arguments, low, high, last=side == "last")
            for tree, side in spec.extremes
        ],
        surrogates=lambda number: np.zeros(number, np.int64),
    )


def _state_before(spec: OperatorSpec, rows: PartitionRows, function: FunctionSpec) -> GroupState:
    """Return the accumulators over the rows of each frame that come before those that are read."""
    state = rows.before.state
    if state is None or require(function.frame).lower is not None:
        return no_rows(spec, len(rows.positions))
    floats = {
        i: value.apply(lambda digits: digits[:, rows.owners]) for i, value in state.floats.items()
    }
    return GroupState(state.fixed[:, rows.owners], floats)


def _extremes(
    tree: TreeSpec, arguments: Mapping[int, pa.Array], low: Indices, high: Indices, *, last: bool
) -> GroupExtremes:
    """Return the least or greatest entry of each frame in the order of a tree."""
    has_value, values = tree_values(tree, arguments)
    count, some = len(has_value), np.flatnonzero(has_value)
    keys = encode([v.take(pa.array(some)) for v in values], tree.layout.components)
    order, first = sort_order([], keys) if len(some) else (some, np.zeros(0, np.bool_))
    ranks = np.full(count, count, np.int64)
    ordinals = np.cumsum(first) - 1
    ranks[some[order]] = len(some) - 1 - ordinals if last else ordinals
    least = least_in_ranges(ranks, low, high, count)
    of_rank = np.zeros(count + 1, np.int64)
    of_rank[ranks] = np.arange(count)
    exists = least < count
    return GroupExtremes(exists, tuple(_take(v, of_rank[least], exists) for v in values))
