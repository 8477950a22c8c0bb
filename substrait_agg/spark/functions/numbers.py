"""Build arithmetic and rounding functions.

An integer overflow fails the batch, wraps (SILENT) or gives the limit of the range (SATURATE).
Floats follow IEEE 754, including division by zero. Decimals are exact, see `spark.types.decimals`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from operator import add, mul, sub

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.plan.types import INTEGER_BITS
from substrait_agg.spark.functions.parts import (
    Arguments,
    Builder,
    constant_double,
    double,
    failure,
    plain,
)
from substrait_agg.spark.functions.real_numbers import REAL
from substrait_agg.spark.functions.rounding import rounded
from substrait_agg.spark.types import decimals
from substrait_agg.spark.types.source_columns import integer_range

_WHOLE = "decimal(38,0)"
_INT64 = "decimal(20,0)"
_ALL_WHOLE_FROM = float(2**52)
"""From this magnitude on, every fp64 is a whole number."""


def _is_integer(a: Arguments) -> bool:
    return a.type(0).kind in INTEGER_BITS


def _is_decimal(a: Arguments) -> bool:
    return a.type(0).kind == "decimal"


def _number(value: int) -> Column:
    return F.lit(str(value)).cast(_INT64)


def _bounded(exact: Column, kind: str, overflow: str) -> Column:
    """Saturate or wrap an exact decimal(38,0) to the range of `kind`; not for OVERFLOW=ERROR."""
    low, high = integer_range(kind)
    if overflow == "SATURATE":
        return F.least(F.greatest(exact, _number(low)), _number(high))
    span = F.lit(str(high - low + 1)).cast(_INT64)
    return F.pmod((exact - _number(low)).cast(_WHOLE), span) + _number(low)


def _integer(a: Arguments, operate: Callable[..., Column]) -> Column:
    overflow = a.option("OVERFLOW", "ERROR")
    if overflow == "ERROR":
        return operate(*a.columns)
    exact = operate(*(c.cast(_INT64) for c in a.columns)).cast(_WHOLE)
    bounded = _bounded(exact, a.call.type.kind, overflow)
    # Spark's least and greatest skip nulls.
    return F.when(exact.isNotNull(), bounded)


_EXACT: dict[str, Callable[..., Column]] = {
    "add": decimals.add,
    "subtract": decimals.subtract,
    "multiply": decimals.multiply,
    "divide": decimals.divide,
    "modulus": decimals.modulus,
}


def _decimal(name: str, a: Arguments, right: Column | None = None) -> Column:
    types = (decimals.params(t) for t in (a.type(0), a.type(1), a.call.type))
    return _EXACT[name](a[0], a[1] if right is None else right, *types)


def _arithmetic(name: str, operate: Callable[..., Column]) -> Builder:
    def build(a: Arguments) -> Column:
        if _is_decimal(a):
            return _decimal(name, a)
        return _integer(a, operate) if _is_integer(a) else operate(*a.columns)

    return build


def _signed(operate: Callable[[Column], Column], exact: Callable[..., Column]) -> Builder:
    def build(a: Arguments) -> Column:
        if _is_decimal(a):
            return exact(a[0], decimals.params(a.type(0)))
        return _integer(a, operate) if _is_integer(a) else operate(a[0])

    return build


def _not_zero(a: Arguments, *options: str) -> Column:
    """Return the divisor, with null instead of zero if the value of an option is NULL."""
    if any(a.option(o) == "NULL" for o in options):
        zero = decimals.zero(decimals.params(a.type(1))) if _is_decimal(a) else F.lit(0)
        return F.when(a[1] != zero, a[1])
    return a[1]


def _quotient(x: Column, y: Column) -> Column:
    """Return the truncated quotient of decimal(20,0) values; Spark's `div` cannot return 2^63."""
    return F.when(y == _number(-1), _number(0) - x).otherwise(F.call_function("div", x, y))


def _divide(a: Arguments) -> Column:
    if _is_integer(a):
        by = _not_zero(a, "ON_DIVISION_BY_ZERO", "ON_DOMAIN_ERROR")
        if a.option("OVERFLOW", "ERROR") == "ERROR":
            return F.call_function("div", a[0], by)
        return _integer(a, lambda x, _y: _quotient(x, by.cast(_INT64)))
    if _is_decimal(a):
        return _decimal("divide", a, _not_zero(a, "ON_DIVISION_BY_ZERO"))
    # Spark's division of floats by zero fails or gives null, instead of following IEEE 754.
    quotient = F.try_divide(double(a[0]), double(a[1]))
    if a.option("ON_DIVISION_BY_ZERO") == "NULL":
        return quotient
    # The reciprocal of the zero is an infinity with the sign of the zero.
    return F.when(a[1] == 0, double(a[0]) * F.pow(double(a[1]), F.lit(-1.0))).otherwise(quotient)


def _modulus(a: Arguments) -> Column:
    if not (_is_integer(a) or _is_decimal(a)):
        rest = F.call_function("try_mod", a[0], a[1])
        return F.when((a[1] == 0) & a[0].isNotNull(), constant_double("NaN")).otherwise(rest)
    by = _not_zero(a, "ON_DOMAIN_ERROR")
    if _is_decimal(a):
        return _decimal("modulus", a, by)
    rest = a[0] % by
    if a.option("DIVISION_TYPE", "TRUNCATE") == "FLOOR":
        return F.when((rest != 0) & ((rest < 0) != (by < 0)), rest + by).otherwise(rest)
    return rest


def _factorial(a: Arguments) -> Column:
    """Return n!; fail for a negative n, and if the result does not fit its type."""
    most = 33 if _is_decimal(a) else 20
    error = failure("DOMAIN_ERROR", "a factorial is taken of a negative number").cast(_WHOLE)
    large = failure("OVERFLOW", f"the factorial of a number above {most}").cast(_WHOLE)
    n = a[0].cast(_WHOLE)
    values = F.array(*(F.lit(str(factorial(i))).cast(_WHOLE) for i in range(most + 1)))
    found = F.when(n < _number(0), error).when(n > _number(most), large)
    return found.otherwise(F.get(values, n.cast("int")))


def _shift(name: str, *, unsigned: bool = False) -> Builder:
    """Return a builder of shifts within the bits of the first argument's type.

    The count is taken modulo the number of bits, as in Java.
    """

    def build(a: Arguments) -> Column:
        bits = INTEGER_BITS[a.type(0).kind]
        count = F.pmod(a[1].cast("bigint"), F.lit(bits).cast("bigint")).cast("int")
        if a.type(0).kind.startswith("u"):
            shifted = F.call_function(name, a[0].cast("bigint"), count)
            return shifted.bitwiseAND(F.lit(2**bits - 1).cast("bigint"))
        if bits >= 32:
            return F.call_function(name, a[0], count)
        value = a[0].cast("int")
        if unsigned:
            value = value.bitwiseAND(F.lit(2**bits - 1))
        shifted = F.call_function(name, value, count).cast(_WHOLE)
        return _bounded(shifted, a.type(0).kind, "SILENT")

    return build


def _whole(function: Callable[[Column], Column]) -> Builder:
    def build(a: Arguments) -> Column:
        if _is_integer(a):
            return a[0]
        if _is_decimal(a):
            return function(a[0])
        x = double(a[0])
        # Spark's result is a bigint. Greater floats are whole numbers, infinite or NaN already.
        return F.when(F.abs(x) < _ALL_WHOLE_FROM, double(function(x))).otherwise(x)

    return build


NUMBERS: dict[str, Builder] = {
    "add": _arithmetic("add", add),
    "subtract": _arithmetic("subtract", sub),
    "multiply": _arithmetic("multiply", mul),
    "divide": _divide,
    "modulus": _modulus,
    "negate": _signed(lambda x: -x, decimals.negative),
    "abs": _signed(F.abs, decimals.absolute),
    "sign": plain(F.signum),
    **REAL,
    "factorial": _factorial,
    "shift_left": _shift("shiftleft"),
    "shift_right": _shift("shiftright"),
    "shift_right_unsigned": _shift("shiftrightunsigned", unsigned=True),
    "ceil": _whole(F.ceil),
    "floor": _whole(F.floor),
    "round": rounded,
}
