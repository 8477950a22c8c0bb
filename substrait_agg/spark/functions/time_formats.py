"""Build ``strftime`` and ``strptime`` functions from the pieces of a constant format.

Names of months and days are English.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.functions.scalars.time_formats import (
    DAYS,
    MONTHS,
    Piece,
    parse_reading,
    parse_writing,
    pattern,
)
from substrait_agg.spark.functions.parts import Arguments, Builder, failure
from substrait_agg.spark.functions.time import COMPONENTS, UTC, instant, local_time, offset_seconds

_SECONDS_OF_HOUR = 3600


def _pad(number: Column, width: int = 2, filler: str = "0") -> Column:
    return F.lpad(number.cast("string"), width, filler)


def _component(name: str) -> Callable[[Column], Column]:
    return COMPONENTS[name]


def _two(name: str) -> Callable[[Column], Column]:
    return lambda x: _pad(COMPONENTS[name](x))


def _name(names: tuple[str, ...], name: str) -> Callable[[Column], Column]:
    texts = F.array(*map(F.lit, names))
    return lambda x: F.get(texts, (COMPONENTS[name](x) - 1).cast("int"))


def _twelve(x: Column) -> Column:
    return F.pmod(COMPONENTS["HOUR"](x) + 11, F.lit(12)) + 1


def _half(before: str, after: str) -> Callable[[Column], Column]:
    hour = COMPONENTS["HOUR"]
    return lambda x: F.when(hour(x) < 12, F.lit(before)).when(hour(x) >= 12, F.lit(after))


def _of_century(name: str) -> Callable[[Column], Column]:
    return lambda x: _pad(F.pmod(COMPONENTS[name](x), F.lit(100)))


def _week(x: Column, *, first: int) -> Column:
    """Return the number of weeks since the first weekday `first` (0 is Sunday) of the year.

    Days before it have the number 00.
    """
    passed = F.pmod(F.dayofweek(x) - 1 - first, F.lit(7))
    return _pad(F.call_function("div", F.dayofyear(x) + 6 - passed, F.lit(7)))


def _initials(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name[:3] for name in names)


def _list_writers() -> Mapping[str, Callable[[Column], Column]]:
    """Return the writers of conversions: character -> text column of a zoneless time."""
    return {
        "Y": lambda x: COMPONENTS["YEAR"](x).cast("string"),
        "G": lambda x: COMPONENTS["ISO_YEAR"](x).cast("string"),
        "C": lambda x: _pad(F.call_function("div", COMPONENTS["YEAR"](x), F.lit(100))),
        "y": _of_century("YEAR"),
        "g": _of_century("ISO_YEAR"),
        "m": _two("MONTH"),
        "d": _two("DAY"),
        "e": lambda x: _pad(COMPONENTS["DAY"](x), filler=" "),
        "j": lambda x: _pad(COMPONENTS["DAY_OF_YEAR"](x), 3),
        "b": _name(_initials(MONTHS), "MONTH"),
        "B": _name(MONTHS, "MONTH"),
        "a": _name(_initials(DAYS), "SUNDAY_DAY_OF_WEEK"),
        "A": _name(DAYS, "SUNDAY_DAY_OF_WEEK"),
        "u": lambda x: COMPONENTS["MONDAY_DAY_OF_WEEK"](x).cast("string"),
        "w": lambda x: (COMPONENTS["SUNDAY_DAY_OF_WEEK"](x) - 1).cast("string"),
        "U": partial(_week, first=0),
        "W": partial(_week, first=1),
        "V": _two("ISO_WEEK"),
        "H": _two("HOUR"),
        "k": lambda x: _pad(COMPONENTS["HOUR"](x), filler=" "),
        "I": lambda x: _pad(_twelve(x)),
        "l": lambda x: _pad(_twelve(x), filler=" "),
        "M": _two("MINUTE"),
        "S": _two("SECOND"),
        "p": _half("AM", "PM"),
        "P": _half("am", "pm"),
    }


def _offset(seconds: Column) -> Column:
    """Return an offset as ``+hhmm``, truncated to minutes."""
    size = F.abs(seconds)
    hours, minutes = (
        F.call_function("div", size, F.lit(_SECONDS_OF_HOUR)),
        F.call_function("div", F.pmod(size, F.lit(_SECONDS_OF_HOUR)), F.lit(60)),
    )
    sign = F.when(seconds < 0, F.lit("-")).otherwise(F.lit("+"))
    return F.concat(sign, _pad(hours), _pad(minutes))


def _strftime(args: Arguments) -> Column:
    format, kind = args.constant(1), args.type(0).kind
    if format is None:
        return F.lit(None).cast("string")
    point = args[0].cast("timestamp_ntz") if kind == "date" else args[0]
    if kind == "precision_timestamp_tz":
        point = local_time(args[0], args[2])
    written = _list_writers()
    parts: list[Column] = []
    for piece in parse_writing(str(format), kind):
        if piece.conversion == "s":
            parts.append(F.unix_seconds(args[0]).cast("string"))
        elif piece.conversion == "z":
            parts.append(_offset(offset_seconds(args[0], args[2])))
        elif piece.conversion:
            parts.append(written[piece.conversion](point))
        else:
            parts.append(F.lit(piece.text))
    # If the time is null, the result is null even for a format without conversions.
    return F.when(point.isNotNull(), F.concat(F.lit(""), *parts))


class _Fields:
    """The fields that a format reads from a text; each is null if the text is null."""

    def __init__(self, text: Column, format_pieces: tuple[Piece, ...]) -> None:
        self.wanted, self.groups = pattern(format_pieces)
        what = "a text does not have the format of a strptime function"
        error = failure("DOMAIN_ERROR", what).cast("string")
        self.text = F.when(~F.rlike(text, F.lit(self.wanted)), error).otherwise(text)

    def write(self, conversion: str) -> Column | None:
        """Return the text of a conversion, or None if the format does not contain it."""
        if conversion not in self.groups:
            return None
        group = F.lit(self.groups[conversion])
        return F.call_function("regexp_extract", self.text, F.lit(self.wanted), group)

    def number(self, conversion: str) -> Column | None:
        """Return the number of a conversion, or None if the format does not contain it."""
        written = self.write(conversion)
        return None if written is None else written.cast("int")

    def month(self) -> Column | None:
        """Return the month, from its number or name; None if the format contains neither."""
        name = self.write("b")
        if name is None:
            return self.number("m")
        initials = F.array(*(F.lit(n[:3].lower()) for n in MONTHS))
        return F.array_position(initials, F.lower(F.left(name, F.lit(3)))).cast("int")

    def year(self) -> Column:
        """Return the year. Two digits mean 1969 to 2068, as in POSIX."""
        short = self.number("y")
        if short is not None:
            return F.when(short >= 69, short + 1900).otherwise(short + 2000)
        year = self.number("Y")
        return F.lit(None).cast("int") if year is None else year

    def date(self) -> Column:
        """Return the date; fail if it does not exist."""
        month, day, year = self.month(), self.number("d"), self.year()
        if month is not None and day is not None:
            return F.make_date(year, month, day)
        ordinal = self.number("j")
        first = F.make_date(year, F.lit(1), F.lit(1))
        resolved = F.date_add(first, (ordinal if ordinal is not None else F.lit(None)) - 1)
        outside = F.year(resolved) != year
        error = failure("DOMAIN_ERROR", "a year does not have this day").cast("date")
        return F.when(outside, error).otherwise(resolved)

    def hour(self) -> Column:
        """Return the hour of the day."""
        twelve, half = self.number("I"), self.write("p")
        if twelve is None:
            hour = self.number("H")
            return F.lit(0) if hour is None else hour
        error = failure("DOMAIN_ERROR", "an hour is not in the range 1 to 12").cast("int")
        hour = F.when((twelve < 1) | (twelve > 12), error).otherwise(F.pmod(twelve, F.lit(12)))
        return hour if half is None else F.when(F.upper(half) == "PM", hour + 12).otherwise(hour)

    def time(self) -> tuple[Column, Column, Column]:
        """Return hour, minute and second; those that the format does not contain are 0."""
        minute, second = self.number("M"), self.number("S")
        zero = F.lit(0)
        return (
            self.hour(),
            zero if minute is None else minute,
            (zero if second is None else second).cast("decimal(8,6)"),
        )

    def ahead(self) -> Column | None:
        """Return the seconds of the offset ahead of UTC, or None if the format has no offset."""
        written = self.write("z")
        if written is None:
            return None
        digits = F.rpad(F.regexp_replace(written, "[^0-9]", ""), 4, "0")
        minutes = F.left(digits, F.lit(2)).cast("int") * 60 + F.right(digits, F.lit(2)).cast("int")
        return F.when(F.startswith(written, F.lit("-")), -minutes).otherwise(minutes) * 60


def _fields(args: Arguments, kind: str, *, zoned: bool = False) -> _Fields | None:
    format = args.constant(1)
    return (
        None if format is None else _Fields(args[0], parse_reading(str(format), kind, zoned=zoned))
    )


def _strptime_date(args: Arguments) -> Column:
    fields = _fields(args, "date")
    return F.lit(None) if fields is None else fields.date()


def _strptime_time(args: Arguments) -> Column:
    fields = _fields(args, "precision_time")
    if fields is None:
        return F.lit(None)
    return F.when(args[0].isNotNull(), F.call_function("make_time", *fields.time()))


def _strptime_timestamp(args: Arguments) -> Column:
    zoned = len(args) > 3
    fields = _fields(args, "precision_timestamp_tz", zoned=zoned)
    if fields is None:
        return F.lit(None)
    day = fields.date()
    parts = (F.year(day), F.month(day), F.day(day), *fields.time())
    local = F.call_function("make_timestamp_ntz", *parts)
    ahead = fields.ahead()
    if ahead is not None:
        local = F.timestamp_add("SECOND", -ahead, local)
    return instant(local, args[2] if zoned else F.lit(UTC))


FORMATS: dict[str, Builder] = {
    "strftime": _strftime,
    "strptime_date": _strptime_date,
    "strptime_time": _strptime_time,
    "strptime_timestamp": _strptime_timestamp,
}
"""Function with a format -> its builder."""
