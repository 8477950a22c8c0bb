"""Convert columns between types by ANSI casts, which fail or give null but never a wrong value."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.plan.types import UNSIGNED, Type
from substrait_agg.spark.types.literals import since_epoch, zoneless
from substrait_agg.spark.types.schema import MAX_FRACTION_DIGITS, to_spark
from substrait_agg.spark.types.source_columns import all_nullable, in_range, integer_range

TEXTS = ("string", "varchar", "fixedchar")
FLOATS = ("fp32", "fp64")
_NARROW = ("i8", "i16", "i32")
UUID_BYTES = 16
_UUID_DIGITS = "^(.{8})(.{4})(.{4})(.{4})(.{12})$"
_WHOLE, _TEXT = "decimal(38,0)", "decimal(38,9)"
TIMESTAMPS = ("precision_timestamp", "precision_timestamp_tz")


def convert(column: Column, source: Type, target: Type, *, null_on_failure: bool) -> Column:
    """Convert a column from type `source` to type `target`.

    - Floats and decimals are truncated to integers, and rounded half away from zero to decimals.
    - Blanks around a number in a text are ignored.
    - Text that is longer than a char or varchar is truncated to its length. A char is not padded.
    - Fractions of a second are truncated to the digits of the target.
    - Zoneless timestamps and instants convert to each other in UTC.

    Args:
        column: the column.
        source: the type of the column.
        target: the type of the result.
        null_on_failure: whether a value that does not convert becomes null instead of failing the
            batch.
    """
    plain = to_spark(all_nullable(target))
    value = _before(column, source, target, null_on_failure=null_on_failure)
    value = value.try_cast(plain) if null_on_failure else value.cast(plain)
    after = _AFTER.get(target.kind)
    return after(value, source, target) if after else value


def _before(column: Column, source: Type, target: Type, *, null_on_failure: bool) -> Column:
    if target.kind in UNSIGNED:
        return _cast_unsigned(column, source, target, null_on_failure=null_on_failure)
    if "uuid" in (source.kind, target.kind):
        return _uuid(column, source, target, null_on_failure=null_on_failure)
    if source.kind in ("decimal", "u64") and target.kind in _NARROW:
        # Spark converts long decimals to narrow integers by way of fp64, which may round up.
        return column.try_cast("bigint") if null_on_failure else column.cast("bigint")
    if source.kind in FLOATS and target.kind == "decimal":
        # Spark converts NaN and infinities to null, also in casts that must fail.
        bad = F.isnan(column) | (F.abs(column) == F.lit("Infinity").cast("double"))
        text = F.concat(
            F.lit("[CAST_INVALID] "), column.cast("string"), F.lit(f" is not a valid {target}")
        )
        error = F.lit(None) if null_on_failure else F.raise_error(text)
        return F.when(bad, error.cast(to_spark(source))).otherwise(column)
    return column


def _cast_unsigned(column: Column, source: Type, target: Type, *, null_on_failure: bool) -> Column:
    if source.kind in TEXTS:
        # A text with a fraction is not an integer, so the fraction is parsed and then tested.
        number = column.try_cast(_TEXT) if null_on_failure else column.cast(_TEXT)
        whole = number % 1 == 0
        text = F.concat(F.lit("[CAST_INVALID] "), column, F.lit(f" is not a valid {target}"))
        error = F.lit(None) if null_on_failure else F.raise_error(text)
        number = F.when(number.isNull() | whole, number).otherwise(error.cast(_TEXT))
    elif source.kind in FLOATS:
        cut = column - column % 1
        number = cut.try_cast(_WHOLE) if null_on_failure else cut.cast(_WHOLE)
    else:
        number = (column - column % 1 if source.kind == "decimal" else column).cast(_WHOLE)
    number = number.cast(_WHOLE)
    if null_on_failure:
        low, high = integer_range(target.kind)
        return F.when(number.between(F.lit(low), F.lit(str(high)).cast(_WHOLE)), number)
    return in_range(number, target, "a cast value")


def _uuid(column: Column, source: Type, target: Type, *, null_on_failure: bool) -> Column:
    """Convert a UUID to hyphenated text, or convert text or bytes to a UUID."""
    if target.kind in TEXTS:
        digits = F.lower(F.hex(column))
        return F.regexp_replace(digits, _UUID_DIGITS, "$1-$2-$3-$4-$5")
    if target.kind != "uuid":
        return column
    raw = F.try_to_binary(F.replace(column, F.lit("-"), F.lit("")), F.lit("hex"))
    raw = raw if source.kind in TEXTS else column
    error = (
        F.lit(None)
        if null_on_failure
        else F.raise_error(F.lit("[CAST_INVALID] a value is not a valid uuid"))
    )
    good = column.isNull() | (F.coalesce(F.octet_length(raw), F.lit(0)) == UUID_BYTES)
    return F.when(good, raw).otherwise(error.cast("binary"))


def _cut_time(column: Column, source: Type, target: Type) -> Column:
    has = source.params[0] if source.kind == target.kind else MAX_FRACTION_DIGITS
    if target.params[0] >= has:
        return column
    step = F.lit(10 ** (MAX_FRACTION_DIGITS - target.params[0])).cast("bigint")
    ticks = F.call_function("time_to_micros", column)
    return F.call_function("time_from_micros", ticks - F.pmod(ticks, step))


def _cut_text(column: Column, source: Type, target: Type) -> Column:
    longest = source.params[0] if source.kind in ("varchar", "fixedchar") else None
    if longest is not None and longest <= target.params[0]:
        return column
    return F.substr(column, F.lit(1), F.lit(target.params[0]))


def _cut_bytes(column: Column, source: Type, target: Type) -> Column:
    return F.substr(column, F.lit(1), F.lit(target.params[0]))


def _cut_fraction(column: Column, source: Type, target: Type) -> Column:
    digits = target.params[0]
    has = source.params[0] if source.kind in TIMESTAMPS else MAX_FRACTION_DIGITS
    if source.kind == "date" or digits >= has:
        return column
    step = F.lit(10 ** (MAX_FRACTION_DIGITS - digits)).cast("bigint")
    if target.kind == "precision_timestamp_tz":
        ticks = F.unix_micros(column)
        return F.timestamp_micros(ticks - F.pmod(ticks, step))
    ticks = since_epoch(column)
    return zoneless(ticks - F.pmod(ticks, step))


_AFTER: dict[str, Callable[[Column, Type, Type], Column]] = {
    "precision_time": _cut_time,
    "varchar": _cut_text,
    "fixedchar": _cut_text,
    "fixedbinary": _cut_bytes,
    "precision_timestamp": _cut_fraction,
    "precision_timestamp_tz": _cut_fraction,
}
