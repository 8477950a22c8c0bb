"""Build functions of dates, times and intervals.

An instant is interpreted in the time zone that the call names, or else in UTC. ``round_temporal``
and ``round_calendar`` round a time to a multiple of a unit that is counted from an origin.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.plan.types import Type
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


def _choose(x: Column, below: Column, above: Column, rounding: str) -> Column:
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
        return _choose(values["x"], below, above, rounding).cast("bigint")

    names = {"x": x, "origin": origin, "step": step}
    parts = F.struct(*(c.cast("decimal(30,0)").alias(n) for n, c in names.items()))
    return F.when(x.isNotNull() & origin.isNotNull() & step.isNotNull(), let(parts, body))


def _by_months(x: Column, origin: Column, months: Column, rounding: str) -> Column:
    """Round zoneless times by months.

    A multiple on a day that its month does not have is the last day of the month.
    """

    def at(values: Column, count: Column) -> Column:
        """Return the instant of a multiple of the months."""
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
        return zoneless(_choose(now, before, after, rounding))

    parts = F.struct(x.alias("x"), origin.alias("origin"), months.alias("months"))
    return F.when(x.isNotNull() & origin.isNotNull() & months.isNotNull(), let(parts, body))


def _round(args: Arguments, origin: Column, multiple: Column, words: tuple[str, str]) -> Column:
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
    return _round(args, args[2], args[1], (rounding, unit))


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
        return _round(args, _origin(point, origin), args[1], (rounding, unit))
    micros = F.call_function("time_to_micros", args[0])
    start = micros - F.pmod(micros, F.lit(_MICROS[origin]))
    return _round(args, F.call_function("time_from_micros", start), args[1], (rounding, unit))


TIME_ROUNDING: dict[str, Builder] = {
    "round_temporal": _round_temporal,
    "round_calendar": _round_calendar,
}
"""Functions that round points in time."""


Part = Callable[[Column], Column]

UTC = "UTC"


def local_time(column: Column, zone: Column) -> Column:
    """Convert an instant to the zoneless time in a zone."""
    return F.convert_timezone(F.lit(UTC), zone, column.cast("timestamp_ntz"))


def instant(column: Column, zone: Column) -> Column:
    """Convert a zoneless time in a zone to an instant."""
    return F.convert_timezone(zone, F.lit(UTC), column).cast("timestamp")


def offset_seconds(column: Column, zone: Column) -> Column:
    """Return by how many seconds a zone is ahead of UTC at an instant."""
    ahead = since_epoch(local_time(column, zone)) - F.unix_micros(column)
    return F.call_function("div", ahead, F.lit(1_000_000))


def _sub_second(column: Column) -> Column:
    """Return the microseconds since the last full minute."""
    return (F.date_part(F.lit("SECOND"), column) * F.lit(1_000_000)).cast("bigint")


def _part(name: str) -> Part:
    return lambda x: F.date_part(F.lit(name), x).cast("bigint")


def _of_sub_second(x: Column, *, modulo: int, unit: int) -> Column:
    return F.call_function("div", F.pmod(_sub_second(x), F.lit(modulo)), F.lit(unit))


def _week_day(x: Column, *, first: str, offset: int) -> Column:
    """Return the day of a date's week that decides which year the week belongs to."""
    day = x.cast("date")
    passed = F.pmod(F.dayofweek(day) - F.lit({"SUNDAY": 1, "MONDAY": 2}[first]), F.lit(7))
    return F.date_add(day, F.lit(offset) - passed)


def _week(deciding: Part) -> Part:
    """Return the number of a week, counted from the week with the first deciding day in the year.

    Earlier days are in the last week of the previous year.
    """
    return lambda x: F.call_function("div", F.dayofyear(deciding(x)) + 6, F.lit(7))


_US_DAY = partial(_week_day, first="SUNDAY", offset=3)
"""The deciding day of US weeks. A week with four days in January has its Wednesday in January."""

COMPONENTS: dict[str, Part] = {
    "YEAR": _part("YEAR"),
    "ISO_YEAR": _part("YEAROFWEEK"),
    "QUARTER": _part("QUARTER"),
    "MONTH": _part("MONTH"),
    "DAY": _part("DAY"),
    "DAY_OF_YEAR": _part("DOY"),
    "MONDAY_DAY_OF_WEEK": _part("DAYOFWEEK_ISO"),
    "SUNDAY_DAY_OF_WEEK": _part("DAYOFWEEK"),
    "ISO_WEEK": _part("WEEK"),
    "US_YEAR": lambda x: F.year(_US_DAY(x)).cast("bigint"),
    "US_WEEK": _week(_US_DAY),
    "MONDAY_WEEK": _week(partial(_week_day, first="MONDAY", offset=0)),
    "SUNDAY_WEEK": _week(partial(_week_day, first="SUNDAY", offset=0)),
    "HOUR": _part("HOUR"),
    "MINUTE": _part("MINUTE"),
    "SECOND": partial(_of_sub_second, modulo=60_000_000, unit=1_000_000),
    "MILLISECOND": partial(_of_sub_second, modulo=1_000_000, unit=1_000),
    "MICROSECOND": partial(_of_sub_second, modulo=1_000, unit=1),
    # Spark stores microseconds.
    "NANOSECOND": lambda x: F.when(x.isNotNull(), F.lit(0)),
    "PICOSECOND": lambda x: F.when(x.isNotNull(), F.lit(0)),
    "SUBSECOND": partial(_of_sub_second, modulo=1_000_000, unit=1),
}
"""Component of `extract` -> its builder. Components that can count from 0 or 1 count from 1."""

COUNTED = frozenset(
    (
        "QUARTER MONTH DAY DAY_OF_YEAR MONDAY_DAY_OF_WEEK SUNDAY_DAY_OF_WEEK ISO_WEEK US_WEEK MONDAY_WEEK"
        " SUNDAY_WEEK"
    ).split()
)

PARTS: dict[str, Part] = {
    "year": COMPONENTS["YEAR"],
    "quarter": COMPONENTS["QUARTER"],
    "month": COMPONENTS["MONTH"],
    "week": COMPONENTS["ISO_WEEK"],
    "day": COMPONENTS["DAY"],
    "doy": COMPONENTS["DAY_OF_YEAR"],
    "dow": lambda x: COMPONENTS["SUNDAY_DAY_OF_WEEK"](x) - 1,
    "isodow": COMPONENTS["MONDAY_DAY_OF_WEEK"],
    "hour": COMPONENTS["HOUR"],
    "minute": COMPONENTS["MINUTE"],
    "second": COMPONENTS["SECOND"],
    # PostgreSQL and DataFusion count these from the last full minute.
    "millisecond": partial(_of_sub_second, modulo=60_000_000, unit=1_000),
    "microsecond": partial(_of_sub_second, modulo=60_000_000, unit=1),
}
"""Word of `date_part` -> its builder."""

_SUB_DAY = frozenset("HOUR MINUTE SECOND MILLISECOND MICROSECOND SUBSECOND".split())


def _whole_day(part: str, column: Column, type_: Type) -> Column:
    """Convert a date to a timestamp at midnight if the part is one of the time of day."""
    wants_time = part.upper() in _SUB_DAY and type_.kind == "date"
    return column.cast("timestamp_ntz") if wants_time else column


def _extract(args: Arguments) -> Column:
    words = [word for _, word in args.call.enums]
    component, from_zero = words[0], "ZERO" in words[1:]
    point, type_ = args[0], args.type(0)
    if component == "UNIX_TIME":
        return _unix_time(point, type_)
    if type_.kind == "precision_timestamp_tz":
        zone = args[1] if len(args) > 1 else F.lit(UTC)
        if component == "TIMEZONE_OFFSET":
            return offset_seconds(point, zone)
        point = local_time(point, zone)
    value = COMPONENTS[component](_whole_day(component, point, type_))
    return value - 1 if from_zero and component in COUNTED else value


def _unix_time(point: Column, type_: Type) -> Column:
    if type_.kind == "precision_timestamp_tz":
        micros = F.unix_micros(point)
    else:
        micros = since_epoch(point.cast("timestamp_ntz"))
    return F.call_function("div", micros - F.pmod(micros, F.lit(1_000_000)), F.lit(1_000_000))


def _extract_boolean(args: Arguments) -> Column:
    """Return whether the year is a leap year; this is the only component of the function."""
    zoned = args.type(0).kind == "precision_timestamp_tz"
    year = F.year(local_time(args[0], args[1]) if zoned else args[0])
    return (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))


def _assume_timezone(args: Arguments) -> Column:
    """Convert a zoneless time to an instant.

    A time in a gap of the zone moves forward by the length of the gap. For a time that occurs
    twice, the result is the first instant.
    """
    return instant(args[0].cast("timestamp_ntz"), args[1])


def _date_part(args: Arguments) -> Column:
    word, point, type_ = str(args.constant(0)), args[1], args.type(1)
    if type_.kind == "precision_timestamp_tz":
        point = local_time(point, F.lit(UTC))
    return PARTS[word](_whole_day(word, point, type_))


def _date_trunc(args: Arguments) -> Column:
    word, point = str(args.constant(0)), args[1]
    if args.type(1).kind == "date":
        return point if word.upper() in _SUB_DAY | {"DAY"} else F.trunc(point, word)
    return F.date_trunc(word, point)


# --- points in time plus or minus intervals ------------------------------------------------------


def _plus_months(point: Column, months: Column, args: Arguments) -> Column:
    kind = args.type(0).kind
    if kind == "date":
        return F.add_months(point, months)
    interval = F.make_ym_interval(F.lit(0), months)
    if kind == "precision_timestamp_tz" and len(args) > 2:
        return instant(local_time(point, args[2]) + interval, args[2])
    return point + interval


def _plus_compound(point: Column, parts: tuple[Column, Column, Column], args: Arguments) -> Column:
    months, days, micros = parts
    moved = _plus_months(point, months, args)
    seconds = (micros.cast("decimal(20,0)") * F.lit("0.000001").cast("decimal(6,6)")).cast(
        "decimal(18,6)"
    )
    interval = F.make_dt_interval(days, F.lit(0), F.lit(0), seconds)
    if args.type(0).kind == "date":
        moved = moved.cast("timestamp_ntz")
    return moved + interval


def _shift_by_interval(sign: int) -> Builder:
    def to_signed(column: Column) -> Column:
        return column if sign > 0 else -column

    def build(args: Arguments) -> Column:
        """Add an interval of years, of days, or of both."""
        point, kind = args[0], args.type(1).kind
        if kind == "interval_year":
            return _plus_months(point, to_signed(args[1]), args)
        if kind == "interval_compound":
            parts = tuple(to_signed(args[1][name]) for name in ("months", "days", "micros"))
            return _plus_compound(point, (parts[0], parts[1], parts[2]), args)
        start = point.cast("timestamp_ntz") if args.type(0).kind == "date" else point
        return start + to_signed(args[1])

    return build


MOVES: dict[str, Builder] = {
    "add": _shift_by_interval(1),
    "subtract": _shift_by_interval(-1),
    # Integer times interval; a product out of the range of intervals fails.
    "multiply": lambda args: args[1] * args[0],
}

TIME: dict[str, Builder] = {
    "extract": _extract,
    "date_part": _date_part,
    "date_trunc": _date_trunc,
    "extract_boolean": _extract_boolean,
    "assume_timezone": _assume_timezone,
    "local_timestamp": lambda args: local_time(args[0], args[1]),
    "add_intervals": lambda args: args[0] + args[1],
}
