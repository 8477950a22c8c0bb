"""Dates, times and intervals. Instants are seen in the zone that a call names, else in UTC."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.plan.types import Type
from substrait_agg.spark.literals import since_epoch
from substrait_agg.spark.parts import Arguments, Builder

Part = Callable[[Column], Column]

UTC = "UTC"


def _local(column: Column, zone: Column) -> Column:
    """An instant as the zoneless time in a zone."""
    return F.convert_timezone(F.lit(UTC), zone, column.cast("timestamp_ntz"))


def _instant(column: Column, zone: Column) -> Column:
    """A zoneless time in a zone as an instant."""
    return F.convert_timezone(zone, F.lit(UTC), column).cast("timestamp")


def _sub_second(column: Column) -> Column:
    """Microseconds since the last full minute."""
    return (F.date_part(F.lit("SECOND"), column) * F.lit(1_000_000)).cast("bigint")


def _part(name: str) -> Part:
    return lambda x: F.date_part(F.lit(name), x).cast("bigint")


def _of_sub_second(modulo: int, unit: int) -> Part:
    def build(x: Column) -> Column:
        return F.call_function("div", F.pmod(_sub_second(x), F.lit(modulo)), F.lit(unit))

    return build


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
    "HOUR": _part("HOUR"),
    "MINUTE": _part("MINUTE"),
    "SECOND": _of_sub_second(60_000_000, 1_000_000),
    "MILLISECOND": _of_sub_second(1_000_000, 1_000),
    "MICROSECOND": _of_sub_second(1_000, 1),
}
"""Components of `extract`; those that count from 1 do so here."""

COUNTED = frozenset(
    "QUARTER MONTH DAY DAY_OF_YEAR MONDAY_DAY_OF_WEEK SUNDAY_DAY_OF_WEEK ISO_WEEK".split()
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
    # As in PostgreSQL and DataFusion: since the last full minute.
    "millisecond": _of_sub_second(60_000_000, 1_000),
    "microsecond": _of_sub_second(60_000_000, 1),
}
"""Words of `date_part`."""

_SUB_DAY = frozenset("HOUR MINUTE SECOND MILLISECOND MICROSECOND".split())


def _whole_day(part: str, column: Column, type_: Type) -> Column:
    """A date as a timestamp where a part of its (empty) time is wanted."""
    wants_time = part.upper() in _SUB_DAY and type_.kind == "date"
    return column.cast("timestamp_ntz") if wants_time else column


def _extract(a: Arguments) -> Column:
    words = [word for _, word in a.call.enums]
    component, from_zero = words[0], "ZERO" in words[1:]
    point, type_ = a[0], a.type(0)
    if component == "UNIX_TIME":
        return _unix_time(point, type_)
    if type_.kind == "precision_timestamp_tz":
        point = _local(point, a[1] if len(a) > 1 else F.lit(UTC))
    found = COMPONENTS[component](_whole_day(component, point, type_))
    return found - 1 if from_zero and component in COUNTED else found


def _unix_time(point: Column, type_: Type) -> Column:
    if type_.kind == "precision_timestamp_tz":
        micros = F.unix_micros(point)
    else:
        micros = since_epoch(point.cast("timestamp_ntz"))
    return F.call_function("div", micros - F.pmod(micros, F.lit(1_000_000)), F.lit(1_000_000))


def _date_part(a: Arguments) -> Column:
    word, point, type_ = str(a.constant(0)), a[1], a.type(1)
    if type_.kind == "precision_timestamp_tz":
        point = _local(point, F.lit(UTC))
    return PARTS[word](_whole_day(word, point, type_))


def _date_trunc(a: Arguments) -> Column:
    word, point = str(a.constant(0)), a[1]
    if a.type(1).kind == "date":
        return point if word.upper() in _SUB_DAY | {"DAY"} else F.trunc(point, word)
    return F.date_trunc(word, point)


# --- points in time plus or minus intervals --------------------------------------------------------


def _plus_months(point: Column, months: Column, a: Arguments) -> Column:
    kind = a.type(0).kind
    if kind == "date":
        return F.add_months(point, months)
    interval = F.make_ym_interval(F.lit(0), months)
    if kind == "precision_timestamp_tz" and len(a) > 2:
        return _instant(_local(point, a[2]) + interval, a[2])
    return point + interval


def _plus_compound(point: Column, parts: tuple[Column, Column, Column], a: Arguments) -> Column:
    months, days, micros = parts
    moved = _plus_months(point, months, a)
    seconds = (micros.cast("decimal(20,0)") * F.lit("0.000001").cast("decimal(6,6)")).cast(
        "decimal(18,6)"
    )
    interval = F.make_dt_interval(days, F.lit(0), F.lit(0), seconds)
    if a.type(0).kind == "date":
        moved = moved.cast("timestamp_ntz")
    return moved + interval


def _move(sign: int) -> Builder:
    def signed(column: Column) -> Column:
        return column if sign > 0 else -column

    def build(a: Arguments) -> Column:
        point, kind = a[0], a.type(1).kind
        if kind == "interval_year":
            return _plus_months(point, signed(a[1]), a)
        if kind == "interval_compound":
            parts = tuple(signed(a[1][name]) for name in ("months", "days", "micros"))
            return _plus_compound(point, (parts[0], parts[1], parts[2]), a)
        start = point.cast("timestamp_ntz") if a.type(0).kind == "date" else point
        return start + signed(a[1])

    return build


MOVES: dict[str, Builder] = {"add": _move(1), "subtract": _move(-1)}

TIME: dict[str, Builder] = {
    "extract": _extract,
    "date_part": _date_part,
    "date_trunc": _date_trunc,
    "add_intervals": lambda a: a[0] + a[1],
}
