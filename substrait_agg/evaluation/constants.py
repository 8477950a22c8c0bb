"""Convert constants of a plan to Arrow scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from substrait_agg.bind.bound import Constant
from substrait_agg.errors import UsageError
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import Type

MAX_DIGITS = 6
"""Most digits of a second: Spark stores microseconds."""
_DAY = 86_400_000_000
_TIMES = ("precision_time", "precision_timestamp", "precision_timestamp_tz", "interval_day")


def arrow_type(type_: Type) -> Any:
    """Return the Arrow type of values that Spark can represent; None without one."""
    if type_.kind in _TIMES and not 0 <= type_.params[0] <= MAX_DIGITS:
        return None
    try:
        return to_arrow(type_)
    except UsageError:
        return None


def decimal_value(unscaled: int, scale: int) -> Decimal:
    """Return unscaled * 10^-scale exactly, whatever the decimal context."""
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


def _micros(ticks: int, type_: Type) -> int:
    factor: int = 10 ** (MAX_DIGITS - type_.params[0])
    return ticks * factor


def _plain(value: Any, _type: Type) -> Any:
    return value


_VALUES: dict[str, Callable[[Any, Type], Any]] = {
    **dict.fromkeys(("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32"), _plain),
    **dict.fromkeys(("string", "fixedchar", "varchar", "interval_year", "date"), _plain),
    **dict.fromkeys(("binary", "fixedbinary", "uuid"), lambda value, _type: bytes(value)),
    **dict.fromkeys(("fp32", "fp64"), _plain),
    "u64": lambda value, _type: decimal_value(value, 0),
    "decimal": lambda value, type_: decimal_value(value, type_.params[1]),
    "precision_time": lambda value, type_: _micros(value, type_) * 1000,
    "precision_timestamp": _micros,
    "precision_timestamp_tz": _micros,
    "interval_day": lambda value, type_: value[0] * _DAY + _micros(value[1], type_),
}
"""Type kind -> the value as `pyarrow.scalar` takes it; integers for points in time."""

_INTEGERS = {"date": pa.int32(), **dict.fromkeys(_TIMES, pa.int64())}


def scalar(constant: Constant) -> pa.Scalar | None:
    """Return the value of a constant; None if it has none in Arrow, or none in its type."""
    type_ = arrow_type(constant.type)
    if type_ is None:
        return None
    if constant.value is None:
        return pa.scalar(None, type_)
    if constant.type.children:
        return _nested(constant, type_)
    build = _VALUES.get(constant.type.kind)
    if build is None:
        return None
    value, integers = build(constant.value, constant.type), _INTEGERS.get(constant.type.kind)
    try:
        if integers is None:
            return pa.scalar(value, type_)
        return pa.array([value], integers).view(type_)[0]
    except (pa.ArrowInvalid, OverflowError):
        return None


def _nested(constant: Constant, type_: pa.DataType) -> pa.Scalar | None:
    """Return a list, struct or map of constants; None if one of them has no value in Arrow."""
    value, children = constant.value, constant.type.children
    if constant.type.kind == "struct":
        fields = [_column([v], child) for v, child in zip(value, children, strict=True)]
        if any(field is None for field in fields):
            return None
        return pa.StructArray.from_arrays(fields, fields=[*type_])[0]
    rows = (
        zip(*value, strict=True)
        if constant.type.kind == "map" and value
        else [value] * len(children)
    )
    columns = [_column(row, child) for row, child in zip(rows, children, strict=True)]
    if any(column is None for column in columns):
        return None
    make = pa.MapArray if constant.type.kind == "map" else pa.ListArray
    return make.from_arrays(pa.array([0, len(value)], pa.int32()), *columns, type=type_)[0]


def _column(values: Sequence[Any], type_: Type) -> pa.Array | None:
    arrow = arrow_type(type_)
    parts = [pa.nulls(0, arrow)]
    for value in values:
        part = scalar(Constant(type_, value))
        if part is None:
            return None
        parts.append(pa.repeat(part, 1) if part.is_valid else pa.nulls(1, arrow))
    return pa.concat_arrays(parts)
