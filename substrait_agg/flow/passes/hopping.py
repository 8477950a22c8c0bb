"""Reduce hopping windows in grouping expressions to values of the row alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from substrait_agg.bind.bound import Call, Constant, Expr
from substrait_agg.bind.expressions.windows import DURATION
from substrait_agg.bind.rewrite import call_durations
from substrait_agg.functions.windows import duration_value


def row_keys(keys: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return values of a row that are equal for two rows exactly if they have the same keys.

    The windows of a row range from the first that has not ended to the last that has begun. The
    starts of two tumbling windows determine this range.
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
