"""Build ``round`` in all ten rounding modes, to a number of digits that may differ per row.

Rounding operates on decimal digits. For a float, these are the shortest digits that represent it,
as in Spark's own rounding of floats.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.plan.types import INTEGER_BITS
from substrait_agg.spark.functions.parts import Arguments, failure
from substrait_agg.spark.types import decimals

_WHOLE = "decimal(38,0)"
_MOST_DIGITS = 400
"""An upper bound for the digits of a number before or after its point."""
_POWERS = 38
"""The number of powers of ten that fit a decimal of 38 digits."""

_NEAREST = frozenset({"TIE_AWAY_FROM_ZERO", "TIE_TO_EVEN"})
"""Rounding modes that Spark supports for a constant number of digits."""


def _number(text: str) -> Column:
    return F.lit(text).cast(_WHOLE)


def _upwards(mode: str, minus: Column, even: Column) -> tuple[Column, Column, Column]:
    """Return whether to round up in three cases: nearer to the multiple below, tie, nearer above.

    Args:
        mode: the value of the option ROUNDING.
        minus: whether the number is negative.
        even: whether the multiple below is even.
    """
    true, false = F.lit(True), F.lit(False)
    directed: Mapping[str, Column] = {
        "TRUNCATE": minus,
        "AWAY_FROM_ZERO": ~minus,
        "CEILING": true,
        "FLOOR": false,
    }
    if mode in directed:
        return directed[mode], directed[mode], directed[mode]
    ties: Mapping[str, Column] = {
        "TIE_AWAY_FROM_ZERO": ~minus,
        "TIE_TOWARDS_ZERO": minus,
        "TIE_DOWN": false,
        "TIE_UP": true,
        "TIE_TO_EVEN": ~even,
        "TIE_TO_ODD": even,
    }
    return false, ties[mode], true


def _multiple(values: Column, *, mode: str) -> Column:
    """Round `number` to a multiple of 10^`drop`, which fits a decimal."""
    number = values["number"]
    unit = F.get(F.array(*(_number("1" + "0" * n) for n in range(_POWERS))), values["drop"])
    rest = F.pmod(number, unit).cast(_WHOLE)
    even = F.pmod(number, (unit + unit).cast(_WHOLE)) < unit
    below = (number - rest).cast(_WHOLE)
    lower, tie, upper = _upwards(mode, number < _number("0"), even)
    beyond = (unit - rest).cast(_WHOLE)
    up = F.when(rest < beyond, lower).when(rest > beyond, upper).otherwise(tie)
    above = F.when(up, (below + unit).cast(_WHOLE)).otherwise(below)
    return F.when(rest == _number("0"), number).otherwise(above)


def _beyond(values: Column, *, mode: str) -> Column:
    """Round `number` to a multiple of 10^`drop`, which fits no decimal.

    The result is zero. The batch fails if the result would be another multiple.
    """
    number, zero = values["number"], _number("0")
    minus = number < zero
    half = _number("5" + "0" * (_POWERS - 1))
    size = decimals.absolute(number, (38, 0))
    at_half = (values["drop"] == _POWERS) & (size == half)
    above_half = (values["drop"] == _POWERS) & (size > half)
    lower, tie, upper = _upwards(mode, minus, ~minus)
    near_upper = F.when(minus, ~above_half).otherwise(above_half)
    up = F.when(at_half, tie).when(near_upper, upper).otherwise(lower)
    error = failure("OVERFLOW", "a rounded number has more than 38 digits").cast(_WHOLE)
    return F.when((number == zero) | (up == minus), zero).otherwise(error)


def _round(number: Column, drop: Column, mode: str) -> Column:
    """Round a decimal(38,0) to a multiple of 10^`drop`."""

    def body(values: Column) -> Column:
        """Round one number; without digits to drop it stays as it is."""
        rounded = F.when(values["drop"] < _POWERS, _multiple(values, mode=mode)).otherwise(
            _beyond(values, mode=mode)
        )
        return F.when(values["drop"] <= 0, values["number"]).otherwise(rounded)

    parts = F.struct(number.cast(_WHOLE).alias("number"), drop.cast("int").alias("drop"))
    return F.when(number.isNotNull() & drop.isNotNull(), decimals.let(parts, body))


def _float(x: Column, digits: Column, mode: str, kind: str) -> Column:
    """Round a float by its shortest decimal digits."""
    type_ = {"fp32": "float", "fp64": "double"}[kind]
    written = F.split(x.cast("string"), "E")
    mantissa, exponent = F.get(written, F.lit(0)), F.coalesce(F.get(written, F.lit(1)), F.lit("0"))
    behind = F.char_length(F.substring_index(mantissa, ".", -1))

    def body(values: Column) -> Column:
        """Round the digits, then convert them back to a float."""
        drop = -values["digits"] - values["exponent"]
        digits_text = F.concat(
            _round(values["number"], drop, mode).cast("string"),
            F.lit("E"),
            values["exponent"].cast("string"),
        )
        return F.when(drop <= 0, values["x"]).otherwise(digits_text.cast(type_))

    parts = F.struct(
        x.alias("x"),
        digits.alias("digits"),
        F.replace(mantissa, F.lit("."), F.lit("")).cast(_WHOLE).alias("number"),
        (exponent.cast("int") - behind).alias("exponent"),
    )
    finite = F.abs(x) < F.lit("Infinity").cast("double")
    return F.when(digits.isNotNull(), F.when(finite, decimals.let(parts, body)).otherwise(x))


def _constant_digits(args: Arguments, mode: str) -> int | None:
    """Return the constant number of digits if Spark's own function can round to it, else None."""
    fast = mode in _NEAREST and args.type(0).kind != "fp32"
    digits = 0 if len(args) == 1 else getattr(args.call.arguments[1], "value", None)
    if not fast or digits is None:
        return None
    return max(-_MOST_DIGITS, min(_MOST_DIGITS, int(str(digits))))


def round_digits(args: Arguments) -> Column:
    """Return the first argument rounded to a number of fraction digits, the second argument."""
    mode, kind = args.option("ROUNDING", "TIE_AWAY_FROM_ZERO"), args.type(0).kind
    constant = _constant_digits(args, mode)
    if constant is not None:
        return (F.bround if mode == "TIE_TO_EVEN" else F.round)(args[0], constant)
    most = F.lit(_MOST_DIGITS)
    wide = args[1].cast("bigint") if len(args) > 1 else F.lit(0)
    # Spark's least and greatest skip nulls.
    digits = F.when(wide.isNotNull(), F.least(F.greatest(wide, -most), most)).cast("int")
    if kind in INTEGER_BITS:
        return _round(args[0], -digits, mode)
    if kind != "decimal":
        return _float(args[0], digits, mode, kind)
    scale = args.type(0).params[1]
    unscaled = F.replace(args[0].cast("string"), F.lit("."), F.lit("")).cast(_WHOLE)
    result = _round(unscaled, F.lit(scale) - digits, mode)
    return decimals.scale_by(result, scale)
