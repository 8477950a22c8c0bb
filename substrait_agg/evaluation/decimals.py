"""Exact decimal arithmetic in 256 bits, rounded once (half away from zero) to the declared type.

Intermediate values have up to 76 digits. A type's number of digits does not limit Arrow's values,
so `retyped` gives an array the type that a kernel needs.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.evaluation.columns import null_unless, retyped
from substrait_agg.evaluation.constants import decimal_value
from substrait_agg.plan.arrow import MAX_DECIMAL_PRECISION

WIDE = 76
"""Digits of a decimal of 256 bits."""
_QUOTIENT_DIGITS = 4
"""Fraction digits of Arrow's quotient of whole decimals with a divisor of one digit."""
MOST_DIVIDEND = WIDE - _QUOTIENT_DIGITS
_LONGEST_DIVISOR = 37
"""Digits of the divisors that the Spark translation can divide by in every case."""

Params = tuple[int, int]
"""Precision and scale."""


def type_of(params: Params) -> pa.DataType:
    """Return the Arrow type of values in columns."""
    return pa.decimal128(*params)


def wide(column: pa.Array, scale: int | None = None) -> pa.Array:
    """Return decimals or integers in 256 bits, with as many fraction digits, or `scale`."""
    if scale is None:
        scale = column.type.scale if pa.types.is_decimal(column.type) else 0
    return pc.cast(column, pa.decimal256(WIDE, scale))


def whole(column: pa.Array) -> pa.Array:
    """Return the unscaled values of decimals of 256 bits."""
    return retyped(column, pa.decimal256(WIDE, 0))


def fit(column: pa.Array, target: Params, *, null_on_failure: bool = False) -> pa.Array:
    """Round decimals of 256 bits to `target`; fail, or give null, where one does not fit."""
    precision, scale = target
    if column.type.scale > scale:
        column = pc.round(column, scale, "half_towards_infinity")
    if null_on_failure:
        greatest = 10**precision - 1
        shift = column.type.scale - scale
        greatest = greatest * 10**shift if shift >= 0 else greatest // 10**-shift
        limit = pa.scalar(decimal_value(greatest, column.type.scale), column.type)
        column = null_unless(pc.less_equal(pc.abs(column), limit), column)
    return pc.cast(column, type_of(target))


def add(left: pa.Array, right: pa.Array, target: Params) -> pa.Array:
    """Return left + right."""
    return fit(pc.add(*_aligned(left, right)), target)


def subtract(left: pa.Array, right: pa.Array, target: Params) -> pa.Array:
    """Return left - right."""
    return fit(pc.subtract(*_aligned(left, right)), target)


def _aligned(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return both terms with the same scale, in a type whose sums Arrow can represent."""
    scale = max(left.type.scale, right.type.scale)
    term = pa.decimal256(WIDE - 1, scale)
    return retyped(wide(left, scale), term), retyped(wide(right, scale), term)


def multiply(left: pa.Array, right: pa.Array, target: Params) -> pa.Array:
    """Return left * right."""
    return fit(_product(wide(left), wide(right)), target)


def _product(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return the product of decimals of 256 bits, which must not have more than 76 digits."""
    # Arrow's type of a product has one digit more than the types of both factors together.
    factor = pa.decimal256(WIDE // 2 - 1, 0)
    product = pc.multiply(retyped(left, factor), retyped(right, factor))
    return retyped(product, pa.decimal256(WIDE, left.type.scale + right.type.scale))


def can_divide(p: Params, q: Params, target: Params) -> bool:
    """Return whether a dividend and a divisor of these types fit 256 bits."""
    shift = target[1] + q[1] - p[1]
    return p[0] + max(shift, 0) < MOST_DIVIDEND and q[0] + max(-shift, 0) < WIDE


def divide(left: pa.Array, right: pa.Array, target: Params) -> pa.Array:
    """Return left / right; fail where `right` is zero."""
    shift = target[1] + right.type.scale - left.type.scale
    _check_divisor(wide(right))
    dividend = wide(whole(wide(left)), max(shift, 0))
    divisor = wide(whole(wide(right)), max(-shift, 0))
    quotient = pc.round(_quotient(dividend, divisor), 0, "half_towards_infinity")
    found = fit(wide(quotient, 0), (target[0], 0))
    return retyped(found, type_of(target))


def _check_divisor(divisor: pa.Array) -> None:
    """Fail for divisors with so many digits that the Spark translation may fail for them."""
    limit = pa.scalar(decimal_value(10**_LONGEST_DIVISOR, 0), pa.decimal256(WIDE, 0))
    if pc.any(pc.greater_equal(pc.abs(whole(divisor)), limit)).as_py():
        raise pa.ArrowInvalid(
            "[DECIMAL_TOO_WIDE] the divisor of a decimal division has more than 37 digits"
        )


def _quotient(dividend: pa.Array, divisor: pa.Array) -> pa.Array:
    """Return the quotient of unscaled values, truncated after `_QUOTIENT_DIGITS` digits.

    Further digits cannot change how a number is rounded half away from zero, to a whole number.
    """
    left = retyped(dividend, pa.decimal256(MOST_DIVIDEND, 0))
    # Arrow also divides where a value is null.
    right = pc.fill_null(divisor, pa.scalar(decimal_value(1, 0)).cast(divisor.type))
    found = pc.divide(left, retyped(right, pa.decimal256(1, 0)))
    return null_unless(pc.is_valid(divisor), found)


def can_take_remainder(p: Params, q: Params) -> bool:
    """Return whether the numbers of these types fit 256 bits with a common scale."""
    scale = max(p[1], q[1])
    return p[0] + scale - p[1] < MOST_DIVIDEND and q[0] + scale - q[1] < WIDE


def modulus(left: pa.Array, right: pa.Array, target: Params) -> pa.Array:
    """Return the remainder of left / right with the sign of left; fail where `right` is zero."""
    p, q = left.type, right.type
    scale = max(p.scale, q.scale)
    if max(p.precision - p.scale, q.precision - q.scale) + scale > MAX_DECIMAL_PRECISION:
        _check_divisor(wide(right, scale))
    x, y = whole(wide(left, scale)), whole(wide(right, scale))
    times = wide(pc.trunc(_quotient(x, y)), 0)
    term = pa.decimal256(WIDE - 1, 0)
    rest = pc.subtract(retyped(x, term), retyped(_product(times, y), term))
    return fit(retyped(rest, pa.decimal256(WIDE, scale)), target)


def is_zero(column: pa.Array) -> pa.Array:
    """Return whether decimals are zero."""
    return pc.equal(column, pa.scalar(decimal_value(0, 0)).cast(column.type))


def truncated(column: pa.Array) -> pa.Array:
    """Return decimals without their fraction, in 256 bits with scale 0."""
    return wide(pc.trunc(wide(column)), 0)
