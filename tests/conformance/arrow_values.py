"""Values of test cases as Arrow columns, and as the values that the table of a view returns for
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import Type

_EXACT = Context(prec=100)


def column_of(values: Sequence[Any], type_: Type) -> pa.Array:
    """An Arrow column of the type from plan values."""
    arrow = to_arrow(type_)
    if type_.kind == "decimal" or pa.types.is_decimal(arrow):
        scale = type_.params[1] if type_.params else 0
        return pa.array([None if v is None else _scaled(v, scale) for v in values], arrow)
    carrier = _CARRIERS.get(type_.kind)
    if carrier is None:
        return pa.array(values, arrow)
    ticks = [None if v is None else _TICKS[type_.kind](v, type_) for v in values]
    return pa.array(ticks, carrier).cast(arrow)


def view_value(value: Any, type_: Type) -> Any:
    """A plan value as the table of a view returns it."""
    return column_of([value], type_)[0].as_py()


def _scaled(value: int, scale: int) -> Decimal:
    return _EXACT.scaleb(Decimal(value), -scale)


def _micros(value: int, type_: Type) -> int:
    digits = type_.params[0]
    factor: int = 10 ** abs(6 - digits)
    return value * factor if digits <= 6 else value // factor


def _duration(value: tuple[int, int], type_: Type) -> int:
    days, ticks = value
    return days * 86_400_000_000 + _micros(ticks, type_)


_CARRIERS: dict[str, pa.DataType] = {
    "date": pa.int32(),
    "precision_timestamp": pa.int64(),
    "precision_timestamp_tz": pa.int64(),
    "interval_day": pa.int64(),
}
_TICKS: dict[str, Callable[[Any, Type], Any]] = {
    "date": lambda value, _type: value,
    "precision_timestamp": _micros,
    "precision_timestamp_tz": _micros,
    "interval_day": _duration,
}
