"""Build constants as Spark columns, exactly: without local time and binary floating point."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.plan.arrow import refuse_type
from substrait_agg.plan.types import Type
from substrait_agg.spark.types.schema import MAX_FRACTION_DIGITS, cast_target
from substrait_agg.spark.types.struct_fields import struct_of

_EPOCH = "timestamp_ntz'1970-01-01 00:00:00'"


def decimal_text(unscaled: int, scale: int) -> str:
    """Return the decimal text of an unscaled integer and its scale."""
    sign, digits = ("-" if unscaled < 0 else ""), str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def micros(ticks: int, digits: int) -> int:
    """Convert ticks of 10^-digits seconds to microseconds."""
    factor: int = 10 ** (MAX_FRACTION_DIGITS - digits)
    return ticks * factor


def bigint(value: int) -> Column:
    """Return an int64 constant."""
    return F.lit(value).cast("bigint")


def zoneless(column: Column) -> Column:
    """Convert microseconds since 1970 to a timestamp without a zone."""
    return F.timestamp_add("MICROSECOND", column, F.expr(_EPOCH))


def since_epoch(column: Column) -> Column:
    """Convert a timestamp without a zone to microseconds since 1970."""
    return F.timestamp_diff("MICROSECOND", F.expr(_EPOCH), column)


def _float(value: float, _type: Type) -> Column:
    if math.isnan(value):
        return F.lit("NaN")
    return F.lit(value) if math.isfinite(value) else F.lit("Infinity" if value > 0 else "-Infinity")


def _bytes(value: bytes, _type: Type) -> Column:
    return F.lit(bytes(value))  # `unhex` may be null, so no required part of a struct could be one


def _time(value: int, type_: Type) -> Column:
    return F.call_function("time_from_micros", bigint(micros(value, type_.params[0])))


def _instant(value: int, type_: Type) -> Column:
    return F.timestamp_micros(bigint(micros(value, type_.params[0])))


def _interval_day(value: tuple[int, int], type_: Type) -> Column:
    days, ticks = value
    seconds = F.lit(decimal_text(micros(ticks, type_.params[0]), 6)).cast("decimal(18,6)")
    return F.make_dt_interval(F.lit(days), F.lit(0), F.lit(0), seconds)


def _interval_compound(value: tuple[int, int, int], type_: Type) -> Column:
    months, days, ticks = value
    return F.struct(
        F.lit(months).alias("months"),
        F.lit(days).alias("days"),
        bigint(micros(ticks, type_.params[0])).alias("micros"),
    )


def _struct(value: tuple[Any, ...], type_: Type) -> Column:
    return struct_of(map(literal, value, type_.children))


def _map(value: tuple[tuple[Any, Any], ...], type_: Type) -> Column:
    key, item = type_.children
    return F.create_map(*(c for k, v in value for c in (literal(k, key), literal(v, item))))


def _plain(value: Any, _type: Type) -> Column:
    return F.lit(value)


_LITERALS: dict[str, Callable[[Any, Type], Column]] = {
    **dict.fromkeys(("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32"), _plain),
    **dict.fromkeys(("string", "fixedchar", "varchar", "interval_year"), _plain),
    **dict.fromkeys(("binary", "fixedbinary", "uuid"), _bytes),
    **dict.fromkeys(("fp32", "fp64"), _float),
    "u64": lambda value, _type: F.lit(str(value)),
    "decimal": lambda value, type_: F.lit(decimal_text(value, type_.params[1])),
    "date": lambda value, _type: F.date_from_unix_date(F.lit(value)),
    "precision_time": _time,
    "precision_timestamp": lambda value, type_: zoneless(bigint(micros(value, type_.params[0]))),
    "precision_timestamp_tz": _instant,
    "interval_day": _interval_day,
    "interval_compound": _interval_compound,
    "list": lambda value, type_: F.array(*(literal(v, type_.children[0]) for v in value)),
    "struct": _struct,
    "map": _map,
}


def literal(value: Any, type_: Type) -> Column:
    """Return the constant `value` (see `plan.model.Literal`) of type `type_`.

    A compound interval becomes a struct of months, days and micros; columns cannot have that type.

    Raises:
        UsageError: ``TYPE_NOT_SUPPORTED``.
    """
    build = _LITERALS.get(type_.kind)
    if build is None:
        raise refuse_type(type_)
    if type_.kind == "interval_compound":
        return _compound(value, type_)
    target = cast_target(type_)
    return F.lit(None).cast(target) if value is None else build(value, type_).cast(target)


def _compound(value: tuple[int, int, int] | None, type_: Type) -> Column:
    if type_.params and type_.params[0] > MAX_FRACTION_DIGITS:
        value, digits = _to_micros(value, type_.params[0], type_)
        type_ = Type(type_.kind, type_.nullable, (digits,))
    if value is None:
        return F.lit(None).cast("struct<months:int,days:int,micros:bigint>")
    return _interval_compound(value, type_ if type_.params else Type(type_.kind, params=(6,)))


def _to_micros(
    value: tuple[int, int, int] | None, digits: int, type_: Type
) -> tuple[tuple[int, int, int] | None, int]:
    """Convert an interval with ticks finer than a microsecond to microseconds."""
    if value is None:
        return None, MAX_FRACTION_DIGITS
    whole, rest = divmod(value[2], 10 ** (digits - MAX_FRACTION_DIGITS))
    if rest:
        raise refuse_type(type_)
    return (value[0], value[1], whole), MAX_FRACTION_DIGITS
