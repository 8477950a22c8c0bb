"""Columns and values that measures of the embedding program compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.errors import RunFailed
from substrait_agg.flow.graph import COMPUTED
from substrait_agg.functions import exact
from substrait_agg.functions.user import AdditiveMeasure, GroupedValues, OrderedMeasure
from substrait_agg.operator.spec import ComputedSpec, MeasureSpec
from substrait_agg.state.rows import as_mask, take
from substrait_agg.state.segments import Segments

DIGITS = 38
Int64s = npt.NDArray[np.int64]


def with_computed(
    arguments: Mapping[int, pa.Array], computed: Sequence[ComputedSpec]
) -> dict[int, pa.Array]:
    """The argument columns with those that measures compute from them; null where an argument is null."""
    result = dict(arguments)
    for place, spec in enumerate(computed):
        if all(a in arguments for a in spec.arguments):
            result[COMPUTED + place] = _computed(spec, [arguments[a] for a in spec.arguments])
    return result


def _computed(spec: ComputedSpec, arguments: Sequence[pa.Array]) -> pa.Array:
    complete = np.ones(len(arguments[0]), np.bool_)
    for argument in arguments:
        complete &= as_mask(argument.is_valid())
    rows = np.flatnonzero(complete)
    made = spec.implementation.contribute(take(arguments, rows))[spec.column]
    target = pa.decimal128(DIGITS, spec.implementation.columns[spec.column])
    if len(made) != len(rows) or made.null_count:
        raise _wrong(spec.implementation, f"gave {len(made)} values for {len(rows)} rows, or nulls")
    places = np.zeros(len(complete), np.int64)
    places[rows] = np.arange(len(rows))
    return _cast(made, target, spec.implementation).take(pa.array(places, mask=~complete))


def _cast(values: pa.Array, target: pa.DataType, implementation: object) -> pa.Array:
    try:
        return values.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _wrong(implementation, str(error)) from error


def _wrong(implementation: object, reason: str) -> RunFailed:
    return RunFailed(
        "USER_MEASURE_FAILED",
        f"{type(implementation).__name__}: {reason}",
        help="correct the class that computes the measure",
    )


def additive_value(
    measure: MeasureSpec, count: Int64s, totals: Sequence[exact.Digits], target: pa.DataType
) -> pa.Array:
    """The values of a user-defined measure from its exact totals; what stands where nothing contributed is up to it."""
    implementation = measure.implementation
    if not isinstance(implementation, AdditiveMeasure):
        raise TypeError(measure.label)
    columns = {
        name: _decimals(measure, digits, scale)
        for (name, scale), digits in zip(implementation.columns.items(), totals, strict=True)
    }
    values = implementation.value(pa.array(np.maximum(count, 0)), columns)
    if len(values) != len(count):
        raise _wrong(implementation, f"gave {len(values)} values for {len(count)} groups")
    return _cast(values, target, implementation)


def _decimals(measure: MeasureSpec, digits: exact.Digits, scale: int) -> pa.Array:
    below, mag = exact.magnitude(digits)
    lost = ~exact.below_limit(mag, 10**DIGITS)
    if lost.any():
        raise RunFailed(
            "TOTAL_OVERFLOW",
            f"{int(lost.sum())} totals of measure {measure.label} have more than {DIGITS} digits",
            help="keep fewer digits behind the point in the class that computes the measure",
        )
    words = exact.low_words(mag, below, 2)
    type_ = pa.decimal128(DIGITS, scale)
    return pa.Array.from_buffers(type_, len(words), [None, pa.py_buffer(words)])


def ordered_value(measure: MeasureSpec, segments: Segments, target: pa.DataType) -> pa.Array:
    """The values of a user-defined measure from the values of its groups in order."""
    implementation = measure.implementation
    if not isinstance(implementation, OrderedMeasure):
        raise TypeError(measure.label)
    first, last = int(segments.offsets[0]), int(segments.offsets[-1])
    weights = np.asarray(segments.weights[first:last])
    columns = tuple(segments.columns[v].slice(first, last - first) for v in measure.values)
    if measure.distinct:
        weights = np.ones_like(weights)
    values = implementation.value(GroupedValues(segments.offsets - first, columns, weights))
    if len(values) != len(segments):
        raise _wrong(implementation, f"gave {len(values)} values for {len(segments)} groups")
    return _cast(values, target, implementation)
