"""Products over all values of a group.

Products of integers are exact. Products of floats use twice the bits and a separate exponent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.functions.numbers import exact
from substrait_agg.functions.numbers.exact import TIE_TO_EVEN
from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.operator.measures.contributors import Contributors, result_overflow
from substrait_agg.operator.numeric.numbers import FORMATS, floats, integer_words, integers, limits
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import INTEGER_BITS
from substrait_agg.state.keys.rows import Mask
from substrait_agg.state.segments import Segments

Int64s = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

_SPLIT = 2.0**27 + 1
_NEAR = 1e-9
_FAR = np.int64(1 << 61)


def product(segments: Segments, measure: MeasureSpec) -> pa.Array:
    """Return the product of all values of each group.

    The product of no values is 1, or null if the option EMPTY is NULL. Products of integers are
    exact. If one does not fit the type, the option OVERFLOW applies: ERROR, SATURATE or SILENT (it
    wraps). Products of floats lose no factor to intermediate overflow or underflow. Their error
    before the single final rounding is about 2^-100 per factor, and they do not depend on the order
    of arrival. Infinities, zeros and NaN follow IEEE 754, except that zero is always +0.0.

    Raises:
        RunFailed: RESULT_OVERFLOW.
    """
    contributors = Contributors.of(segments, measure)
    valid = contributors.sizes > 0
    if measure.option("EMPTY") != "NULL":
        valid |= True
    if measure.type.kind in FORMATS:
        values = _float_product(contributors)
        with np.errstate(over="ignore"):
            narrow = values.astype(FORMATS[measure.type.kind][2])
        return pa.array(narrow, to_arrow(measure.type), mask=~valid)
    return _integer_product(contributors, valid)


# --- integers ---------------------------------------------------------------------------------


def _integer_product(contributors: Contributors, valid: Mask) -> pa.Array:
    measure = contributors.measure
    words = integer_words(contributors.values)[:, 0]
    weights = contributors.weights
    below = np.zeros(len(words), np.bool_) if measure.type.kind == "u64" else words < 0
    size = np.where(below, -words, words).view(np.uint64)
    count = len(contributors)
    zero, negative = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    wrapped, rough = np.ones(count, np.uint64), np.ones(count, np.float64)
    at = contributors.filled
    zero[at] = contributors.reduce(np.logical_or, size == 0)
    negative[at] = contributors.reduce(np.logical_xor, below & ((weights & 1) != 0))
    size = np.where(size == 0, np.uint64(1), size)
    wrapped[at] = contributors.reduce(np.multiply, _powers(size, weights))
    with np.errstate(over="ignore"):
        near = np.float_power(size.astype(np.float64), weights.astype(np.float64))
        rough[at] = contributors.reduce(np.multiply, near)
    fits = _fits(measure, wrapped, rough, negative) | zero
    wrapped = np.where(zero, np.uint64(0), np.where(negative, -wrapped, wrapped))
    return _with_overflow(measure, wrapped, fits, negative, valid)


def _powers(base: Words, exponent: Int64s) -> Words:
    """Return powers modulo 2^64."""
    result = np.ones_like(base)
    base, rest = base.copy(), exponent.copy()
    while rest.any():
        result = np.where(rest & 1, result * base, result)
        base, rest = base * base, rest >> 1
    return result


def _fits(measure: MeasureSpec, wrapped: Words, rough: Floats, negative: Mask) -> Mask:
    # A product below 2^64 equals its wrapped value. Close to 2^64 the approximate product does not
    # decide; there the product is above 2^64 if the wrapped value is small.
    low, high = 2.0**64 * (1 - _NEAR), 2.0**64 * (1 + _NEAR)
    certain = (rough < low) | ((rough < high) & (wrapped >= np.uint64(1 << 63)))
    least, greatest = (np.uint64(limit) for limit in limits(measure.type))
    return np.asarray(certain & (wrapped <= np.where(negative, least, greatest)))


def _with_overflow(
    measure: MeasureSpec, wrapped: Words, fits: Mask, negative: Mask, valid: Mask
) -> pa.Array:
    policy = measure.option("OVERFLOW", "ERROR")
    if policy == "ERROR" and (valid & ~fits).any():
        raise result_overflow(measure)
    if policy == "SATURATE":
        bits = INTEGER_BITS[measure.type.kind]
        least, greatest = limits(measure.type)
        ends = np.where(negative, np.uint64(-least % (1 << 64)), np.uint64(greatest % (1 << bits)))
        wrapped = np.where(fits, wrapped, ends)
    return integers(measure, wrapped, valid)


# --- floats -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Factors:
    """Factors (high + low) * 2^power.

    The magnitude of `high` is from 0.5 to 1; `low` is at most half a unit in the last place of
    `high`.
    """

    high: Floats
    low: Floats
    power: Int64s

    def __getitem__(self, rows: npt.NDArray[np.int64]) -> _Factors:
        return _Factors(self.high[rows], self.low[rows], self.power[rows])

    def put(self, rows: npt.NDArray[np.int64], other: _Factors) -> None:
        """Replace these rows in place."""
        self.high[rows], self.low[rows], self.power[rows] = other.high, other.low, other.power

    def times(self, other: _Factors) -> _Factors:
        """Multiply row by row, with an error of about 2^-104."""
        first, error = _two_product(self.high, other.high)
        error = error + (self.high * other.low + self.low * other.high)
        # Clip powers outside the range of any float, so that they do not wrap.
        power = np.clip(self.power + other.power, -_FAR, _FAR)
        return _normal(first, error, power)

    def to_the(self, exponent: Int64s) -> _Factors:
        """Raise to powers by squaring."""
        result = _Factors(self.high.copy(), self.low.copy(), self.power.copy())
        rows = np.flatnonzero(exponent > 1)
        base, rest = self[rows], exponent[rows] - 1
        while len(rows):
            odd = np.flatnonzero(rest & 1)
            result.put(rows[odd], result[rows[odd]].times(base[odd]))
            more = np.flatnonzero(rest > 1)
            rows, rest, base = rows[more], rest[more] >> 1, base[more]
            base = base.times(base)
        return result


def _normal(high: Floats, low: Floats, power: Int64s) -> _Factors:
    total = high + low
    rest = low - (total - high)
    fraction, more = np.frexp(total)
    return _Factors(fraction, np.ldexp(rest, -more), power + more)


def _two_product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return x * y rounded, and its error. Source: T. J. Dekker, 1971 (splitting by Veltkamp)."""
    product = x * y
    x_high, y_high = (_SPLIT * v - (_SPLIT * v - v) for v in (x, y))
    x_low, y_low = x - x_high, y - y_high
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return product, error


def _factors(values: pa.Array) -> _Factors:
    if pa.types.is_floating(values.type):
        number = floats(values)
        number = np.where(np.isfinite(number) & (number != 0), number, 1.0)
        fraction, power = np.frexp(number)
        return _Factors(fraction, np.zeros_like(fraction), power.astype(np.int64))
    whole = integer_words(values)[:, 0]
    whole = np.where(whole == 0, np.int64(1), whole)
    above = whole >> np.int64(32)
    if pa.types.is_decimal(values.type):  # the lowest word is unsigned
        above &= np.int64((1 << 32) - 1)
    upper = np.ldexp(above.astype(np.float64), 32)
    lower = (whole & np.int64((1 << 32) - 1)).astype(np.float64)
    return _normal(upper, lower, np.zeros(len(whole), np.int64))


def _float_product(contributors: Contributors) -> Floats:
    measure, values = contributors.measure, contributors.values
    factors = _reduce(_factors(values).to_the(contributors.weights), contributors)
    result = np.ones(len(contributors), np.float64)
    result[contributors.filled] = _round(measure, factors)
    number = floats(values)
    nan, zero, infinite, negative = (
        contributors.reduce(ufunc, items)
        for ufunc, items in (
            (np.logical_or, np.isnan(number)),
            (np.logical_or, number == 0),
            (np.logical_or, np.isinf(number)),
            (np.logical_xor, (number < 0) & ((contributors.weights & 1) != 0)),
        )
    )
    special = np.where(infinite, np.where(negative, -np.inf, np.inf), result[contributors.filled])
    special = np.where(zero, 0.0, special)
    result[contributors.filled] = np.where(nan | (zero & infinite), np.nan, special)
    return result


def _reduce(factors: _Factors, contributors: Contributors) -> _Factors:
    """Multiply the factors of each filled group by pairwise reduction."""
    sizes = contributors.sizes[contributors.filled]
    while (sizes > 1).any():
        ends = np.repeat(np.cumsum(sizes), sizes)
        rows = np.arange(len(ends))
        first = np.flatnonzero(((rows - ends + np.repeat(sizes, sizes)) & 1) == 0)
        paired = np.flatnonzero(first + 1 < ends[first])
        halved = factors[first]
        halved.put(paired, halved[paired].times(factors[first[paired] + 1]))
        factors, sizes = halved, (sizes + 1) >> 1
    return factors


def _round(measure: MeasureSpec, factors: _Factors) -> Floats:
    precision, lowest, _ = FORMATS[measure.type.kind]
    below = factors.high < 0
    low = np.ldexp(np.where(below, -factors.low, factors.low), 101)
    whole = np.floor(low)
    digits = exact.zeros(6, len(below))
    exact.add_at(digits, np.ldexp(np.abs(factors.high), 53).astype(np.int64), 48)
    exact.add_at(digits, whole.astype(np.int64), 0)
    _, mag = exact.magnitude(exact.carry(digits))
    rounding = measure.option("ROUNDING", TIE_TO_EVEN)
    return exact.to_float(
        mag, below, low != whole, 0,
        precision=precision, lowest=lowest, shift=factors.power - 101, rounding=rounding,
    )  # fmt: skip
