"""Median, quantiles and percentiles.

Values are selected by rank. Points between two values are exact and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.functions.aggregates.accumulators import DIGIT_BITS
from substrait_agg.functions.numbers import exact
from substrait_agg.functions.numbers.exact import TIE_TO_EVEN
from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.operator.measures.contributors import (
    Contributors,
    choose,
    lists,
    require_room,
    result_overflow,
)
from substrait_agg.operator.numeric.delta import FloatDigits, add_floats
from substrait_agg.operator.numeric.numbers import (
    FORMATS,
    decimals,
    floats,
    limits,
    number_digits,
    scale_of,
)
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import INTEGER_BITS, Type
from substrait_agg.state.keys.rows import Indices, Mask, as_mask
from substrait_agg.state.segments import Segments

Int64s = npt.NDArray[np.int64]

CHUNK = 1 << 14
# Below the unit: a quotient by a 63-bit number keeps more than 64 significant bits.
_GUARD_DIGITS = 4
_NUMBERS = frozenset({*INTEGER_BITS, *FORMATS, "decimal"})
_FINEST = 1 << 62


@dataclass(frozen=True, slots=True)
class _Points:
    """Points between values.

    Point p is at the fraction `part[p] / parts` of the way from entry `low[p]` to entry `high[p]`.
    `rank` is the rank of the lower entry. Points where `valid` is not set are null.
    """

    low: Indices
    high: Indices
    rank: Int64s
    part: Int64s
    parts: int
    valid: Mask


def median(segments: Segments, measure: MeasureSpec) -> pa.Array:
    """Return the middle value, or the mean of two middle values rounded by ROUNDING."""
    contributors = Contributors.of(segments, measure)
    totals = contributors.totals
    rank, part = (totals - 1) >> 1, (totals & 1) ^ 1
    points = _points(contributors, np.arange(len(totals)), rank, part, 2, totals)
    return _between(contributors, points, measure.type)


def percentile_cont(segments: Segments, measure: MeasureSpec) -> pa.Array:
    """Return the point at the fraction `constants[0]` (0 to 1) of the way from first to last value.

    The fraction is taken as the decimal number that was written: 0.3 of the way through 11 values
    is the fourth. Between two values the point is interpolated and rounded once.
    """
    contributors = Contributors.of(segments, measure)
    totals = _count(contributors)
    fraction = _fraction(measure)
    rank, part = _multiply(np.maximum(totals - 1, 0), fraction)
    points = _points(contributors, np.arange(len(totals)), rank, part, fraction.denominator, totals)
    return _between(contributors, points, measure.type)


def percentile_disc(segments: Segments, measure: MeasureSpec) -> pa.Array:
    """Return the first value that at least the fraction `constants[0]` of all values are up to."""
    contributors = Contributors.of(segments, measure)
    totals = _count(contributors)
    whole, rest = _multiply(totals, _fraction(measure))
    rank = np.maximum(whole + (rest > 0) - 1, 0)
    filled = np.flatnonzero(totals)
    entries = np.zeros(len(totals), np.int64)
    entries[filled] = contributors.at(filled, rank[filled])
    return choose(contributors, entries, totals > 0)


_BOUNDARIES = {"NEITHER": (1, -1), "MINIMUM": (0, -1), "MAXIMUM": (1, 0), "BOTH": (0, 0)}


def quantile(segments: Segments, measure: MeasureSpec) -> pa.Array:
    """Return the values at the boundaries of `constants[0]` bins of equal size, as a list.

    The list is null if n is null or below 1, and for groups without values or with a null value.
    The option BOUNDARIES defines whether the list includes the first and the last value.

    Source: the description of ``quantile`` in ``functions_arithmetic.yaml`` of the Substrait
    standard.
    """
    contributors = Contributors.of(segments, measure, nulls=True)
    bins = measure.constants[0]
    totals, element = contributors.totals, measure.type.children[0]
    if bins is None or bins < 1:
        none = np.zeros(len(totals), np.int64)
        return lists(measure, none, contributors.values.slice(0, 0), none > 0)
    first, after = _BOUNDARIES[measure.option("BOUNDARIES", "NEITHER")]
    valid = (totals > 0) & ~_with_nulls(contributors)
    # If no group has a list, the number of boundaries is not limited.
    steps = bins + after - first + 1 if valid.any() else 0
    require_room(measure, float(valid.sum()) * steps, "values")
    groups = np.repeat(np.flatnonzero(valid), steps)
    if not len(groups):
        return lists(
            measure, np.zeros(len(totals), np.int64), contributors.values.slice(0, 0), valid
        )
    step = np.tile(np.arange(first, first + steps), int(valid.sum()))
    # step * (total - 1) / n, in parts that stay in 63 bits
    whole, rest = np.divmod(totals[groups] - 1, bins)
    rank, part = np.divmod(step * rest, bins)
    points = _points(contributors, groups, step * whole + rank, part, bins, totals)
    return lists(measure, np.where(valid, steps, 0), _between(contributors, points, element), valid)


def _with_nulls(contributors: Contributors) -> Mask:
    result = np.zeros(len(contributors), np.bool_)
    missing = as_mask(contributors.values.is_null())
    result[contributors.filled] = contributors.reduce(np.logical_or, missing)
    return result


def _count(contributors: Contributors) -> Int64s:
    """Return the totals, or 0 if the fraction is null: the result is then that of no values."""
    totals = contributors.totals
    return totals if contributors.measure.constants[0] is not None else np.zeros_like(totals)


def _fraction(measure: MeasureSpec) -> Fraction:
    exactly = Fraction(str(measure.constants[0] or 0))
    return min(max(exactly, Fraction(0)), Fraction(1)).limit_denominator(_FINEST)


def _multiply(totals: Int64s, fraction: Fraction) -> tuple[Int64s, Int64s]:
    """Multiply totals by a fraction from 0 to 1.

    Returns:
        The integer part, and the remainder in units of 1 / denominator.
    """
    upper, lower = np.int64(fraction.numerator), fraction.denominator
    count = len(totals)
    product = exact.multiply(
        exact.from_words(totals[:, None]), exact.from_words(np.full((count, 1), upper))
    )
    _, mag = exact.magnitude(product)
    quotient, _ = exact.divide(mag, np.full(count, lower, np.uint64))
    whole = exact.low_words(quotient, np.zeros(count, np.bool_), 1)[:, 0].view(np.int64)
    # The remainder is less than 2^62, so computing it modulo 2^64 is exact.
    return whole, totals * upper - whole * np.int64(lower)


def _points(
    contributors: Contributors,
    groups: Indices,
    rank: Int64s,
    part: Int64s,
    parts: int,
    totals: Int64s,
) -> _Points:
    valid = totals[groups] > 0
    some = np.flatnonzero(valid)
    low, high = np.zeros(len(groups), np.int64), np.zeros(len(groups), np.int64)
    low[some] = contributors.at(groups[some], rank[some])
    high[some] = contributors.at(groups[some], rank[some] + (part[some] > 0))
    return _Points(low, high, rank, np.where(valid, part, 0), parts, valid)


def _between(contributors: Contributors, points: _Points, type_: Type) -> pa.Array:
    measure = contributors.measure
    source = measure.inputs[0] if measure.inputs else type_
    if source.kind not in _NUMBERS:
        return _nearest(contributors, points)
    low = _take(contributors, points.low, points.valid)
    if not points.part.any() and low.type == to_arrow(type_) and source.kind == type_.kind:
        return low
    high = _take(contributors, points.high, points.valid)
    pieces = [
        _interpolate(
            measure,
            (source, type_),
            (low.slice(at, CHUNK), high.slice(at, CHUNK)),
            points.part[at : at + CHUNK],
            points.parts,
        )
        for at in range(0, max(1, len(low)), CHUNK)
    ]
    return pa.concat_arrays(pieces)


def _take(contributors: Contributors, entries: Indices, valid: Mask) -> pa.Array:
    return contributors.values.take(pa.array(entries, mask=~valid))


def _nearest(contributors: Contributors, points: _Points) -> pa.Array:
    """Return the value at the rounded rank, for values that are not numbers."""
    twice = 2 * points.part  # parts are at most 2^62
    half, lost = twice >= points.parts, (twice % points.parts) != 0
    odd, below = (points.rank & 1) != 0, np.zeros(len(points.rank), np.bool_)
    up = exact.rounds_up(_read_rounding(contributors.measure), odd, half, lost, below)
    return _take(contributors, np.where(up, points.high, points.low), points.valid)


def _read_rounding(measure: MeasureSpec) -> str:
    return measure.option("ROUNDING", TIE_TO_EVEN)


def _interpolate(
    measure: MeasureSpec,
    types: tuple[Type, Type],
    ends: tuple[pa.Array, pa.Array],
    part: Int64s,
    parts: int,
) -> pa.Array:
    """Return (low * (parts - part) + high * part) / parts, rounded once to the second type."""
    source, target = types
    valid = as_mask(ends[0].is_valid())
    low, high = (number_digits(end) for end in ends)
    total = add_floats(
        FloatDigits(
            low.base, exact.multiply(low.digits, exact.from_words((parts - part)[:, None]))
        ),
        FloatDigits(high.base, exact.multiply(high.digits, exact.from_words(part[:, None]))),
    )
    if target.kind not in FORMATS:
        return _to_whole(measure, types, total.digits, parts, valid)
    value = _to_float(measure, types, total, parts)
    if source.kind in FORMATS:
        value = _with_specials(value, ends, part)
    with np.errstate(over="ignore"):
        narrow = value.astype(FORMATS[target.kind][2])
    return pa.array(narrow, mask=~valid)


def _with_specials(
    value: npt.NDArray[np.float64], ends: tuple[pa.Array, pa.Array], part: Int64s
) -> npt.NDArray[np.float64]:
    low, high = (floats(end) for end in ends)
    special = ~(np.isfinite(low) & np.isfinite(high))
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(special, np.where(part > 0, low + high, low), value)


def _to_float(
    measure: MeasureSpec, types: tuple[Type, Type], total: FloatDigits, parts: int
) -> npt.NDArray[np.float64]:
    scale = scale_of(types[0])
    guard = _GUARD_DIGITS + -(-scale * 10 // (3 * DIGIT_BITS))
    below, mag = exact.magnitude(total.digits)
    mag, base = exact.trim(mag, total.base)
    mag = np.concatenate([np.zeros((guard, mag.shape[1]), np.uint64), mag])
    mag, lost = exact.divide(mag, np.full(mag.shape[1], parts, np.uint64))
    mag, more = exact.divide_by_power_of_ten(mag, scale)
    precision, lowest, _ = FORMATS[types[1].kind]
    return exact.to_float(
        mag, below, lost | more, base - guard,
        precision=precision, lowest=lowest, rounding=_read_rounding(measure),
    )  # fmt: skip


def _to_whole(
    measure: MeasureSpec, types: tuple[Type, Type], digits: exact.Digits, parts: int, valid: Mask
) -> pa.Array:
    target = types[1]
    shift = scale_of(target) - scale_of(types[0])
    below, mag = exact.magnitude(exact.times_power_of_ten(digits, max(0, shift)))
    # Divide twice the total: the lowest bit of the quotient is then the half that decides rounding.
    mag, lost = exact.divide(exact.double(mag), np.full(mag.shape[1], parts, np.uint64))
    mag, more = exact.divide_by_power_of_ten(mag, max(0, -shift))
    half, odd = (mag[0] & np.uint64(1)) != 0, (mag[0] & np.uint64(2)) != 0
    up = exact.rounds_up(_read_rounding(measure), odd, half, lost | more, below)
    mag[0] += np.uint64(2) * up - half
    mag = exact.half_of(mag)
    least, greatest = (exact.below_limit(mag, limit + 1) for limit in limits(target))
    if (~np.where(below, least, greatest) & valid).any():
        raise result_overflow(measure)
    words = exact.low_words(mag, below, 2)
    if target.kind in ("decimal", "u64"):
        return decimals(words, valid, target)
    return pa.array(words[:, 0].view(np.int64), mask=~valid).cast(to_arrow(target))
