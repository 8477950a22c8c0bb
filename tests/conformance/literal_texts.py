"""Literals in the syntax of the test files, as values of `substrait_agg.plan.model.Literal`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any

from substrait_agg.plan.types import Type

_EXACT = Context(prec=100)
_DAY = 86_400
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d(?:\.\d+)?)")
_ZONE = re.compile(r"[+-]\d\d:\d\d$")
_INTERVAL = re.compile(
    r"P(?:([+-]?\d+)Y)?(?:([+-]?\d+)M)?(?:([+-]?\d+)D)?"
    r"(?:T(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?[\d.]+)S)?)?",
    re.IGNORECASE,
)


def value_of(text: str, type_: Type) -> Any:
    """The value of one plain literal.

    Raises:
        ValueError: the text is no value of the type.
    """
    if text.lower() == "null":
        return None
    if type_.kind not in _READERS:
        message = f"no literal is read for the type {type_}"
        raise ValueError(message)
    return _READERS[type_.kind](text, type_)


def _integer(text: str, _type: Type) -> int:
    return int(text)


def _float(text: str, _type: Type) -> float:
    return float(text.lower().replace("snan", "nan"))


def _text(text: str, _type: Type) -> str:
    # A backslash is an ordinary character except before a quote, as in patterns such as '\d+'.
    return re.sub(r"\\'|''", "'", text[1:-1])


def _ticks(seconds: str, digits: int) -> int:
    """A number of seconds in 10^-digits seconds."""
    return int(_EXACT.scaleb(Decimal(seconds), digits))


def _per_second(type_: Type) -> int:
    ticks: int = 10 ** type_.params[0]
    return ticks


def _decimal(text: str, type_: Type) -> int:
    return int(_EXACT.scaleb(Decimal(text), type_.params[1]).to_integral_value())


def _date(text: str, _type: Type) -> int:
    return date.fromisoformat(text).toordinal() - _EPOCH_ORDINAL


def _time(text: str, type_: Type) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        message = f"{text} is no time"
        raise ValueError(message)
    whole = int(found[1]) * 3600 + int(found[2]) * 60
    return whole * _per_second(type_) + _ticks(found[3], type_.params[0])


def _timestamp(text: str, type_: Type) -> int:
    day, _, time = text.upper().partition("T")
    return _date(day, type_) * _DAY * _per_second(type_) + _time(time, type_)


def _instant(text: str, type_: Type) -> int:
    zone = _ZONE.search(text)
    if zone is None:
        message = f"{text} has no zone"
        raise ValueError(message)
    local = _timestamp(text[: zone.start()], type_)
    offset = datetime.fromisoformat(f"2000-01-01T00:00:00{zone[0]}").utcoffset()
    seconds = 0 if offset is None else int(offset.total_seconds())
    return local - seconds * _per_second(type_)


def _interval(text: str, type_: Type) -> Any:
    """Months, (days, ticks) or (months, days, ticks), by the type."""
    found = _INTERVAL.fullmatch(text)
    if found is None:
        message = f"{text} is no interval"
        raise ValueError(message)
    years, months, days, hours, minutes = (int(part or 0) for part in found.groups()[:5])
    total = years * 12 + months
    if type_.kind == "interval_year":
        return total
    digits = type_.params[0]
    ticks = (hours * 3600 + minutes * 60) * 10**digits + _ticks(found[6] or "0", digits)
    return (days, ticks) if type_.kind == "interval_day" else (total, days, ticks)


_READERS: dict[str, Callable[[str, Type], Any]] = {
    **dict.fromkeys(("i8", "i16", "i32", "i64"), _integer),
    **dict.fromkeys(("u8", "u16", "u32", "u64"), lambda text, _type: int(text.strip("'"))),
    **dict.fromkeys(("fp32", "fp64"), _float),
    **dict.fromkeys(("string", "varchar", "fixedchar"), _text),
    **dict.fromkeys(("binary", "fixedbinary"), lambda text, type_: _text(text, type_).encode()),
    **dict.fromkeys(("interval_year", "interval_day", "interval_compound"), _interval),
    "bool": lambda text, _type: text.lower() == "true",
    "decimal": _decimal,
    "date": _date,
    "precision_time": _time,
    "precision_timestamp": _timestamp,
    "precision_timestamp_tz": _instant,
}
