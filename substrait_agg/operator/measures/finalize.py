"""Conversion of exact digits to measure values: divide, round once, cast to the declared type.

Totals that fit 63 bits take a fast path in plain 64-bit arithmetic. It returns the same values as
the general path (a test compares them), and None if a step could overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.errors import RunFailed
from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS, DIGIT_BITS
from substrait_agg.functions.numbers import exact
from substrait_agg.operator.common.spec import MeasureSpec, OperatorSpec
from substrait_agg.operator.numeric.delta import FloatDigits, split_registers
from substrait_agg.operator.numeric.numbers import FORMATS, integers, limits
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import INTEGER_BITS
from substrait_agg.required import require
from substrait_agg.state.keys.rows import Mask

Int64s = npt.NDArray[np.int64]
GUARD_DIGITS = 4  # below the unit: a quotient by a 63-bit count keeps more than 64 significant bits


@dataclass(frozen=True, slots=True)
class GroupState:
    """The accumulated state of n groups.

    Attributes:
        fixed: digits of shape (digits, n) as in the layout.
        floats: float digits by accumulator ordinal.
    """

    fixed: exact.Digits
    floats: dict[int, FloatDigits]

    def weight(self) -> Int64s:
        """Return the total weight of each group."""
        return _as_int64(self.fixed[:COUNT_DIGITS])


@dataclass(frozen=True, slots=True)
class _Value:
    """An exact quotient: (-1)^below * mag * 2^(32 base) * 10^-scale / divisor."""

    below: Mask
    mag: exact.Magnitude
    base: int
    scale: int
    divisor: npt.NDArray[np.uint64] | None


def number_value(
    spec: OperatorSpec, state: GroupState, measure: MeasureSpec, rows: Mask
) -> pa.Array:
    """Return counts, sums or averages of the groups `rows`; other groups get arbitrary values.

    Raises:
        RunFailed: RESULT_OVERFLOW if a value does not fit the measure's type and its overflow
            option is ERROR.
    """
    count = _count_values(spec, state, measure, rows)
    present = count > 0
    if measure.kind == "count":
        return _count_value(measure, np.maximum(count, 0), rows)
    divisor = np.where(present, count, 1).astype(np.uint64) if measure.kind == "avg" else None
    valid = present | (measure.kind == "sum0")
    total = require(measure.total)
    if spec.accumulators[total].kind == "float":
        return _float_value(measure, state.floats[total], divisor, present, valid)
    digits = fixed_of(spec, state, total)
    if measure.kind == "sum0":
        digits = np.where(present, digits, 0)
    return _convert(measure, digits, divisor, valid, rows)


def _count_values(
    spec: OperatorSpec, state: GroupState, measure: MeasureSpec, rows: Mask
) -> Int64s:
    """Return how many values count in each group.

    Raises:
        RunFailed: RESULT_OVERFLOW if counts that an average merges have a sum of more than 63 bits.
    """
    ordinal = measure.count
    if ordinal is not None and spec.accumulators[ordinal].kind == "integer":
        _, mag = exact.magnitude(fixed_of(spec, state, ordinal))
        lost = ~exact.below_limit(mag, 1 << 63) & rows
        if lost.any():
            raise _too_large(measure, lost)
    return count_of(spec, state, ordinal)


def _count_value(measure: MeasureSpec, count: Int64s, rows: Mask) -> pa.Array:
    valid = np.ones(len(count), np.bool_)
    if measure.type.kind == "i64":
        return _array(count, valid, measure)
    return _convert(measure, exact.from_words(count[:, None]), None, valid, rows)


def fixed_of(spec: OperatorSpec, state: GroupState, ordinal: int) -> exact.Digits:
    """Return the digits of an accumulator of fixed size."""
    offset = spec.layout.offsets[ordinal]
    return state.fixed[offset : offset + spec.accumulators[ordinal].digits]


def count_of(spec: OperatorSpec, state: GroupState, ordinal: int | None) -> Int64s:
    """Return the values of a counting accumulator; None is the total weight."""
    if ordinal is None:
        return state.weight()
    return _as_int64(fixed_of(spec, state, ordinal)[:COUNT_DIGITS])


def row_counts(spec: OperatorSpec, state: GroupState) -> Int64s:
    """Return how often each group's rows came: one line per number of `OperatorSpec.row_counts`."""
    return np.stack([count_of(spec, state, ordinal) for ordinal in spec.row_counts])


def _as_int64(digits: exact.Digits) -> Int64s:
    return np.asarray(digits[0] + (digits[1] << np.int64(DIGIT_BITS)))


def _float_value(
    measure: MeasureSpec,
    total: FloatDigits,
    divisor: npt.NDArray[np.uint64] | None,
    present: Mask,
    valid: Mask,
) -> pa.Array:
    small = small_float_quotient(measure, total, divisor)
    if small is not None:
        return _array(np.where(present, small, 0.0), valid, measure)
    finite, (nan, plus, minus) = split_registers(total)
    below, mag = exact.magnitude(finite.digits)
    value = _to_float(measure, _Value(below, mag, finite.base, 0, divisor))
    value = np.where(plus > 0, np.inf, value)
    value = np.where(minus > 0, -np.inf, value)
    value = np.where((nan > 0) | ((plus > 0) & (minus > 0)), np.nan, value)
    value = np.where(present, value, 0.0)
    return _array(value, valid, measure)


def _convert(
    measure: MeasureSpec,
    digits: exact.Digits,
    divisor: npt.NDArray[np.uint64] | None,
    valid: Mask,
    rows: Mask,
) -> pa.Array:
    small = small_quotient(measure, digits, divisor)
    if small is not None:
        return _array(small, valid, measure)
    kind = measure.type.kind
    if kind in INTEGER_BITS:
        return _to_integer(measure, _exact(measure, digits, divisor), valid, rows)
    if kind == "decimal":
        return _to_decimal(measure, digits, divisor, valid, rows)
    result = _to_float(measure, _exact(measure, digits, divisor))
    return _array(result, valid, measure)


def _exact(
    measure: MeasureSpec, digits: exact.Digits, divisor: npt.NDArray[np.uint64] | None
) -> _Value:
    below, mag = exact.magnitude(digits)
    return _Value(below, mag, 0, measure.scale, divisor)


def _to_float(measure: MeasureSpec, value: _Value) -> npt.NDArray[Any]:
    precision, lowest, _ = FORMATS[measure.type.kind]
    mag, base = exact.trim(value.mag, value.base)
    inexact = np.zeros(mag.shape[1], np.bool_)
    if value.scale or value.divisor is not None:
        guard = GUARD_DIGITS + -(-value.scale * 10 // (3 * DIGIT_BITS))
        mag = np.concatenate([np.zeros((guard, mag.shape[1]), np.uint64), mag])
        base -= guard
        mag, inexact = exact.divide_by_power_of_ten(mag, value.scale)
        if value.divisor is not None:
            mag, more = exact.divide(mag, value.divisor)
            inexact |= more
    return _narrow(
        exact.to_float(mag, value.below, inexact, base, precision=precision, lowest=lowest),
        measure,
    )


def _narrow(values: npt.NDArray[np.float64], measure: MeasureSpec) -> npt.NDArray[Any]:
    # The values are already rounded to the type's precision. The cast only turns values beyond its
    # largest number into infinity.
    with np.errstate(over="ignore"):
        return values.astype(FORMATS[measure.type.kind][2])


def _to_integer(measure: MeasureSpec, value: _Value, valid: Mask, rows: Mask) -> pa.Array:
    # Averages of integers are declared as truncated towards zero.
    mag, _ = exact.divide_by_power_of_ten(value.mag, value.scale)
    if value.divisor is not None:
        mag, _ = exact.divide(mag, value.divisor)
    least, greatest = limits(measure.type)
    below = value.below
    fits = np.where(below, exact.below_limit(mag, least + 1), exact.below_limit(mag, greatest + 1))
    words = exact.low_words(mag, below, 1)[:, 0]
    if not fits.all():
        ends = np.where(below, np.uint64(-least % (1 << 64)), np.uint64(greatest))
        handled = _overflow(measure, ~fits & valid & rows, {"SATURATE": lambda: ends})
        words = words if handled is None else np.where(fits, words, handled)
    return integers(measure, words, valid)


def _to_decimal(
    measure: MeasureSpec,
    digits: exact.Digits,
    divisor: npt.NDArray[np.uint64] | None,
    valid: Mask,
    rows: Mask,
) -> pa.Array:
    precision, scale = measure.type.params
    shift = scale - measure.scale
    if shift > 0:
        digits = exact.times_power_of_ten(digits, shift)
    below, mag = exact.magnitude(digits)
    if divisor is not None or shift < 0:
        mag = exact.double(mag)
        if divisor is not None:
            mag, _ = exact.divide(mag, divisor)
        mag, _ = exact.divide_by_power_of_ten(mag, max(0, -shift))
        mag = exact.half_of(mag)
    fits = exact.below_limit(mag, 10**precision)
    words = exact.low_words(mag, below, 2)
    if not fits.all():
        nines = 10**precision - 1
        ends = np.array(
            [[(e >> s) & ((1 << 64) - 1) for s in (0, 64)] for e in (nines, -nines)], np.uint64
        )
        handled = _overflow(
            measure, ~fits & valid & rows, {"SATURATE": lambda: ends[below.astype(np.int64)]}
        )
        if handled is None:
            valid = valid & fits
        else:
            words = np.where(fits[:, None], words, handled)
    return _decimals(words, valid, to_arrow(measure.type))


def _overflow(
    measure: MeasureSpec, lost: Mask, policies: dict[str, Callable[[], Any]]
) -> Any | None:
    """Return the replacement for values that do not fit.

    None leaves them to the type: integers wrap, decimals become null.
    """
    if measure.overflow in policies:
        return policies[measure.overflow]()
    if measure.overflow == "ERROR" and lost.any():
        raise RunFailed(
            "RESULT_OVERFLOW",
            f"a value of measure {measure.label} does not fit its type {measure.type}"
            f" ({int(lost.sum())} groups)",
            help="declare a wider output type, or the option overflow with SATURATE or SILENT",
        )
    return None


def _too_large(measure: MeasureSpec, lost: Mask) -> RunFailed:
    return RunFailed(
        "RESULT_OVERFLOW",
        f"the states of measure {measure.label} count more than 2^63 - 1 values"
        f" ({int(lost.sum())} groups)",
        help="correct the counts in the rows of the input",
    )


def _decimals(words: npt.NDArray[np.uint64], valid: Mask, type_: pa.DataType) -> pa.Array:
    mask = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(type_, len(valid), [mask, pa.py_buffer(words)])


def _array(values: npt.NDArray[Any], valid: Mask, measure: MeasureSpec) -> pa.Array:
    target = to_arrow(measure.type)
    if measure.type.kind == "decimal":
        words = np.stack([values, values >> np.int64(63)], axis=1).view(np.uint64)
        return _decimals(words, valid, target)
    column = pa.array(values, mask=None if valid.all() else ~valid)
    return column if column.type == target else column.cast(target)


_ROOM = 1 << 62
_EXACT_FLOAT = 1 << 53
_PLAIN_EXPONENT = 900
"""Exponent up to which quotients of integers up to `_EXACT_FLOAT` are neither subnormal nor infinite."""

Divisors = npt.NDArray[np.uint64] | None


def small_quotient(
    measure: MeasureSpec, digits: exact.Digits, divisor: Divisors
) -> npt.NDArray[Any] | None:
    """Return the values of a measure from its carried total, None if the general path is needed.

    Returns:
        int64 (for decimals the unscaled value), or the float type of the measure.
    """
    total = exact.as_int64(digits)
    if total is None or not len(total):
        return None
    kind = measure.type.kind
    if kind in INTEGER_BITS:
        return _whole(measure, total, divisor)
    if kind == "decimal":
        return _decimal(measure, total, divisor)
    return _float(measure, total, divisor)


def small_float_quotient(
    measure: MeasureSpec, total: FloatDigits, divisor: Divisors
) -> npt.NDArray[np.float64] | None:
    """Return the values of a measure from its carried float total, None if the general path is needed.

    An integer below 2^53 in units of a power of two is a float, and so is its divisor. IEEE 754
    rounds their quotient once. Another power of two does not round it again unless it is subnormal.
    """
    if measure.type.kind != "fp64" or total.registers is not None:
        return None
    used = np.flatnonzero(total.digits.any(axis=1))
    first = int(used[0]) if len(used) else 0
    exponent = DIGIT_BITS * (total.base + first)
    number = exact.as_int64(total.digits[first:])
    if number is None or not len(number) or abs(exponent) > _PLAIN_EXPONENT:
        return None
    if _largest(number) > _EXACT_FLOAT or (
        divisor is not None and int(divisor.max()) > _EXACT_FLOAT
    ):
        return None
    quotient = number.astype(np.float64)
    if divisor is not None:
        quotient /= divisor.astype(np.float64)
    return np.asarray(np.ldexp(quotient, exponent)) if exponent else quotient


def _largest(values: npt.NDArray[Any]) -> int:
    return max(abs(int(values.max())), abs(int(values.min())))


def _sign(total: Int64s, size: Int64s) -> Int64s:
    return np.where(total < 0, -size, size)


def _whole(measure: MeasureSpec, total: Int64s, divisor: Divisors) -> Int64s | None:
    if measure.scale:
        return None
    result = total
    if divisor is not None:
        result = _sign(total, np.abs(total) // divisor.view(np.int64))
    least, greatest = limits(measure.type)
    fits = -least <= int(result.min()) and int(result.max()) <= greatest
    return result if fits else None


def _decimal(measure: MeasureSpec, total: Int64s, divisor: Divisors) -> Int64s | None:
    precision, scale = measure.type.params
    shift = scale - measure.scale
    up, down = 10 ** max(0, shift), 10 ** max(0, -shift)
    if 2 * max(1, _largest(total)) * up >= _ROOM:
        return None
    size = np.abs(total) * np.int64(up)
    if divisor is not None or down > 1:
        units = np.ones_like(total) if divisor is None else divisor.view(np.int64)
        if _largest(units) * down >= _ROOM:
            return None
        size = (2 * size // (units * np.int64(down)) + 1) // 2  # round half away from zero
    if int(size.max()) >= 10**precision:
        return None
    return _sign(total, size)


def _float(measure: MeasureSpec, total: Int64s, divisor: Divisors) -> npt.NDArray[Any] | None:
    if measure.type.kind != "fp64":
        return None  # rounding to fp64 and then to fp32 can differ from rounding once
    units = 10**measure.scale
    if divisor is None and units == 1:
        return total.astype(np.float64)
    over = np.float64(units) if divisor is None else divisor.astype(np.float64) * units
    most = units if divisor is None else _largest(divisor) * units
    if most > _EXACT_FLOAT or _largest(total) > _EXACT_FLOAT:
        return None
    return np.asarray(total.astype(np.float64) / over)
