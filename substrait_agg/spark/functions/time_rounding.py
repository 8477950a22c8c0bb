"""Build ``round_temporal`` and ``round_calendar``.

Both round a time to a multiple of a unit that is counted from an origin.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.spark.functions.parts import Arguments, Builder, failure
from substrait_agg.spark.types.decimals import let
from substrait_agg.spark.types.literals import since_epoch, zoneless

_MICROS = {
    "WEEK": 7 * 86_400_000_000,
    "DAY": 86_400_000_000,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}
_MONTHS = {"YEAR": 12, "MONTH": 1}
_WIDE = "decimal(38,0)"


def _multiple(column: Column) -> Column:
    """Return the number of units in a multiple as a bigint; fail if it is not positive."""
    error = failure("DOMAIN_ERROR", "a time is rounded to a multiple that is not positive")
    return F.when(column < 1, error.cast("bigint")).otherwise(column.cast("bigint"))


def _chosen(x: Column, below: Column, above: Column, rounding: str) -> Column:
    """Return the lower or upper of the two multiples around `x`, which are equal if `x` is one."""
    if rounding == "FLOOR":
        return below
    if rounding == "CEIL":
        return above
    upper = (x - below) >= (above - x) if rounding == "ROUND_TIE_UP" else (x - below) > (above - x)
    return F.when(upper, above).otherwise(below)


def _by_length(x: Column, origin: Column, step: Column, rounding: str) -> Column:
    """Round microseconds. Decimals of 38 digits prevent overflows in intermediate results."""

    def body(values: Column) -> Column:
        """Choose between the multiples below and above the time."""
        rest = F.pmod((values["x"] - values["origin"]).cast(_WIDE), values["step"])
        below = (values["x"] - rest).cast(_WIDE)
        above = F.when(rest == F.lit(0).cast(_WIDE), below).otherwise(
            (below + values["step"]).cast(_WIDE)
        )
        return _chosen(values["x"], below, above, rounding).cast("bigint")

    names = {"x": x, "origin": origin, "step": step}
    parts = F.struct(*(c.cast("decimal(30,0)").alias(n) for n, c in names.items()))
    return F.when(x.isNotNull() & origin.isNotNull() & step.isNotNull(), let(parts, body))


def _by_months(x: Column, origin: Column, months: Column, rounding: str) -> Column:
    """Round zoneless times by months.

    A multiple on a day that its month does not have is the last day of the month.
    """

    def at(values: Column, count: Column) -> Column:
        return values["origin"] + F.make_ym_interval(
            F.lit(0), (count * values["months"]).cast("int")
        )

    def body(values: Column) -> Column:
        """Choose between the months below and above the time."""
        passed = (
            (F.year(values["x"]) - F.year(values["origin"])) * 12
            + F.month(values["x"])
            - F.month(values["origin"])
        )
        whole = F.call_function("div", passed - F.pmod(passed, values["months"]), values["months"])
        # If day and time are before those of the origin, the last month is not complete.
        count = F.when(at(values, whole) > values["x"], whole - 1).otherwise(whole)
        below = at(values, count)
        above = F.when(below == values["x"], below).otherwise(at(values, count + 1))
        now, before, after = map(since_epoch, (values["x"], below, above))
        return zoneless(_chosen(now, before, after, rounding))

    parts = F.struct(x.alias("x"), origin.alias("origin"), months.alias("months"))
    return F.when(x.isNotNull() & origin.isNotNull() & months.isNotNull(), let(parts, body))


def _rounded(args: Arguments, origin: Column, multiple: Column, words: tuple[str, str]) -> Column:
    """Return the first argument rounded to multiples from an origin of the same type.

    `words` contains the rounding mode and the unit.
    """
    rounding, unit = words
    x, count = args[0], _multiple(multiple)
    if args.type(0).kind == "precision_time":
        start = F.call_function("time_to_micros", origin)
        now = F.call_function("time_to_micros", x)
        micros = _by_length(now, start, count.cast("decimal(30,0)") * _MICROS[unit], rounding)
        return F.call_function("time_from_micros", micros)
    x, origin = x.cast("timestamp_ntz"), origin.cast("timestamp_ntz")
    if unit in _MONTHS:
        return _by_months(x, origin, count * _MONTHS[unit], rounding)
    step = count.cast("decimal(20,0)") * F.lit(_MICROS[unit]).cast("decimal(18,0)")
    return zoneless(_by_length(since_epoch(x), since_epoch(origin), step, rounding))


def _round_temporal(args: Arguments) -> Column:
    (_, rounding), (_, unit) = args.call.enums
    return _rounded(args, args[2], args[1], (rounding, unit))


_WEEKS = {"MONDAY_WEEK": 0, "ISO_WEEK": 0, "SUNDAY_WEEK": 1, "US_WEEK": 1}
"""Origin -> days from its first day of the week to the next Monday."""


def _origin(x: Column, word: str) -> Column:
    """Return the start of the calendar unit `word` that contains a zoneless time."""
    if word not in _WEEKS:
        return F.date_trunc(word, x)
    ahead = F.make_dt_interval(F.lit(_WEEKS[word]))
    return F.date_trunc("WEEK", x + ahead) - ahead


def _round_calendar(args: Arguments) -> Column:
    (_, rounding), (_, unit), (_, origin) = args.call.enums
    if args.type(0).kind != "precision_time":
        point = args[0].cast("timestamp_ntz")
        return _rounded(args, _origin(point, origin), args[1], (rounding, unit))
    micros = F.call_function("time_to_micros", args[0])
    start = micros - F.pmod(micros, F.lit(_MICROS[origin]))
    return _rounded(args, F.call_function("time_from_micros", start), args[1], (rounding, unit))


TIME_ROUNDING: dict[str, Builder] = {
    "round_temporal": _round_temporal,
    "round_calendar": _round_calendar,
}
"""Functions that round points in time."""
