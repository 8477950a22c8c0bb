"""Conversions between types: ANSI casts that fail, or give null, but never a wrong value."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.plan.types import INTEGER_BITS, Type
from substrait_agg.spark.columns import all_nullable, in_range
from substrait_agg.spark.literals import since_epoch, zoneless
from substrait_agg.spark.schema import MAX_FRACTION_DIGITS, to_spark

TEXTS = ("string", "varchar", "fixedchar")
FLOATS = ("fp32", "fp64")
TIMESTAMPS = ("precision_timestamp", "precision_timestamp_tz")


def convert(column: Column, source: Type, target: Type, *, null_on_failure: bool) -> Column:
    """`column` of type `source` as `target`.

    Floats and decimals are cut to integers and rounded half away from zero to decimals; text loses blanks around numbers;
    text longer than a char or varchar is cut to its length (a char is not padded); fractions of a second are
    cut to the digits of the target; zoneless timestamps and instants are each other's in UTC.

    Args:
        column: what is converted.
        source: its type.
        target: the type wanted.
        null_on_failure: whether a value that does not convert is null instead of failing the batch.
    """
    plain = to_spark(all_nullable(target))
    value = _before(column, source, target, null_on_failure=null_on_failure)
    value = value.try_cast(plain) if null_on_failure else value.cast(plain)
    after = _AFTER.get(target.kind)
    return after(value, source, target) if after else value


def _before(column: Column, source: Type, target: Type, *, null_on_failure: bool) -> Column:
    if target.kind in INTEGER_BITS and target.kind.startswith("u") and not null_on_failure:
        whole = column.cast("decimal(38,0)")
        return in_range(whole, target, "a value that is cast")
    if source.kind in FLOATS and target.kind == "decimal":
        # Spark takes NaN and infinities to null even where a cast must fail.
        bad = F.isnan(column) | (F.abs(column) == F.lit("Infinity").cast("double"))
        text = F.concat(F.lit("[CAST_INVALID] "), column.cast("string"), F.lit(f" is no {target}"))
        error = F.lit(None) if null_on_failure else F.raise_error(text)
        return F.when(bad, error.cast(to_spark(source))).otherwise(column)
    return column


def _cut_text(column: Column, source: Type, target: Type) -> Column:
    longest = source.params[0] if source.kind in ("varchar", "fixedchar") else None
    if longest is not None and longest <= target.params[0]:
        return column
    return F.substr(column, F.lit(1), F.lit(target.params[0]))


def _cut_bytes(column: Column, source: Type, target: Type) -> Column:
    return F.substr(column, F.lit(1), F.lit(target.params[0]))


def _cut_fraction(column: Column, source: Type, target: Type) -> Column:
    kept = target.params[0]
    has = source.params[0] if source.kind in TIMESTAMPS else MAX_FRACTION_DIGITS
    if source.kind == "date" or kept >= has:
        return column
    step = F.lit(10 ** (MAX_FRACTION_DIGITS - kept)).cast("bigint")
    if target.kind == "precision_timestamp_tz":
        ticks = F.unix_micros(column)
        return F.timestamp_micros(ticks - F.pmod(ticks, step))
    ticks = since_epoch(column)
    return zoneless(ticks - F.pmod(ticks, step))


_AFTER: dict[str, Callable[[Column, Type, Type], Column]] = {
    "varchar": _cut_text,
    "fixedchar": _cut_text,
    "fixedbinary": _cut_bytes,
    "precision_timestamp": _cut_fraction,
    "precision_timestamp_tz": _cut_fraction,
}
