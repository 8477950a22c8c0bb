"""Exact decimal arithmetic, rounded once (half away from zero) to the declared type.

Intermediate values have up to 76 digits, in 256 bits. A type's number of digits does not limit
Arrow's values, so `retype` gives an array the type that a kernel needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.evaluation.columns import null_unless, retype
from substrait_agg.evaluation.constants import decimal_value
from substrait_agg.plan.arrow import MAX_DECIMAL_PRECISION

_QUOTIENT_DIGITS = 4
"""Fraction digits of Arrow's quotient of whole decimals with a divisor of one digit."""
_LONGEST_DIVISOR = 37
"""Digits of the divisors that the Spark translation can divide by in every case."""

Params = tuple[int, int]
"""Precision and scale."""


@dataclass(frozen=True, slots=True)
class Width:
    """A size of Arrow's decimals: a maker of its types, and the number of digits that always fit."""

    type: Callable[[int, int], pa.DataType]
    digits: int

    def cast(self, column: pa.Array, scale: int) -> pa.Array:
        """Return decimals or integers with `scale` fraction digits."""
        return pc.cast(column, self.type(self.digits, scale))

    def whole(self, column: pa.Array) -> pa.Array:
        """Return the unscaled values of decimals of this width."""
        return retype(column, self.type(self.digits, 0))

    def product(self, left: pa.Array, right: pa.Array) -> pa.Array:
        """Return the product, which must fit, of decimals of this width."""
        # Arrow's type of a product has one digit more than the types of both factors together.
        factor = self.type(self.digits // 2 - 1, 0)
        product = pc.multiply(retype(left, factor), retype(right, factor))
        return retype(product, self.type(self.digits, left.type.scale + right.type.scale))

    def term(self, column: pa.Array) -> pa.Array:
        """Return decimals in a type of whose sums Arrow has a type."""
        return retype(column, self.type(self.digits - 1, column.type.scale))


_NARROW = Width(pa.decimal128, 38)
"""128 bits take less than half the time of 256."""
_WIDE = Width(pa.decimal256, 76)


def _width(digits: int) -> Width:
    """Return the width for numbers of so many digits."""
    return _NARROW if digits <= _NARROW.digits else _WIDE


def params_of(column: pa.Array) -> Params:
    """Return precision and scale of a column of decimals."""
    return column.type.precision, column.type.scale


def wide(column: pa.Array, scale: int | None = None) -> pa.Array:
    """Return decimals or integers in 256 bits, with as many fraction digits, or `scale`."""
    if scale is None:
        scale = column.type.scale if pa.types.is_decimal(column.type) else 0
    return _WIDE.cast(column, scale)


def fit(column: pa.Array, target: Params, *, null_on_failure: bool = False) -> pa.Array:
    """Round decimals to `target`; fail, or give null, where one does not fit."""
    precision, scale = target
    if column.type.scale > scale + 1:
        column = _truncated_to(column, scale + 1)
    shift = column.type.scale - scale
    if shift > 0:
        column = pc.round(column, scale, "half_towards_infinity")
    if null_on_failure:
        greatest = 10**precision - 1
        greatest = greatest * 10**shift if shift >= 0 else greatest // 10**-shift
        greatest = min(greatest, 10**column.type.precision - 1)
        limit = pa.scalar(decimal_value(greatest, column.type.scale), column.type)
        column = null_unless(pc.less_equal(pc.abs(column), limit), column)
    return pc.cast(column, pa.decimal128(*target))


def _truncated_to(column: pa.Array, scale: int) -> pa.Array:
    """Truncate decimals to `scale` fraction digits.

    The first of the digits that are dropped alone decides how a number is rounded half away from
    zero. Without the others, a number that is rounded up still has a type.
    """
    make = pa.decimal256 if pa.types.is_decimal256(column.type) else pa.decimal128
    return pc.cast(pc.round(column, scale, "towards_zero"), make(column.type.precision, scale))


def convert(column: pa.Array, target: Params, *, null_on_failure: bool) -> pa.Array:
    """Round decimals of a column to `target`; fail, or give null, where one does not fit."""
    (precision, scale), type_ = params_of(column), pa.decimal128(*target)
    if scale <= target[1] and precision - scale <= target[0] - target[1]:
        return pc.cast(column, type_)
    return fit(wide(column), target, null_on_failure=null_on_failure)


def _align(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return both terms with the same scale, in a type for their sum."""
    (p, s), (q, t) = params_of(left), params_of(right)
    scale = max(s, t)
    width = _width(max(p - s, q - t) + scale + 1)
    return width.term(width.cast(left, scale)), width.term(width.cast(right, scale))


def add(left: pa.Array, right: pa.Array, target: Params) -> pa.Array:
    """Return left + right."""
    return fit(pc.add(*_align(left, right)), target)


def subtract(left: pa.Array, right: pa.Array, target: Params) -> pa.Array:
    """Return left - right."""
    return fit(pc.subtract(*_align(left, right)), target)


def multiply(left: pa.Array, right: pa.Array, target: Params) -> pa.Array:
    """Return left * right."""
    (p, s), (q, t) = params_of(left), params_of(right)
    width = _width(max(p + q, s + t))
    return fit(width.product(width.cast(left, s), width.cast(right, t)), target)


def can_divide(p: Params, q: Params, target: Params) -> bool:
    """Return whether a dividend and a divisor of these types fit 256 bits."""
    return max(_division_digits(p, q, target)) <= _WIDE.digits


def _division_digits(p: Params, q: Params, target: Params) -> tuple[int, int]:
    """Return the digits of dividend and divisor as whole numbers whose quotient has the scale."""
    shift = target[1] + q[1] - p[1]
    return p[0] + max(shift, 0) + _QUOTIENT_DIGITS, q[0] + max(-shift, 0)


def divide(left: pa.Array, right: pa.Array, target: Params) -> pa.Array:
    """Return left / right; fail where `right` is zero."""
    p, q = params_of(left), params_of(right)
    _check_divisor(wide(right))
    width = _width(max(_division_digits(p, q, target)))
    shift = target[1] + q[1] - p[1]
    dividend, divisor = (width.whole(width.cast(c, c.type.scale)) for c in (left, right))
    dividend = width.whole(width.cast(dividend, max(shift, 0)))
    divisor = width.whole(width.cast(divisor, max(-shift, 0)))
    quotient = pc.round(_quotient(dividend, divisor, width), 0, "half_towards_infinity")
    result = fit(width.cast(quotient, 0), (target[0], 0))
    return retype(result, pa.decimal128(*target))


def _check_divisor(divisor: pa.Array) -> None:
    """Fail for divisors with so many digits that the Spark translation may fail for them."""
    limit = pa.scalar(decimal_value(10**_LONGEST_DIVISOR, 0), pa.decimal256(_WIDE.digits, 0))
    if pc.any(pc.greater_equal(pc.abs(_WIDE.whole(divisor)), limit)).as_py():
        raise pa.ArrowInvalid("[DECIMAL_TOO_WIDE] a divisor has more than 37 digits")


def _quotient(dividend: pa.Array, divisor: pa.Array, width: Width) -> pa.Array:
    """Return the quotient of whole numbers, truncated after `_QUOTIENT_DIGITS` digits.

    Further digits cannot change how a number is rounded half away from zero, to a whole number.
    """
    left = retype(dividend, width.type(width.digits - _QUOTIENT_DIGITS, 0))
    # Arrow also divides where a value is null.
    right = pc.fill_null(divisor, pa.scalar(decimal_value(1, 0)).cast(divisor.type))
    quotient = pc.divide(left, retype(right, width.type(1, 0)))
    return null_unless(pc.is_valid(divisor), quotient)


def can_take_remainder(p: Params, q: Params) -> bool:
    """Return whether the numbers of these types fit 256 bits with a common scale."""
    scale = max(p[1], q[1])
    dividend, divisor = p[0] + scale - p[1], q[0] + scale - q[1]
    return max(dividend + _QUOTIENT_DIGITS, divisor) <= _WIDE.digits


def modulus(left: pa.Array, right: pa.Array, target: Params) -> pa.Array:
    """Return the remainder of left / right with the sign of left; fail where `right` is zero."""
    (p, s), (q, t) = params_of(left), params_of(right)
    scale = max(s, t)
    if max(p - s, q - t) + scale > MAX_DECIMAL_PRECISION:
        _check_divisor(wide(right, scale))
    x, y = _WIDE.whole(wide(left, scale)), _WIDE.whole(wide(right, scale))
    times = wide(pc.trunc(_quotient(x, y, _WIDE)), 0)
    rest = pc.subtract(_WIDE.term(x), _WIDE.term(_WIDE.product(times, y)))
    return fit(retype(rest, pa.decimal256(_WIDE.digits, scale)), target)


def texts(column: pa.Array) -> pa.Array:
    """Return decimals as text with all their fraction digits, never with an exponent."""
    scale, plain = column.type.scale, retype(column, pa.decimal128(38, 0))
    digits = pc.utf8_lpad(pc.cast(pc.abs(plain), pa.string()), scale + 1, "0")
    if scale:
        whole, fraction = (
            pc.utf8_slice_codeunits(digits, 0, -scale),
            pc.utf8_slice_codeunits(digits, -scale),
        )
        digits = pc.binary_join_element_wise(whole, fraction, pa.scalar("."))
    minus = pc.less(plain, pa.scalar(decimal_value(0, 0)).cast(plain.type))
    return pc.binary_join_element_wise(pc.if_else(minus, "-", ""), digits, pa.scalar(""))


def is_zero(column: pa.Array) -> pa.Array:
    """Return whether decimals are zero."""
    return pc.equal(column, pa.scalar(decimal_value(0, 0)).cast(column.type))


def drop_fraction(column: pa.Array) -> pa.Array:
    """Return decimals without their fraction, in 256 bits with scale 0."""
    return wide(pc.trunc(wide(column)), 0)
