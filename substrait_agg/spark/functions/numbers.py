"""Build functions of numbers: arithmetic, rounding, roots, powers, logarithms, trigonometry.

Functions of real numbers compute in fp64. Outside of the domain of such a function the result is
NaN, as in IEEE 754, unless an option requests null or an error.


An integer overflow fails the batch, wraps (SILENT) or gives the limit of the range (SATURATE).
Floats follow IEEE 754, including division by zero. Decimals are exact, see `spark.types.decimals`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
)
from substrait_agg.spark.functions.rounding import round_digits
from substrait_agg.spark.types import decimals
from substrait_agg.spark.types.source_columns import integer_range

_HUGE = 1e150
"""Above this bound the square of a number may be infinite."""
_LN2 = 0.6931471805599453
_MOST_FACTORS = 64
"""With 64 or more factors, every product overflows an i64 unless the base is -1, 0 or 1."""


def _outside(args: Arguments, bad: Column, otherwise: Column, what: str) -> Column:
    """Return `otherwise`, and where `bad` is true the result that ON_DOMAIN_ERROR requests."""
    option = args.option("ON_DOMAIN_ERROR", "NAN")
    if option == "ERROR":
        answer = failure("DOMAIN_ERROR", what).cast("double")
    else:
        answer = F.lit(None if option == "NULL" else "NaN").cast("double")
    return F.when(bad, answer).otherwise(otherwise)


def _partial(
    args: Arguments,
    *,
    name: str,
    function: Callable[[Column], Column],
    bad: Callable[[Column], Column],
) -> Column:
    """Return the value of a function that is undefined where `bad` is true; NaN is not tested."""
    x = double(args[0])
    what = f"{name} of a number outside its domain is not defined"
    # In Spark, NaN is greater than every number.
    return _outside(args, bad(x) & ~F.isnan(x), function(x), what)


def _sqrt(args: Arguments) -> Column:
    if args.type(0).kind != "decimal":
        return _partial(args, name="sqrt", function=F.sqrt, bad=lambda x: x < 0)
    error = failure("DOMAIN_ERROR", "the square root of a negative decimal is not defined").cast(
        "double"
    )
    negative = decimals.is_negative(args[0], decimals.params(args.type(0)))
    return F.when(negative, error).otherwise(F.sqrt(double(args[0])))


def _power(args: Arguments) -> Column:
    if args.call.type.kind == "i64":
        return _integer_power(args[0].cast("bigint"), args[1].cast("bigint"))
    base, exponent = double(args[0]), double(args[1])
    result = F.pow(base, exponent)
    infinity = constant_double("Infinity")
    finite = (F.abs(base) < infinity) & (F.abs(exponent) < infinity)
    if args.option("COMPLEX_NUMBER_RESULT") == "ERROR":
        error = failure("DOMAIN_ERROR", "a power is a complex number").cast("double")
        result = F.when(finite & F.isnan(result), error).otherwise(result)
    if args.option("OVERFLOW") == "ERROR":
        error = failure("OVERFLOW", "a power is greater than any fp64").cast("double")
        too_large = finite & (base != 0) & (F.abs(result) == infinity)
        result = F.when(too_large, error).otherwise(result)
    return result


def _integer_power(base: Column, exponent: Column) -> Column:
    """Return the exact power; fail on an overflow of i64, and if the result is a fraction."""
    unit = F.abs(base.cast("decimal(20,0)")) == F.lit(1).cast("decimal(20,0)")
    error = failure("DOMAIN_ERROR", "a negative power of an integer is not defined").cast("bigint")
    count = F.when((exponent < 0) & ~unit, error).when(
        (exponent < 0) | (exponent > _MOST_FACTORS),
        # The sign depends on whether the exponent is odd.
        F.lit(_MOST_FACTORS) + F.pmod(exponent, F.lit(2)),
    )
    factors = F.array_repeat(base, count.otherwise(exponent).cast("int"))
    return F.aggregate(factors, F.lit(1).cast("bigint"), lambda product, x: product * x)


def _logarithm(
    args: Arguments, *, name: str, function: Callable[[Column], Column], zero: float = 0.0
) -> Column:
    """Return a logarithm whose argument must be greater than `zero`.

    At and below `zero`, Spark gives null, and IEEE 754 gives minus infinity and NaN.
    """
    x = double(args[0])
    at_zero = _at_zero(args, name, zero)
    what = f"{name} of a number outside its domain is not defined"
    rest = F.when(x == zero, at_zero).otherwise(function(x))
    return _outside(args, x < zero, rest, what)


def _logb(args: Arguments) -> Column:
    """Return the logarithm of the first argument to the base of the second, exact if whole."""
    x, base = double(args[0]), double(args[1])
    quotient = F.ln(x) / F.ln(base)
    whole = F.rint(quotient)
    exact = F.when(F.pow(base, whole) == x, whole).otherwise(quotient)
    infinity = constant_double("Infinity")
    # The test by a power only applies to finite quotients, not to those of infinite arguments.
    finite = F.when(F.abs(quotient) < infinity, exact).otherwise(quotient)
    outside = (x < 0) | (base <= 0) | (base == 1.0)
    at_zero = _at_zero(args, "logb")
    result = F.when(x == 0, at_zero).otherwise(finite)
    nan = F.isnan(x) | F.isnan(base)
    what = "logb of a number outside its domain is not defined"
    answer = F.when(nan, constant_double("NaN")).otherwise(_outside(args, outside, result, what))
    return F.when(x.isNotNull() & base.isNotNull(), answer)


def _at_zero(args: Arguments, name: str, zero: float = 0.0) -> Column:
    """Return the result at zero that the option ON_LOG_ZERO requests."""
    return {
        "NAN": constant_double("NaN"),
        "MINUS_INFINITY": constant_double("-Infinity"),
        "ERROR": failure("DOMAIN_ERROR", f"{name} of {zero} is not defined").cast("double"),
    }[args.option("ON_LOG_ZERO", "MINUS_INFINITY")]


def _asinh(x: Column) -> Column:
    """Return asinh without the cancellation near zero and the overflow of the textbook formula."""
    size = F.abs(x)
    square = size * size
    near = F.log1p(size + square / (F.sqrt(square + 1.0) + 1.0))
    positive = F.when(size > _HUGE, F.log(size) + _LN2).otherwise(near)
    # Zero keeps its sign.
    return F.when(x == 0, x).when(x < 0, -positive).otherwise(positive)


def _acosh(x: Column) -> Column:
    above = x - 1.0
    near = F.log1p(above + F.sqrt(above * (x + 1.0)))
    return F.when(x > _HUGE, F.log(x) + _LN2).otherwise(near)


def _atanh(x: Column) -> Column:
    inside = F.log1p(F.lit(2.0) * x / (F.lit(1.0) - x)) * 0.5
    ends = F.when(x > 0, constant_double("Infinity")).otherwise(constant_double("-Infinity"))
    return F.when(F.isnan(x) | (x == 0), x).when(F.abs(x) == 1.0, ends).otherwise(inside)


def _doubles(function: Callable[..., Column]) -> Builder:
    return lambda args: function(*(double(c) for c in args.columns))


def _beyond_one(x: Column) -> Column:
    return F.abs(x) > 1.0


_EVERYWHERE: dict[str, Callable[..., Column]] = {
    "exp": F.exp,
    "sin": F.sin,
    "cos": F.cos,
    "tan": F.tan,
    "sinh": F.sinh,
    "cosh": F.cosh,
    "tanh": F.tanh,
    "asinh": _asinh,
    "atan": F.atan,
    "atan2": F.atan2,
    "radians": F.radians,
    "degrees": F.degrees,
}

REAL: dict[str, Builder] = {
    "power": _power,
    "sqrt": _sqrt,
    **{name: _doubles(function) for name, function in _EVERYWHERE.items()},
    "asin": partial(_partial, name="asin", function=F.asin, bad=_beyond_one),
    "acos": partial(_partial, name="acos", function=F.acos, bad=_beyond_one),
    "atanh": partial(_partial, name="atanh", function=_atanh, bad=_beyond_one),
    "acosh": partial(_partial, name="acosh", function=_acosh, bad=lambda x: x < 1.0),
    "ln": partial(_logarithm, name="ln", function=F.ln),
    "log10": partial(_logarithm, name="log10", function=F.log10),
    "log2": partial(_logarithm, name="log2", function=F.log2),
    "log1p": partial(_logarithm, name="log1p", function=F.log1p, zero=-1.0),
    "logb": _logb,
}


_WHOLE = "decimal(38,0)"
_INT64 = "decimal(20,0)"
_ALL_WHOLE_FROM = float(2**52)
"""From this magnitude on, every fp64 is a whole number."""


def _is_integer(args: Arguments) -> bool:
    return args.type(0).kind in INTEGER_BITS


def _is_decimal(args: Arguments) -> bool:
    return args.type(0).kind == "decimal"


def _number(value: int) -> Column:
    return F.lit(str(value)).cast(_INT64)


def _bound(exact: Column, kind: str, overflow: str) -> Column:
    """Saturate or wrap an exact decimal(38,0) to the range of `kind`; not for OVERFLOW=ERROR."""
    low, high = integer_range(kind)
    if overflow == "SATURATE":
        return F.least(F.greatest(exact, _number(low)), _number(high))
    span = F.lit(str(high - low + 1)).cast(_INT64)
    return F.pmod((exact - _number(low)).cast(_WHOLE), span) + _number(low)


def _integer(args: Arguments, operate: Callable[..., Column]) -> Column:
    overflow = args.option("OVERFLOW", "ERROR")
    if overflow == "ERROR":
        return operate(*args.columns)
    exact = operate(*(c.cast(_INT64) for c in args.columns)).cast(_WHOLE)
    bounded = _bound(exact, args.call.type.kind, overflow)
    # Spark's least and greatest skip nulls.
    return F.when(exact.isNotNull(), bounded)


_EXACT: dict[str, Callable[..., Column]] = {
    "add": decimals.add,
    "subtract": decimals.subtract,
    "multiply": decimals.multiply,
    "divide": decimals.divide,
    "modulus": decimals.modulus,
}


def _decimal(name: str, args: Arguments, right: Column | None = None) -> Column:
    types = (decimals.params(t) for t in (args.type(0), args.type(1), args.call.type))
    return _EXACT[name](args[0], args[1] if right is None else right, *types)


def _arithmetic(args: Arguments, *, name: str, operate: Callable[..., Column]) -> Column:
    if _is_decimal(args):
        return _decimal(name, args)
    return _integer(args, operate) if _is_integer(args) else operate(*args.columns)


def _to_signed(
    args: Arguments, *, operate: Callable[[Column], Column], exact: Callable[..., Column]
) -> Column:
    if _is_decimal(args):
        return exact(args[0], decimals.params(args.type(0)))
    return _integer(args, operate) if _is_integer(args) else operate(args[0])


def _not_zero(args: Arguments, *options: str) -> Column:
    """Return the divisor, with null instead of zero if the value of an option is NULL."""
    if any(args.option(o) == "NULL" for o in options):
        zero = decimals.zero(decimals.params(args.type(1))) if _is_decimal(args) else F.lit(0)
        return F.when(args[1] != zero, args[1])
    return args[1]


def _quotient(x: Column, y: Column) -> Column:
    """Return the truncated quotient of decimal(20,0) values; Spark's `div` cannot return 2^63."""
    return F.when(y == _number(-1), _number(0) - x).otherwise(F.call_function("div", x, y))


def _divide(args: Arguments) -> Column:
    if _is_integer(args):
        by = _not_zero(args, "ON_DIVISION_BY_ZERO", "ON_DOMAIN_ERROR")
        if args.option("OVERFLOW", "ERROR") == "ERROR":
            return F.call_function("div", args[0], by)
        return _integer(args, lambda x, _y: _quotient(x, by.cast(_INT64)))
    if _is_decimal(args):
        return _decimal("divide", args, _not_zero(args, "ON_DIVISION_BY_ZERO"))
    # Spark's division of floats by zero fails or gives null, instead of following IEEE 754.
    quotient = F.try_divide(double(args[0]), double(args[1]))
    if args.option("ON_DIVISION_BY_ZERO") == "NULL":
        return quotient
    # The reciprocal of the zero is an infinity with the sign of the zero.
    return F.when(args[1] == 0, double(args[0]) * F.pow(double(args[1]), F.lit(-1.0))).otherwise(
        quotient
    )


def _modulus(args: Arguments) -> Column:
    if not (_is_integer(args) or _is_decimal(args)):
        rest = F.call_function("try_mod", args[0], args[1])
        return F.when((args[1] == 0) & args[0].isNotNull(), constant_double("NaN")).otherwise(rest)
    by = _not_zero(args, "ON_DOMAIN_ERROR")
    if _is_decimal(args):
        return _decimal("modulus", args, by)
    rest = args[0] % by
    if args.option("DIVISION_TYPE", "TRUNCATE") == "FLOOR":
        return F.when((rest != 0) & ((rest < 0) != (by < 0)), rest + by).otherwise(rest)
    return rest


def _factorial(args: Arguments) -> Column:
    """Return n!; fail for a negative n, and if the result does not fit its type."""
    most = 33 if _is_decimal(args) else 20
    error = failure("DOMAIN_ERROR", "the factorial of a negative number is not defined").cast(
        _WHOLE
    )
    large = failure("OVERFLOW", f"the factorial of a number above {most}").cast(_WHOLE)
    n = args[0].cast(_WHOLE)
    values = F.array(*(F.lit(str(factorial(i))).cast(_WHOLE) for i in range(most + 1)))
    result = F.when(n < _number(0), error).when(n > _number(most), large)
    return result.otherwise(F.get(values, n.cast("int")))


def _shift(args: Arguments, *, name: str, unsigned: bool = False) -> Column:
    """Shift within the bits of the first argument's type.

    The count is taken modulo the number of bits, as in Java.
    """
    bits = INTEGER_BITS[args.type(0).kind]
    count = F.pmod(args[1].cast("bigint"), F.lit(bits).cast("bigint")).cast("int")
    if args.type(0).kind.startswith("u"):
        shifted = F.call_function(name, args[0].cast("bigint"), count)
        return shifted.bitwiseAND(F.lit(2**bits - 1).cast("bigint"))
    if bits >= 32:
        return F.call_function(name, args[0], count)
    value = args[0].cast("int")
    if unsigned:
        value = value.bitwiseAND(F.lit(2**bits - 1))
    shifted = F.call_function(name, value, count).cast(_WHOLE)
    return _bound(shifted, args.type(0).kind, "SILENT")


def _whole(args: Arguments, *, function: Callable[[Column], Column]) -> Column:
    """Round a number to a whole number of its own type."""
    if _is_integer(args):
        return args[0]
    if _is_decimal(args):
        return function(args[0])
    x = double(args[0])
    # Spark's result is a bigint. Greater floats are whole numbers, infinite or NaN already.
    return F.when(F.abs(x) < _ALL_WHOLE_FROM, double(function(x))).otherwise(x)


NUMBERS: dict[str, Builder] = {
    "add": partial(_arithmetic, name="add", operate=add),
    "subtract": partial(_arithmetic, name="subtract", operate=sub),
    "multiply": partial(_arithmetic, name="multiply", operate=mul),
    "divide": _divide,
    "modulus": _modulus,
    "negate": partial(_to_signed, operate=lambda x: -x, exact=decimals.negative),
    "abs": partial(_to_signed, operate=F.abs, exact=decimals.absolute),
    **REAL,
    "factorial": _factorial,
    "shift_left": partial(_shift, name="shiftleft"),
    "shift_right": partial(_shift, name="shiftright"),
    "shift_right_unsigned": partial(_shift, name="shiftrightunsigned", unsigned=True),
    "ceil": partial(_whole, function=F.ceil),
    "floor": partial(_whole, function=F.floor),
    "round": round_digits,
}
