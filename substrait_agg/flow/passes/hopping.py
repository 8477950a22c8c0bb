"""Hopping windows as grouping expressions: what of a row decides which windows it is in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from substrait_agg.bind.bound import Call, Constant, Expr
from substrait_agg.bind.expressions.windows import DURATION
from substrait_agg.bind.rewrite import call_durations
from substrait_agg.functions.windows import duration_value


def row_keys(keys: Sequence[Expr]) -> tuple[Expr, ...]:
    """Values of a row alone that are equal for two rows exactly when they have the same keys.

    The windows of a row begin with the first that has not ended and end with the last that has begun, which are told by two
    starts of tumbling windows.
    """
    return tuple(part for key in keys for part in _parts(key))


def _parts(key: Expr) -> Iterator[Expr]:
    if not isinstance(key, Call) or key.function != "hop":
        yield key
        return
    size, slide, offset = (*call_durations(key.arguments), 0)[:3]
    time = key.arguments[0]
    offsets = (offset,) if size % slide == 0 else (offset, offset + size)
    for moved in offsets:
        durations = (Constant(DURATION, duration_value(micros)) for micros in (slide, moved))
        yield Call(time.type, "tumble_start", (time, *durations))
