"""Read ISO 8601 text literals that are compared with dates and times as values of those types."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date

from substrait_agg.bind.bound import Constant, Expr
from substrait_agg.bind.context import MAX_TIME_DIGITS, BindContext
from substrait_agg.bind.conversions import is_null
from substrait_agg.bind.show import show
from substrait_agg.functions.signatures.derive import TEXTS, common_type
from substrait_agg.plan.types import Type

_EPOCH = date(1970, 1, 1).toordinal()
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400

_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d)(:(?P<second>\d\d)(\.(?P<fraction>\d+))?)?"
_OFFSET = r"(?P<offset>Z|(?P<sign>[+-])(?P<hours>\d\d)(:?(?P<minutes>\d\d))?)"
_TIME = re.compile(_CLOCK, re.ASCII)
_POINT = re.compile(
    rf"(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d)([T ]{_CLOCK}{_OFFSET}?)?",
    re.ASCII | re.IGNORECASE,
)


class _Invalid(Exception):
    """A text that is not a value of the type. The message gives the reason."""


def read_time_texts(
    what: str, values: Sequence[Expr], paths: Sequence[str], context: BindContext
) -> tuple[Expr, ...] | None:
    """Read the text literals among compared values as dates or times.

    Values change only if all of them are dates and times of one kind, text literals, or nulls.

    Args:
        what: the construct that compares the values, for messages.
        values: bound values.
        paths: path of each value.
        context: collects the problems; the conversion is reported at the first text.

    Returns:
        The values, or None after a text has been reported as invalid.
    """
    texts = [i for i, v in enumerate(values) if _is_text(v)]
    others = [v.type for i, v in enumerate(values) if i not in texts and not is_null(v)]
    if not texts or not others or any(t.kind not in _READERS for t in others):
        return tuple(values)
    target = common_type(tuple(others))
    if target is None:
        return tuple(values)
    read = list(values)
    valid = [_read(i, target, read, paths, context) for i in texts]
    if not all(valid):
        return None
    first = texts[0]
    zone = " UTC" if target.kind == "precision_timestamp_tz" else ""
    context.report(
        "TEXT_READ_AS_TIME", paths[first],
        what=what, type=target.as_nullable(False), text=show(values[first]), value=show(read[first]) + zone,
    )  # fmt: skip
    return tuple(read)


def _is_text(value: Expr) -> bool:
    return isinstance(value, Constant) and value.type.kind in TEXTS and value.value is not None


def _read(
    position: int, target: Type, values: list[Expr], paths: Sequence[str], context: BindContext
) -> bool:
    """Replace a text by its value. Report an invalid text and return False."""
    constant = values[position]
    if not isinstance(constant, Constant):
        return True
    try:
        type_, value = _READERS[target.kind](str(constant.value).strip(), target)
    except _Invalid as reason:
        context.report(
            "TIME_TEXT_INVALID", paths[position],
            text=show(constant), type=target.as_nullable(False), reason=reason,
        )  # fmt: skip
        return False
    values[position] = Constant(type_.as_nullable(constant.type.nullable), value)
    return True


# --- one reader per kind of type: (text, type that it is compared with) -> type and value --------


def _date(text: str, target: Type) -> tuple[Type, int]:
    match = _match(_POINT, text, "2026-01-31")
    seconds, fraction, offset = _seconds(match)
    if offset is not None or fraction or seconds % _DAY:
        raise _Invalid("it has a time of day")
    return target, seconds // _DAY


def _timestamp(text: str, target: Type) -> tuple[Type, int]:
    match = _match(_POINT, text, "2026-01-31 10:30:00")
    seconds, fraction, offset = _seconds(match)
    if offset is not None:
        raise _Invalid("it has an offset from UTC")
    return _ticks(seconds, fraction, target)


def _instant(text: str, target: Type) -> tuple[Type, int]:
    match = _match(_POINT, text, "2026-01-31T10:30:00Z")
    seconds, fraction, offset = _seconds(match)
    return _ticks(seconds - (offset or 0), fraction, target)


def _time(text: str, target: Type) -> tuple[Type, int]:
    match = _match(_TIME, text, "10:30:00")
    return _ticks(_clock(match), _fraction(match), target)


_READERS: dict[str, Callable[[str, Type], tuple[Type, int]]] = {
    "date": _date,
    "precision_timestamp": _timestamp,
    "precision_timestamp_tz": _instant,
    "precision_time": _time,
}


def _match(pattern: re.Pattern[str], text: str, example: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise _Invalid(f"it is not written as {example}")
    return match


def _seconds(match: re.Match[str]) -> tuple[int, str, int | None]:
    """Return the seconds since 1970, the digits of their fraction, and the offset in seconds.

    The seconds do not include the offset.
    """
    try:
        day = date(*(int(match[part]) for part in ("year", "month", "day"))).toordinal()
    except ValueError:
        raise _Invalid("there is no such day") from None
    return (day - _EPOCH) * _DAY + _clock(match), _fraction(match), _offset(match)


def _clock(match: re.Match[str]) -> int:
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise _Invalid("there is no such time of day")
    return hour * _HOUR + minute * _MINUTE + second


def _fraction(match: re.Match[str]) -> str:
    """Return the digits of the fraction of a second without trailing zeros."""
    digits = (match["fraction"] or "").rstrip("0")
    if len(digits) > MAX_TIME_DIGITS:
        raise _Invalid("it has digits finer than a microsecond")
    return digits


def _offset(match: re.Match[str]) -> int | None:
    if match["offset"] is None:
        return None
    hours, minutes = int(match["hours"] or 0), int(match["minutes"] or 0)
    if hours > 18 or minutes > 59:
        raise _Invalid("there is no such offset from UTC")
    seconds = hours * _HOUR + minutes * _MINUTE
    return -seconds if match["sign"] == "-" else seconds


def _ticks(seconds: int, fraction: str, target: Type) -> tuple[Type, int]:
    """Return a value of the type. Its type gets more digits if the text has more."""
    digits = max(target.params[0], len(fraction))
    ticks = seconds * 10**digits + int(fraction.ljust(digits, "0") or 0)
    return replace(target, params=(digits,)), ticks
