"""Exact decimal arithmetic that rounds once, half away from zero, to the declared type.

Spark gives each operator a result type of at most 38 digits, in which it rounds or fails. If that
type can represent the exact result, which is nearly always so, Spark's operators compute it.
Otherwise higher-order functions compute on arrays of integers. This is slow, but intermediate
results have no limit.

Spark's unary minus and `abs` silently round decimals to 34 digits, so this module does not use
them. It also does not compare decimals with values of another type, because Spark converts both to
a common type, which may drop digits.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.plan.types import Type

MAX = 38
BASE = 10**9
BASE_DIGITS = 9
FACTOR_LIMBS = 5
TERM_LIMBS = 9

Params = tuple[int, int]
"""Precision and scale."""


def _cast(column: Column, params: Params) -> Column:
    precision, scale = params
    return column.cast(f"decimal({precision},{scale})")


def _unit(scale: int) -> Column:
    """Return 10^-scale."""
    text = "1" if scale == 0 else "0." + "0" * (scale - 1) + "1"
    return _cast(F.lit(text), (max(scale, 1), scale))


def _div(left: Column, right: Column) -> Column:
    """Return the quotient truncated to a bigint."""
    return F.call_function("div", left, right)


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """Return `body` applied to `value`; Spark computes `value` once."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


def zero(params: Params) -> Column:
    """Return zero in a decimal type."""
    return _cast(F.lit("0"), params)


def is_negative(column: Column, params: Params) -> Column:
    """Return whether a decimal of the type is below zero."""
    return column < zero(params)


def negative(column: Column, params: Params) -> Column:
    """Return -column, exactly."""
    return _cast(zero(params) - column, params)


def absolute(column: Column, params: Params) -> Column:
    """Return the absolute value, exactly."""
    return F.when(is_negative(column, params), negative(column, params)).otherwise(column)


def scale_by(column: Column, scale: int) -> Column:
    """Return a decimal(38,0) times 10^-scale, exactly."""
    return _cast(column * _unit(scale), (MAX, scale))


# --- numbers as strings of digits ---------------------------------------------------------------


def _digits(column: Column, scale: int, length: int) -> Column:
    """Return the absolute unscaled value times 10^scale as a string of `length` digits."""
    text = F.translate(column.cast("string"), "-.", "")
    return F.lpad(F.concat(text, F.lit("0" * scale)), length, "0")


def _limb(text: Column, index: int, count: int) -> Column:
    """Return limb `index` (0 is the lowest) of a string of `count` limbs."""
    start = (count - 1 - index) * BASE_DIGITS + 1
    return F.substr(text, F.lit(start), F.lit(BASE_DIGITS)).cast("bigint")


def _carry(coefficients: list[Column]) -> Column:
    """Return the digits of the sum of `coefficients[i] * BASE^i`, which must not be negative."""
    base = F.lit(BASE).cast("bigint")
    start = F.struct(F.lit(0).cast("bigint").alias("carry"), F.lit("").alias("text"))

    def step(acc: Column, coefficient: Column) -> Column:
        """Add a coefficient and prepend the lowest digits of the sum."""
        total = acc["carry"] + coefficient
        digits = F.lpad(F.pmod(total, base).cast("string"), BASE_DIGITS, "0")
        return F.struct(
            _div(total - F.pmod(total, base), base).alias("carry"),
            F.concat(digits, acc["text"]).alias("text"),
        )

    return F.aggregate(
        F.array(*coefficients),
        start,
        step,
        lambda acc: F.concat(F.lpad(acc["carry"].cast("string"), BASE_DIGITS, "0"), acc["text"]),
    )


def _round(text: Column, scale: int, minus: Column, target: Params) -> Column:
    """Return the number with digits `text` and `scale`, rounded to `target`.

    `minus` is true for negative numbers. A number that does not fit `target` fails the batch.
    """
    dropped = scale - target[1]
    if dropped <= 0:
        digits, up = F.concat(text, F.lit("0" * -dropped)), F.lit(False)
    else:
        length = F.length(text) - F.lit(dropped)
        digits = F.substr(text, F.lit(1), length)
        up = F.substr(text, length + F.lit(1), F.lit(1)) >= F.lit("5")
    wide = (MAX, target[1])
    point = F.length(digits) - F.lit(target[1])
    plain = F.concat(
        F.substr(digits, F.lit(1), point), F.lit("."), F.substr(digits, point + F.lit(1))
    )
    value = _cast(plain, wide)
    # Add only where needed: with 38 digits, even adding zero can overflow the type of the sum.
    value = F.when(up, _cast(value + _unit(target[1]), wide)).otherwise(value)
    return _cast(F.when(minus, negative(value, wide)).otherwise(value), target)


# --- the operators ------------------------------------------------------------------------------


def add(left: Column, right: Column, p: Params, q: Params, target: Params) -> Column:
    """Return left + right, exact and rounded once to `target`; fail if the result does not fit."""
    if _sum_is_exact(p, q, target):
        return _cast(left + right, target)
    scale = max(p[1], q[1])
    length = TERM_LIMBS * BASE_DIGITS
    parts = F.struct(
        _digits(left, scale - p[1], length).alias("x"),
        _digits(right, scale - q[1], length).alias("y"),
        is_negative(left, p).alias("m"),
        is_negative(right, q).alias("n"),
    )

    def body(v: Column) -> Column:
        """Add or subtract the limbs, by the signs and sizes of the operands."""
        same, more = v["m"] == v["n"], v["x"] >= v["y"]
        coefficients = []
        for i in range(TERM_LIMBS):
            x, y = _limb(v["x"], i, TERM_LIMBS), _limb(v["y"], i, TERM_LIMBS)
            coefficients.append(F.when(same, x + y).when(more, x - y).otherwise(y - x))
        minus = F.when(same | more, v["m"]).otherwise(v["n"])
        return _rounded_once(_carry(coefficients), scale, minus, target)

    return let(parts, body)


def subtract(left: Column, right: Column, p: Params, q: Params, target: Params) -> Column:
    """Return left - right, exact and rounded once to `target`; fail if the result does not fit."""
    if _sum_is_exact(p, q, target):
        return _cast(left - right, target)
    return add(left, negative(right, q), p, q, target)


def _sum_is_exact(p: Params, q: Params, target: Params) -> bool:
    """Return whether Spark's sum is exact.

    It is exact if both terms fit Spark's type of the sum, and every sum that fits `target` fits
    that type too.
    """
    scale, whole = max(p[1], q[1]), max(p[0] - p[1], q[0] - q[1])
    return whole + scale <= MAX and (target[1] >= scale or whole + 1 + scale <= MAX)


def _rounded_once(text: Column, scale: int, minus: Column, target: Params) -> Column:
    """Return `_round` of a text, which Spark computes once."""
    pair = F.struct(text.alias("text"), minus.alias("minus"))
    return let(pair, lambda v: _round(v["text"], scale, v["minus"], target))


def multiply(left: Column, right: Column, p: Params, q: Params, target: Params) -> Column:
    """Return left * right, exact and rounded once to `target`; fail if the result does not fit."""
    scale = p[1] + q[1]
    if scale <= MAX and (target[1] >= scale or p[0] + q[0] <= MAX):
        return _cast(left * right, target)
    length = FACTOR_LIMBS * BASE_DIGITS
    parts = F.struct(
        _digits(left, 0, length).alias("x"),
        _digits(right, 0, length).alias("y"),
        (is_negative(left, p) != is_negative(right, q)).alias("minus"),
    )

    def body(v: Column) -> Column:
        """Multiply limb by limb, and add up the products of each power."""
        coefficients = []
        for power in range(2 * FACTOR_LIMBS - 1):
            terms = [
                _limb(v["x"], i, FACTOR_LIMBS) * _limb(v["y"], power - i, FACTOR_LIMBS)
                for i in range(FACTOR_LIMBS)
                if 0 <= power - i < FACTOR_LIMBS
            ]
            total = terms[0]
            for term in terms[1:]:
                total = total + term
            coefficients.append(total)
        return _rounded_once(_carry(coefficients), scale, v["minus"], target)

    return let(parts, body)


def quotient_type(p: Params, q: Params) -> Params:
    """Return Spark's type of a quotient (with ``allowPrecisionLoss`` off)."""
    whole = min(MAX, p[0] - p[1] + q[1])
    fraction = min(MAX, max(6, p[1] + q[0] + 1))
    excess = whole + fraction - MAX
    if excess > 0:
        fraction -= excess // 2 + 1
        whole = MAX - fraction
    return whole + fraction, fraction


def divide(left: Column, right: Column, p: Params, q: Params, target: Params) -> Column:
    """Return left / right, rounded once to `target`; fail for zero and if it does not fit."""
    exact = _long_quotient(left, right, p, q, target)
    whole_digits = min(p[0] - p[1] + q[1], target[0] - target[1])
    for digits in range(q[0], MAX + 1):
        precision, fraction = quotient_type(p, (digits, q[1]))
        # The test for a tie takes the remainder by 10^-scale. At scale 0 this is 1, which needs a
        # digit before the point.
        room = precision > fraction or target[1] > 0
        if fraction > target[1] and precision - fraction >= whole_digits and room:
            rough = left / _cast(right, (digits, q[1]))
            # Spark has already rounded once, which is only wrong if the rounded quotient is a tie.
            if fraction >= _decisive_scale(p, q, target):
                return _cast(rough, target)
            size = (target[1] + 1, target[1] + 1)
            half = _cast(_unit(target[1] + 1) * F.lit(5).cast("decimal(1,0)"), size)
            rest = rough % _unit(target[1])
            tie = rest.isin([half, negative(half, size)])
            return F.when(tie, exact).otherwise(_cast(rough, target))
    # The long division begins with a remainder, whose error for zero is another one.
    return F.when(right == zero(q), _cast(left / right, target)).otherwise(exact)


def _decisive_scale(p: Params, q: Params, target: Params) -> int:
    """Return the least scale at which a rounded quotient shows whether the exact one is a tie."""
    return target[1] + q[0] + max(0, p[1] - q[1])


def _long_quotient(left: Column, right: Column, p: Params, q: Params, target: Params) -> Column:
    shift = target[1] + q[1] - p[1]
    minus = is_negative(left, p) != is_negative(right, q)
    more = max(shift, 0) + 1
    dividend, divisor = _digits(left, more, p[0] + more + 1), _digits(right, 0, q[0] + 1)
    text = _long_division(dividend, divisor)["text"]
    return _rounded_once(text, target[1] + 1 + max(-shift, 0), minus, target)


def _long_division(digits: Column, divisor: Column) -> Column:
    """Divide two strings of digits; return a struct of `rest` and of `text`, the quotient."""
    whole = "decimal(38,0)"
    unscaled = divisor.cast(whole)
    error = F.raise_error(
        F.lit("[DECIMAL_TOO_WIDE] the divisor of a decimal division has more than 37 digits")
    )
    unscaled = F.when(unscaled >= F.lit("1" + "0" * 37).cast(whole), error.cast(whole)).otherwise(
        unscaled
    )

    def body(v: Column) -> Column:
        """Divide digit by digit."""
        start = F.struct(F.lit(0).cast(whole).alias("rest"), F.lit("").alias("text"))

        def step(acc: Column, place: Column) -> Column:
            """Bring down a digit and append a digit of the quotient."""
            digit = F.substr(v["digits"], place, F.lit(1)).cast("decimal(1,0)")
            now = (acc["rest"] * F.lit(10).cast("decimal(2,0)") + digit).cast(whole)
            return F.struct(
                (now % v["by"]).cast(whole).alias("rest"),
                F.concat(acc["text"], _div(now, v["by"]).cast("string")).alias("text"),
            )

        return F.aggregate(F.sequence(F.lit(1), F.length(v["digits"])), start, step)

    return let(F.struct(digits.alias("digits"), unscaled.alias("by")), body)


def modulus(left: Column, right: Column, p: Params, q: Params, target: Params) -> Column:
    """Return the remainder of left / right with the sign of left, rounded once to `target`."""
    scale, whole = max(p[1], q[1]), max(p[0] - p[1], q[0] - q[1])
    if whole + scale <= MAX:
        return _cast(left % right, target)
    dividend = _digits(left, scale - p[1], p[0] + scale - p[1] + 1)
    divisor = _digits(right, scale - q[1], q[0] + scale - q[1] + 1)
    rest = _long_division(dividend, divisor)["rest"]
    value = _cast(rest * _unit(scale), (MAX, scale))
    return _cast(
        F.when(is_negative(left, p), negative(value, (MAX, scale))).otherwise(value), target
    )


def params(type_: Type) -> Params:
    """Return precision and scale of a decimal type."""
    return type_.params[0], type_.params[1]
