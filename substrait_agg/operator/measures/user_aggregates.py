"""Columns and values computed by user-defined measures of the embedding program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.errors import RunFailed
from substrait_agg.flow.graph.graph import COMPUTED
from substrait_agg.functions.aggregates.user import AdditiveMeasure, GroupedValues, OrderedMeasure
from substrait_agg.functions.numbers import exact
from substrait_agg.operator.common.spec import ComputedSpec, MeasureSpec
from substrait_agg.state.keys.rows import as_mask, take
from substrait_agg.state.segments import Segments

DIGITS = 38
Int64s = npt.NDArray[np.int64]


def with_computed(
    arguments: Mapping[int, pa.Array], computed: Sequence[ComputedSpec]
) -> dict[int, pa.Array]:
    """Return the argument columns and the columns that measures compute from them.

    A computed value is null if an argument is null.

    Raises:
        RunFailed: USER_MEASURE_FAILED.
    """
    result = dict(arguments)
    contributions: dict[tuple[int, tuple[int, ...]], _Contributions] = {}
    for place, spec in enumerate(computed):
        if all(a in arguments for a in spec.arguments):
            call = (id(spec.implementation), spec.arguments)
            if call not in contributions:
                contributions[call] = _contribute(spec, [arguments[a] for a in spec.arguments])
            result[COMPUTED + place] = contributions[call].column(spec)
    return result


@dataclass(frozen=True, slots=True)
class _Contributions:
    """The contributions of the rows without null arguments.

    Attributes:
        columns: contributions by name.
        rows: number of these rows.
        places: per input row, its place among these rows; null if an argument is null.
    """

    columns: Mapping[str, pa.Array]
    rows: int
    places: pa.Array

    def column(self, spec: ComputedSpec) -> pa.Array:
        """Return the contributions to one total, per input row."""
        measure = spec.implementation
        if spec.column not in self.columns:
            raise _wrong(measure, f"contribute did not return the column {spec.column}")
        values = _array(self.columns[spec.column], self.rows, measure, "contribute")
        if values.null_count:
            raise _wrong(measure, f"contribute returned nulls in column {spec.column}")
        target = pa.decimal128(DIGITS, measure.columns[spec.column])
        return _cast(_exact(values, measure), target, measure).take(self.places)


def _contribute(spec: ComputedSpec, arguments: Sequence[pa.Array]) -> _Contributions:
    complete = np.ones(len(arguments[0]), np.bool_)
    for argument in arguments:
        complete &= as_mask(argument.is_valid())
    rows = np.flatnonzero(complete)
    measure = spec.implementation
    with _converted_errors(measure, "contribute"):
        columns = dict(measure.contribute(take(arguments, rows)))
    places = np.zeros(len(complete), np.int64)
    places[rows] = np.arange(len(rows))
    return _Contributions(columns, len(rows), pa.array(places, mask=~complete))


@contextmanager
def _converted_errors(measure: object, method: str) -> Iterator[None]:
    """Convert exceptions of a measure's method to the failure of the batch."""
    try:
        yield
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        raise _wrong(measure, f"{method} raised {type(error).__name__}: {reason}") from error


def _array(values: Any, length: int, measure: object, method: str) -> pa.Array:
    """Return the result of a method as one array."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not isinstance(values, pa.Array):
        raise _wrong(measure, f"{method} returned {type(values).__name__}, not an Arrow array")
    if len(values) != length:
        raise _wrong(measure, f"{method} returned {len(values)} values for {length}")
    return values


def _exact(values: pa.Array, measure: object) -> pa.Array:
    if pa.types.is_integer(values.type):
        return values.cast(pa.decimal128(20, 0))  # as wide as the widest integer
    if not pa.types.is_decimal(values.type):
        raise _wrong(
            measure, f"contribute returned {values.type}; totals must be integers or decimals"
        )
    return values


def _cast(values: pa.Array, target: pa.DataType, measure: object) -> pa.Array:
    try:
        return values.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _wrong(measure, str(error)) from error


def _wrong(implementation: object, reason: str) -> RunFailed:
    return RunFailed(
        "USER_MEASURE_FAILED",
        f"{type(implementation).__name__}: {reason}",
        help="correct the class that computes the measure",
    )


def additive_value(
    measure: MeasureSpec, count: Int64s, totals: Sequence[exact.Digits], target: pa.DataType
) -> pa.Array:
    """Return the values of a user-defined measure from its exact totals.

    The measure itself defines the value of groups without contributing rows.

    Raises:
        RunFailed: USER_MEASURE_FAILED or TOTAL_OVERFLOW.
    """
    implementation = measure.implementation
    if not isinstance(implementation, AdditiveMeasure):
        raise TypeError(measure.label)
    # A group with more retractions than insertions has the totals of no rows.
    columns = {
        name: _decimals(measure, np.where(count > 0, digits, 0), scale)
        for (name, scale), digits in zip(implementation.columns.items(), totals, strict=True)
    }
    with _converted_errors(implementation, "value"):
        values = implementation.value(pa.array(np.maximum(count, 0)), columns)
    return _cast(_array(values, len(count), implementation, "value"), target, implementation)


def _decimals(measure: MeasureSpec, digits: exact.Digits, scale: int) -> pa.Array:
    below, mag = exact.magnitude(digits)
    lost = ~exact.below_limit(mag, 10**DIGITS)
    if lost.any():
        raise RunFailed(
            "TOTAL_OVERFLOW",
            f"{int(lost.sum())} totals of measure {measure.label} have more than {DIGITS} digits",
            help="use fewer decimal places in the class that computes the measure",
        )
    words = exact.low_words(mag, below, 2)
    type_ = pa.decimal128(DIGITS, scale)
    return pa.Array.from_buffers(type_, len(words), [None, pa.py_buffer(words)])


def ordered_value(measure: MeasureSpec, segments: Segments, target: pa.DataType) -> pa.Array:
    """Return the values of a user-defined measure from the ordered values of each group.

    Raises:
        RunFailed: USER_MEASURE_FAILED.
    """
    implementation = measure.implementation
    if not isinstance(implementation, OrderedMeasure):
        raise TypeError(measure.label)
    first, last = int(segments.offsets[0]), int(segments.offsets[-1])
    weights = np.asarray(segments.weights[first:last])
    columns = tuple(segments.columns[v].slice(first, last - first) for v in measure.values)
    if measure.distinct:
        weights = np.ones_like(weights)
    groups = GroupedValues(segments.offsets - first, columns, weights)
    with _converted_errors(implementation, "value"):
        values = implementation.value(groups)
    return _cast(_array(values, len(segments), implementation, "value"), target, implementation)
