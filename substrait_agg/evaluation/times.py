"""Compute functions of dates and timestamps in the proleptic Gregorian calendar, in UTC.

Arrow's own calendar functions are not used: they are only right for years of 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.bind.bound import Call
from substrait_agg.bind.rewrite import call_durations
from substrait_agg.evaluation.columns import array, null_unless, numbers, valid
from substrait_agg.evaluation.constants import arrow_type
from substrait_agg.evaluation.kernels import Kernel, KernelArguments, Kernels, constant_of
from substrait_agg.functions.windows import windows_per_row

Ints = npt.NDArray[np.int64]

DAY = 86_400_000_000
"""Microseconds of a day."""
_POINTS = ("date", "precision_timestamp", "precision_timestamp_tz")
_ERA_DAYS, _ERA_YEARS = 146_097, 400
_EPOCH_FROM_MARCH = 719_468
"""Days from 0000-03-01 to 1970-01-01."""


def civil(days: Ints) -> tuple[Ints, Ints, Ints]:
    """Return year, month and day of days since 1970-01-01.

    Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", ``civil_from_days``.
    """
    era, day = np.divmod(days + _EPOCH_FROM_MARCH, _ERA_DAYS)
    year: Ints = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    of_year = day - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day_of_month = of_year - (153 * month + 2) // 5 + 1
    month = np.where(month < 10, month + 3, month - 9)
    year = year + era * _ERA_YEARS + (month <= 2)
    return year, month, day_of_month


def first_day(year: Ints, month: Ints) -> Ints:
    """Return the days since 1970-01-01 of the first of a month, as ``days_from_civil`` of the source above."""
    year = year - (month <= 2)
    era, of_era = np.divmod(year, _ERA_YEARS)
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5
    of_era = of_era * 365 + of_era // 4 - of_era // 100 + of_year
    days: Ints = of_era + era * _ERA_DAYS - _EPOCH_FROM_MARCH
    return days


def _week_day(days: Ints) -> Ints:
    """Return the day of the week, 0 for Monday."""
    return (days + 3) % 7


def _day_of_year(days: Ints) -> Ints:
    year, _, _ = civil(days)
    return days - first_day(year, np.ones_like(year)) + 1


def _iso_thursday(days: Ints) -> Ints:
    return days - _week_day(days) + 3


Part = Callable[[Ints, Ints], Ints]
"""Takes days since 1970-01-01 and microseconds of the day."""

_MINUTE, _SECOND = 60_000_000, 1_000_000


def _of_minute(modulo: int, unit: int) -> Part:
    return lambda _days, micros: micros % _MINUTE % modulo // unit


_YEAR: Part = lambda days, _micros: civil(days)[0]  # noqa: E731
_QUARTER: Part = lambda days, _micros: (civil(days)[1] + 2) // 3  # noqa: E731
_MONTH: Part = lambda days, _micros: civil(days)[1]  # noqa: E731
_DAY: Part = lambda days, _micros: civil(days)[2]  # noqa: E731
_DAY_OF_YEAR: Part = lambda days, _micros: _day_of_year(days)  # noqa: E731
_ISO_WEEK: Part = lambda days, _micros: (_day_of_year(_iso_thursday(days)) + 6) // 7  # noqa: E731
_ISO_DAY: Part = lambda days, _micros: _week_day(days) + 1  # noqa: E731
_HOUR: Part = lambda _days, micros: micros // (60 * _MINUTE)  # noqa: E731
_OF_HOUR: Part = lambda _days, micros: micros // _MINUTE % 60  # noqa: E731

COMPONENTS: dict[str, Part] = {
    "YEAR": _YEAR,
    "ISO_YEAR": lambda days, _micros: civil(_iso_thursday(days))[0],
    "QUARTER": _QUARTER,
    "MONTH": _MONTH,
    "DAY": _DAY,
    "DAY_OF_YEAR": _DAY_OF_YEAR,
    "MONDAY_DAY_OF_WEEK": _ISO_DAY,
    "SUNDAY_DAY_OF_WEEK": lambda days, _micros: (days + 4) % 7 + 1,
    "ISO_WEEK": _ISO_WEEK,
    "HOUR": _HOUR,
    "MINUTE": _OF_HOUR,
    "SECOND": _of_minute(_MINUTE, _SECOND),
    "MILLISECOND": _of_minute(_SECOND, 1_000),
    "MICROSECOND": _of_minute(1_000, 1),
    "SUBSECOND": _of_minute(_SECOND, 1),
    "UNIX_TIME": lambda days, micros: days * 86_400 + micros // _SECOND,
}
"""Component of `extract` -> its value, counted from 1 where it can count from 0 or 1."""

_COUNTED = frozenset(
    {
        "QUARTER",
        "MONTH",
        "DAY",
        "DAY_OF_YEAR",
        "MONDAY_DAY_OF_WEEK",
        "SUNDAY_DAY_OF_WEEK",
        "ISO_WEEK",
    }
)

PARTS: dict[str, Part] = {
    "year": _YEAR,
    "quarter": _QUARTER,
    "month": _MONTH,
    "week": _ISO_WEEK,
    "day": _DAY,
    "doy": _DAY_OF_YEAR,
    "dow": lambda days, _micros: (days + 4) % 7,
    "isodow": _ISO_DAY,
    "hour": _HOUR,
    "minute": _OF_HOUR,
    "second": _of_minute(_MINUTE, _SECOND),
    "millisecond": _of_minute(_MINUTE, 1_000),
    "microsecond": _of_minute(_MINUTE, 1),
}
"""Word of `date_part` -> its value."""


def split(column: pa.Array) -> tuple[Ints, Ints]:
    """Return days since 1970-01-01 and microseconds of the day of a column of points in time."""
    ticks = numbers(column).astype(np.int64)
    if pa.types.is_date(column.type):
        return ticks, np.zeros_like(ticks)
    days, micros = np.divmod(ticks, DAY)
    return days, micros


def _component(call: Call) -> str:
    return call.enums[0][1]


def _can_extract(call: Call) -> bool:
    # A zone other than UTC has offsets.
    in_utc = all(constant_of(call, i) == "UTC" for i in range(1, len(call.arguments)))
    has_component = bool(call.enums) and _component(call) in COMPONENTS
    return call.arguments[0].type.kind in _POINTS and in_utc and has_component


def _extract(args: KernelArguments) -> pa.Array:
    component = _component(args.call)
    component_values = COMPONENTS[component](*split(args[0]))
    from_zero = any(word == "ZERO" for _, word in args.call.enums[1:])
    less = 1 if from_zero and component in _COUNTED else 0
    return pc.cast(array(component_values - less, pa.int64(), valid(args[0])), args.result)


def _can_part(call: Call) -> bool:
    return call.arguments[1].type.kind in _POINTS and constant_of(call, 0) in PARTS


def _date_part(args: KernelArguments) -> pa.Array:
    part_values = PARTS[args.constant(0)](*split(args[1]))
    return pc.cast(array(part_values, pa.int64(), valid(args[1])), args.result)


# --- texts --------------------------------------------------------------------------------------


def _pad(numbers_: Ints, digits: int) -> pa.Array:
    return pc.utf8_lpad(pc.cast(pa.array(numbers_), pa.string()), digits, "0")


def _join(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(""))


def date_texts(days: Ints) -> pa.Array:
    """Return days as ISO dates; years beyond four digits have a sign, as have those before 0."""
    year, month, day = civil(days)
    sign = pa.array(np.where(year < 0, "-", np.where(year > 9999, "+", "")))
    dash = pa.scalar("-")
    return _join(sign, _pad(np.abs(year), 4), dash, _pad(month, 2), dash, _pad(day, 2))


def time_texts(micros: Ints) -> pa.Array:
    """Return microseconds of the day as ISO times, without zeros at the end of a fraction."""
    seconds, fraction = np.divmod(micros, _SECOND)
    colon = pa.scalar(":")
    digits = pc.ascii_rtrim(_join(pa.scalar("."), _pad(fraction, 6)), "0")
    behind = pc.if_else(pa.array(fraction > 0), digits, pa.scalar(""))
    parts = [_pad(part, 2) for part in (seconds // 3600, seconds // 60 % 60, seconds % 60)]
    return _join(parts[0], colon, parts[1], colon, parts[2], behind)


def texts(column: pa.Array) -> pa.Array:
    """Return dates and timestamps as ISO text."""
    days, micros = split(column)
    result = date_texts(days)
    if not pa.types.is_date(column.type):
        result = _join(result, pa.scalar(" "), time_texts(micros))
    return null_unless(pc.is_valid(column), result)


# --- truncation ---------------------------------------------------------------------------------


def _first_month(days: Ints, *, months: int) -> Ints:
    year, month, _ = civil(days)
    return first_day(year, (month - 1) // months * months + 1)


_FIRST_DAYS: dict[str, Callable[[Ints], Ints]] = {
    "year": partial(_first_month, months=12),
    "quarter": partial(_first_month, months=3),
    "month": partial(_first_month, months=1),
    "week": lambda days: days - _week_day(days),
}


def _can_truncate(call: Call) -> bool:
    return call.arguments[1].type.kind == "date" and constant_of(call, 0) is not None


def _date_trunc(args: KernelArguments) -> pa.Array:
    first = _FIRST_DAYS.get(args.constant(0))
    return args[1] if first is None else dates(first(split(args[1])[0]), args[1])


def dates(days: Ints, *columns: pa.Array) -> pa.Array:
    """Return days as dates, null where one of the columns is null; fail outside of 32 bits."""
    return pc.cast(array(days, pa.int64(), valid(*columns)), pa.int32()).view(pa.date32())


# --- points in time plus or minus intervals -----------------------------------------------------


def months_later(days: Ints, months: Ints) -> Ints:
    """Return days moved by months, at most to the last day of the month."""
    year, month, day = civil(days)
    ahead, left = np.divmod(month - 1 + months, 12)
    first = first_day(year + ahead, left + 1)
    following, over = np.divmod(left + 1, 12)
    length = first_day(year + ahead + following, over + 1) - first
    last: Ints = np.minimum(day, length)
    return first + last - 1


def timestamps(days: Ints, micros: Ints, type_: pa.DataType, *columns: pa.Array) -> pa.Array:
    """Return days and microseconds of the day as timestamps; fail outside of 64 bits."""
    is_valid, before = valid(*columns), days < 0
    # Before 1970 count back from the end of the day, so that only the sum can overflow.
    days, micros = np.where(before, days + 1, days), np.where(before, micros - DAY, micros)
    whole = pc.multiply_checked(array(days, pa.int64(), is_valid), pa.scalar(DAY, pa.int64()))
    return pc.add_checked(whole, array(micros, pa.int64(), is_valid)).view(type_)


def _sign(interval: pa.Array, sign: int) -> pa.Array:
    return interval if sign > 0 else pc.negate_checked(interval)


def _moved_by_months(args: KernelArguments, *, sign: int) -> pa.Array:
    """Add months; a day that the month lacks becomes its last day."""
    days, micros = split(args[0])
    moved = months_later(days, numbers(_sign(args[1], sign)).astype(np.int64))
    if args.type(0).kind == "date":
        return dates(moved, args[0], args[1])
    return timestamps(moved, micros, args.result, args[0], args[1])


def as_timestamps(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return dates as timestamps at midnight; fail outside of 64 bits."""
    days, micros = split(column)
    return timestamps(days, micros, type_, column)


def as_dates(column: pa.Array) -> pa.Array:
    """Return the dates of timestamps."""
    return dates(split(column)[0], column)


def _moved_by_days(args: KernelArguments, *, sign: int) -> pa.Array:
    """Add an interval of days and microseconds."""
    point = args[0]
    if args.type(0).kind == "date":
        point = as_timestamps(point, pa.timestamp("us"))
    interval = _sign(args[1].view(pa.int64()), sign)
    ticks = pc.add_checked(point.view(pa.int64()), interval).view(point.type)
    return as_dates(ticks) if args.call.type.kind == "date" else ticks.view(args.result)


def _moves(call: Call, interval: str) -> bool:
    kinds = [argument.type.kind for argument in call.arguments]
    convertible = all(arrow_type(t) for t in (call.type, *(a.type for a in call.arguments)))
    return len(kinds) == 2 and kinds[0] in _POINTS and kinds[1] == interval and convertible


def _by_months(call: Call) -> bool:
    return _moves(call, "interval_year") and call.type.kind == call.arguments[0].type.kind


def _by_days(call: Call) -> bool:
    kind = call.arguments[0].type.kind
    results = ("date", "precision_timestamp") if kind == "date" else (kind,)
    return _moves(call, "interval_day") and call.type.kind in results


def _move(sign: int) -> tuple[Kernel, ...]:
    return (
        Kernel(_by_months, partial(_moved_by_months, sign=sign)),
        Kernel(_by_days, partial(_moved_by_days, sign=sign)),
    )


TIME: Kernels = {
    "extract": (Kernel(_can_extract, _extract),),
    "date_part": (Kernel(_can_part, _date_part),),
    "date_trunc": (Kernel(_can_truncate, _date_trunc),),
}

MOVES: Kernels = {"add": _move(1), "subtract": _move(-1)}
"""Kernels of functions that are also those of numbers."""


# --- windows over time, as `spark.functions.windows` has them, in microseconds since 1970 in UTC --------


def _is_window(call: Call) -> bool:
    time = call.arguments[0].type
    return (
        time.kind in _POINTS[1:]
        and arrow_type(time) is not None
        and arrow_type(call.type) is not None
    )


def _last_start(micros: pa.Array, slide: int, offset: int) -> pa.Array:
    """Return the greatest offset + k * slide that is not after a time."""
    since = np.mod(np.mod(numbers(micros), slide) - offset % slide, slide)
    return pc.subtract_checked(micros, pa.array(since))


def _window(start: pa.Array, size: int, type_: pa.DataType) -> pa.Array:
    """Return windows as structs of their start and end, null where the start is null."""
    edges = (start, pc.add_checked(start, pa.scalar(size, pa.int64())))
    fields = [edge.view(field.type) for edge, field in zip(edges, type_, strict=True)]
    return pa.StructArray.from_arrays(fields, fields=[*type_], mask=pc.is_null(start))


def _start_of(start: pa.Array, _size: int, type_: pa.DataType) -> pa.Array:
    return start.view(type_)


def _end_of(start: pa.Array, size: int, type_: pa.DataType) -> pa.Array:
    return pc.add_checked(start, pa.scalar(size, pa.int64())).view(type_)


def _tumble(
    arguments: KernelArguments, edge: Callable[[pa.Array, int, pa.DataType], pa.Array]
) -> pa.Array:
    size, offset = (*call_durations(arguments.call.arguments), 0)[:2]
    start = _last_start(arguments[0].view(pa.int64()), size, offset)
    return edge(start, size, arguments.result)


def hop(call: Call, times: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the windows of a `hop` with each time; a null time has one window, which is null.

    Args:
        call: the call, whose first argument `WINDOWS` can compute as a time.
        times: the values of its first argument.

    Returns:
        The ordinals of times (int64), and a window of each.

    Raises:
        ArrowInvalid: a window begins or ends outside of 64 bits.
    """
    size, slide, offset = (*call_durations(call.arguments), 0)[:3]
    micros = times.view(pa.int64())
    count = windows_per_row(size, slide)
    ordinals = np.repeat(np.arange(len(times)), count)
    before = pa.array(np.tile(np.arange(count) * slide, len(times)))
    starts = pc.subtract_checked(
        _last_start(micros, slide, offset).take(pa.array(ordinals)), before
    )
    ends = pc.add_checked(starts, pa.scalar(size, pa.int64()))
    # The earliest window may end before the row.
    has_time = pc.greater(ends, micros.take(pa.array(ordinals)))
    first = pa.array(np.arange(len(ordinals)) % count == 0)
    inside = pc.if_else(pc.is_null(starts), first, has_time)
    return pa.array(ordinals).filter(inside), _window(
        starts.filter(inside), size, arrow_type(call.type)
    )


WINDOWS: Kernels = {
    "tumble": (Kernel(_is_window, partial(_tumble, edge=_window)),),
    "tumble_start": (Kernel(_is_window, partial(_tumble, edge=_start_of)),),
    "tumble_end": (Kernel(_is_window, partial(_tumble, edge=_end_of)),),
}
