"""Convert literals finer than a microsecond to types with microseconds."""

from __future__ import annotations

from typing import Any

from substrait_agg.bind.context import FRACTIONAL, MAX_TIME_DIGITS
from substrait_agg.plan.types import Type

TOO_FINE = object()
"""Marks a value that has digits finer than a microsecond."""


def value_in_micros(value: Any, type_: Type) -> Any:
    """Return the value in microseconds if its type has more digits, or `TOO_FINE`.

    The value has the form of `plan.model.Literal`. A compound interval keeps its type and value,
    because it occurs in expressions only.
    """
    if value is None:
        return None
    if type_.kind in FRACTIONAL or type_.kind == "interval_compound":
        return _cut(value, type_)
    if not type_.children:
        return value
    if type_.kind == "map":
        pairs = [
            tuple(value_in_micros(v, t) for v, t in zip(p, type_.children, strict=True))
            for p in value
        ]
        return TOO_FINE if any(TOO_FINE in pair for pair in pairs) else tuple(pairs)
    types = type_.children if type_.kind == "struct" else type_.children * len(value)
    parts = tuple(value_in_micros(v, t) for v, t in zip(value, types, strict=True))
    return TOO_FINE if any(part is TOO_FINE for part in parts) else parts


def _cut(value: Any, type_: Type) -> Any:
    step = 10 ** max(0, type_.params[0] - MAX_TIME_DIGITS) if type_.params else 1
    ticks = value[-1] if isinstance(value, tuple) else value
    if ticks % step:
        return TOO_FINE
    if step == 1 or type_.kind == "interval_compound":
        return value
    return (*value[:-1], ticks // step) if isinstance(value, tuple) else ticks // step
