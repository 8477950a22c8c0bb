"""Samples of dates, times and zones, with Python as the model."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from typing import Any

from substrait_agg.bind.bound import Call
from substrait_agg.plan.types import Type
from tests.spark.evaluating import BOOL, DATE, I8, I64, STRING, TS, TSTZ, call
from tests.spark.samples import EPOCH, FAILS, TIME, Sample, clock, day, ticks

MOMENTS = (
    "2024-02-29T00:05:09.999999", "2023-12-31T23:59:59", "2021-01-03T12:00:00", "2026-01-01T13:04:05.5",
    "1969-07-20T20:17:40", "1000-06-07T01:02:03",
)  # fmt: skip
OF_DATES = "%Y|%m|%d|%e|%j|%y|%C|%a|%A|%b|%B|%h|%u|%w|%U|%W|%V|%G|%g|%D|%F|%x|%n|%t|%%|é"
OF_TIMES = "%H|%I|%k|%l|%M|%S|%p|%P|%R|%T|%r|%X"
BOTH = f"{OF_DATES}|{OF_TIMES}|%c"


def formats() -> Iterator[Sample]:
    """Python's strftime is that of the machine's C library."""
    for text in MOMENTS:
        moment = dt.datetime.fromisoformat(text)
        yield Sample(
            call("strftime", STRING, (TS, ticks(text)), (STRING, BOTH)), moment.strftime(BOTH)
        )
        date = dt.datetime.combine(moment.date(), dt.time())
        yield Sample(
            call("strftime", STRING, (DATE, day(text[:10])), (STRING, BOTH)), date.strftime(BOTH)
        )
        micros = clock(text[11:])
        yield Sample(
            call("strftime", STRING, (TIME, micros), (STRING, OF_TIMES)), moment.strftime(OF_TIMES)
        )
    for zone, ahead in (("UTC", 0), ("Asia/Kolkata", 19_800), ("America/St_Johns", -12_600)):
        local = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=ahead)
        sign, minutes = "-" if ahead < 0 else "+", abs(ahead) // 60
        wanted = f"{local:%F %T} {sign}{minutes // 60:02}{minutes % 60:02} 1767225600"
        shown = call(
            "strftime", STRING, (TSTZ, ticks("2026-01-01")), (STRING, "%F %T %z %s"), (STRING, zone)
        )
        yield Sample(shown, wanted)
    yield Sample(
        call("strftime", STRING, (TSTZ, 0), (STRING, "%F"), (STRING, "Nowhere/Land")), FAILS
    )
    yield Sample(call("strftime", STRING, (TS, None), (STRING, "x")), None)
    yield Sample(call("strftime", STRING, (TS, 0), (STRING, None)), None)
    yield Sample(call("strftime", STRING, (TS, 0), (STRING, "")), "")


def parsed() -> Iterator[Sample]:
    def date(text: str | None, format: str) -> Call:
        return call("strptime_date", DATE, (STRING, text), (STRING, format))

    for text, format in (
        ("2024-02-29", "%Y-%m-%d"), ("29Feb24", "%d%b%y"), ("3 MARCH 1999", "%e %B %Y"), ("01/02/70", "%D"),
        ("Thu 2024-060", "%a %Y-%j"), ("2024-1-5 10:11", "%Y-%m-%d %H:%M"), ("100%2001-01-01", "100%%%F"),
    ):  # fmt: skip
        known = {"%D": "%m/%d/%y", "%e": "%d", "%F": "%Y-%m-%d"}
        python = format
        for short, long in known.items():
            python = python.replace(short, long)
        read = time.strptime(text, python)
        yield Sample(date(text, format), dt.date(*read[:3]))
    yield Sample(date("2024 \t 01-01", "%Y %m-%d"), dt.date(2024, 1, 1))
    yield Sample(date("20240525", "%Y%m%d"), dt.date(2024, 5, 25))
    # The C library takes a 2 for the whole month, as no month begins with it and has two digits.
    yield Sample(date("2024 25", "%Y %m%d"), dt.date(2024, 2, 5))
    for text, format in (
        ("2023-02-29", "%F"),
        ("2024-13-01", "%F"),
        ("2024-01-01x", "%F"),
        ("", "%F"),
        ("2023-366", "%Y-%j"),
    ):
        yield Sample(date(text, format), FAILS)
    yield Sample(date(None, "%F"), None)

    def of_day(text: str, format: str) -> Call:
        made = call("strptime_time", TIME, (STRING, text), (STRING, format), (I8, 6))
        return call("strftime", STRING, made, (STRING, "%T"))

    for text, format, wanted in (
        ("23:05:09", "%T", "23:05:09"), ("12:00 am", "%I:%M %p", "00:00:00"), ("12:30 PM", "%I:%M %p", "12:30:00"),
        ("7", "%H", "07:00:00"), ("0930", "%H%M", "09:30:00"), ("24:00", "%R", FAILS), ("13 PM", "%I %p", FAILS),
        ("10:60", "%R", FAILS),
    ):  # fmt: skip
        yield Sample(of_day(text, format), wanted)

    def instant(text: str, format: str, *zone: str) -> Call:
        zones = ((STRING, z) for z in zone)
        return call("strptime_timestamp", TSTZ, (STRING, text), (STRING, format), *zones, (I8, 6))

    def seen(made: Call) -> Call:
        return call("strftime", STRING, made, (STRING, "%F %T"), (STRING, "UTC"))

    yield Sample(seen(instant("2026-01-01 10:00:00", "%F %T")), "2026-01-01 10:00:00")
    yield Sample(
        seen(instant("2026-01-01 10:00:00", "%F %T", "Asia/Kolkata")), "2026-01-01 04:30:00"
    )
    yield Sample(seen(instant("2026-01-01 10:00 -03:30", "%F %R %z")), "2026-01-01 13:30:00")
    yield Sample(seen(instant("2026-01-01 10:00 +05", "%F %R %z")), "2026-01-01 05:00:00")
    yield Sample(seen(instant("2026-01-01 10:00 Z", "%F %R %z")), "2026-01-01 10:00:00")
    yield Sample(seen(instant("2026-01-01", "%F")), "2026-01-01 00:00:00")
    yield Sample(seen(instant("2025-12-31 23:59:60", "%F %T")), "2026-01-01 00:00:00")


def zones() -> Iterator[Sample]:
    winter, summer = ticks("2026-01-15T12:00:00"), ticks("2026-07-15T12:00:00")
    for at, ahead in ((winter, -5), (summer, -4)):
        zone = (STRING, "America/New_York")
        there = EPOCH + dt.timedelta(microseconds=at, hours=ahead)
        yield Sample(call("local_timestamp", TS, (TSTZ, at), zone), there)
        local = (TS, (there - EPOCH) // dt.timedelta(microseconds=1))
        again = call(
            "extract",
            I64,
            call("assume_timezone", TSTZ, local, zone),
            (STRING, "UTC"),
            enums=("UNIX_TIME",),
        )
        yield Sample(again, at // 1_000_000)
        yield Sample(
            call("extract", I64, (TSTZ, at), zone, enums=("TIMEZONE_OFFSET",)), ahead * 3600
        )
    midnight = call(
        "assume_timezone", TSTZ, (DATE, day("2026-01-15")), (STRING, "Asia/Tokyo"), (I8, 0)
    )
    shown = call("strftime", STRING, midnight, (STRING, "%F %T"), (STRING, "UTC"))
    yield Sample(shown, "2026-01-14 15:00:00")
    yield Sample(call("local_timestamp", TS, (TSTZ, 0), (STRING, None)), None)
    yield Sample(call("local_timestamp", TS, (TSTZ, 0), (STRING, "Nowhere/Land")), FAILS)


def week_model(date: dt.date, first: int, deciding: int) -> tuple[int, int]:
    """Year and week of the day that decides; weeks begin on day `first` (0 is Monday)."""
    start = date - dt.timedelta(days=(date.weekday() - first) % 7)
    chosen = start + dt.timedelta(days=deciding)
    return chosen.year, (chosen.timetuple().tm_yday - 1) // 7 + 1


def components() -> Iterator[Sample]:
    for offset in range(-12, 12):
        for year in (2015, 2021, 2024):
            date = dt.date(year, 1, 1) + dt.timedelta(days=offset)
            at = (DATE, (date - EPOCH.date()).days)
            for word, first, deciding in (
                ("US_WEEK", 6, 3),
                ("MONDAY_WEEK", 0, 0),
                ("SUNDAY_WEEK", 6, 0),
            ):
                _, week = week_model(date, first, deciding)
                yield Sample(call("extract", I64, at, enums=(word, "ONE")), week)
                yield Sample(call("extract", I64, at, enums=(word, "ZERO")), week - 1)
            yield Sample(call("extract", I64, at, enums=("US_YEAR",)), week_model(date, 6, 3)[0])
    at = (TS, ticks("2026-01-01T10:11:12.345678"))
    for word, wanted in (
        ("SUBSECOND", 345678),
        ("NANOSECOND", 0),
        ("PICOSECOND", 0),
        ("MICROSECOND", 678),
    ):
        yield Sample(call("extract", I64, at, enums=(word,)), wanted)
    yield Sample(
        call("extract", I64, (TIME, clock("10:11:12.345678")), enums=("SUBSECOND",)), 345678
    )
    for year, leap in ((1900, False), (2000, True), (2023, False), (2024, True)):
        given = (DATE, day(f"{year}-07-01"))
        yield Sample(call("extract_boolean", BOOL, given, enums=("IS_LEAP_YEAR",)), leap)
    # It is the new year there already.
    zoned = (TSTZ, ticks("2023-12-31T23:00:00"))
    yield Sample(
        call("extract_boolean", BOOL, zoned, (STRING, "Europe/Berlin"), enums=("IS_LEAP_YEAR",)),
        True,
    )
    yield Sample(call("extract_boolean", BOOL, (DATE, None), enums=("IS_LEAP_YEAR",)), None)


LENGTHS = {"WEEK": 7 * 86_400, "DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}
ROUNDINGS = ("FLOOR", "CEIL", "ROUND_TIE_DOWN", "ROUND_TIE_UP")


def chosen(x: int, below: int, above: int, rounding: str) -> int:
    if rounding in ("FLOOR", "CEIL"):
        return below if rounding == "FLOOR" else above
    lower = x - below < above - x or (x - below == above - x and rounding == "ROUND_TIE_DOWN")
    return below if lower else above


def month_model(x: dt.datetime, origin: dt.datetime, months: int, rounding: str) -> dt.datetime:
    """By looking through all multiples around."""

    def at(count: int) -> dt.datetime:
        total = origin.year * 12 + origin.month - 1 + count * months
        last = (
            dt.date(total // 12 + (total % 12 == 11), (total + 1) % 12 + 1, 1)
            - dt.timedelta(days=1)
        ).day
        return origin.replace(year=total // 12, month=total % 12 + 1, day=min(origin.day, last))

    points = [at(n) for n in range(-400, 400)]
    below = max(p for p in points if p <= x)
    above = min(p for p in points if p >= x)
    numbers = [(p - EPOCH) // dt.timedelta(microseconds=1) for p in (x, below, above)]
    return EPOCH + dt.timedelta(microseconds=chosen(numbers[0], numbers[1], numbers[2], rounding))


def rounded_times() -> Iterator[Sample]:
    origin = ticks("2000-01-01T00:00:00")
    for text in (
        "2026-05-17T10:30:00",
        "1999-12-31T23:59:59.5",
        "2000-01-01T00:00:00",
        "2026-01-31T12:00:00",
    ):
        x = ticks(text)
        for rounding in ROUNDINGS:
            for unit, seconds in LENGTHS.items():
                for multiple in (1, 7):
                    step = seconds * 1_000_000 * multiple
                    below = x - (x - origin) % step
                    above = below if below == x else below + step
                    wanted = EPOCH + dt.timedelta(microseconds=chosen(x, below, above, rounding))
                    made = call(
                        "round_temporal",
                        TS,
                        (TS, x),
                        (I64, multiple),
                        (TS, origin),
                        enums=(rounding, unit),
                    )
                    yield Sample(made, wanted)
            for start in ("2000-01-01T00:00:00", "2000-01-31T06:00:00"):
                for unit, months in (("YEAR", 12), ("MONTH", 1), ("MONTH", 5)):
                    multiple = 5 if months == 5 else 1
                    wanted = month_model(
                        dt.datetime.fromisoformat(text),
                        dt.datetime.fromisoformat(start),
                        months,
                        rounding,
                    )
                    numbers = ((TS, x), (I64, multiple), (TS, ticks(start)))
                    yield Sample(
                        call("round_temporal", TS, *numbers, enums=(rounding, unit)), wanted
                    )


def odd_roundings() -> Iterator[Sample]:
    """Dates, multiples that are not positive, nulls."""
    week = ((DATE, day("2026-05-17")), (I64, 2), (DATE, day("2026-05-04")))
    yield Sample(call("round_temporal", DATE, *week, enums=("FLOOR", "WEEK")), dt.date(2026, 5, 4))
    yield Sample(
        call("round_temporal", DATE, *week, enums=("ROUND_TIE_UP", "WEEK")), dt.date(2026, 5, 18)
    )
    for multiple in (0, -1):
        bad = ((TS, 0), (I64, multiple), (TS, 0))
        yield Sample(call("round_temporal", TS, *bad, enums=("FLOOR", "DAY")), FAILS)
    for hole in range(3):
        given: list[tuple[Type, Any]] = [(TS, 0), (I64, 1), (TS, 0)]
        given[hole] = (given[hole][0], None)
        yield Sample(call("round_temporal", TS, *given, enums=("FLOOR", "MONTH")), None)
        yield Sample(call("round_temporal", TS, *given, enums=("FLOOR", "DAY")), None)


def rounded_clocks() -> Iterator[Sample]:
    """Times of day, and multiples that are counted from the last unit of the calendar."""

    def of_day(name: str, text: str, *rest: Any, enums: tuple[str, ...]) -> Call:
        made = call(name, TIME, (TIME, clock(text)), (I64, 15), *rest, enums=enums)
        return call("strftime", STRING, made, (STRING, "%T"))

    noon = (TIME, clock("12:00:00"))
    yield Sample(of_day("round_temporal", "10:50:00", noon, enums=("FLOOR", "MINUTE")), "10:45:00")
    yield Sample(of_day("round_temporal", "10:50:00", noon, enums=("CEIL", "MINUTE")), "11:00:00")
    yield Sample(of_day("round_temporal", "23:59:00", noon, enums=("CEIL", "MINUTE")), FAILS)
    yield Sample(
        of_day("round_calendar", "10:50:00", enums=("FLOOR", "SECOND", "HOUR")), "10:50:00"
    )
    yield Sample(
        of_day("round_calendar", "10:50:59", enums=("FLOOR", "MINUTE", "HOUR")), "10:45:00"
    )
    for text, unit, start, multiple, wanted in (
        ("2026-05-17T10:30:00", "DAY", "MONTH", 10, "2026-05-11T00:00:00"),
        ("2026-05-17T10:30:00", "MONTH", "YEAR", 3, "2026-04-01T00:00:00"),
        ("2026-05-17T10:30:00", "DAY", "MONDAY_WEEK", 2, "2026-05-17T00:00:00"),
        ("2026-05-16T10:30:00", "DAY", "US_WEEK", 4, "2026-05-14T00:00:00"),
        ("2026-05-17T10:30:00", "WEEK", "YEAR", 1, "2026-05-14T00:00:00"),
        ("2026-05-17T10:30:00", "YEAR", "MONTH", 1, "2026-05-01T00:00:00"),
    ):  # fmt: skip
        made = call(
            "round_calendar", TS, (TS, ticks(text)), (I64, multiple), enums=("FLOOR", unit, start)
        )
        yield Sample(made, dt.datetime.fromisoformat(wanted))
