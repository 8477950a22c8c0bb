"""Bind the frames of window functions: the rows around a row, by number or by value."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor, isfinite
from typing import Any

from substrait_agg.bind.bound import Frame, MeasureSort
from substrait_agg.bind.context import BindContext
from substrait_agg.functions.signatures.derive import FLOATS
from substrait_agg.plan import model
from substrait_agg.plan.types import INTEGER_BITS, Type

MOST_DISTANCE = 1 << 40
"""Greatest distance between rows. A greater one is the whole partition."""
TIMESTAMPS = ("precision_timestamp", "precision_timestamp_tz")
_MOST_MONTHS = 12 * 100_000


def bind_frame(
    node: model.WindowCall, sorts: Sequence[MeasureSort], context: BindContext
) -> Frame | None:
    """Return the frame of a function; report one that is not supported."""
    bounds = (node.lower, node.upper)
    is_time = any(sort.expression.type.kind in ("date", *TIMESTAMPS) for sort in sorts)
    months = [_months(bound) if is_time else 0 for bound in bounds]
    distances = [_distance(node, bound, sorts, lower=bound is node.lower) for bound in bounds]
    reason = next((distance for distance in distances if isinstance(distance, str)), "")
    if max(map(abs, months)) > _MOST_MONTHS:
        reason = reason or "by too many months"
    if node.bounds_type == "unspecified":
        reason = "of which the plan does not say whether it is of rows or of values"
    if reason:
        context.report(
            "WINDOW_FRAME_NOT_SUPPORTED", node.call.path,
            name=node.call.function.name, frame=node.frame, reason=reason,
        )  # fmt: skip
        return None
    low, high = (distance for distance in distances if not isinstance(distance, str))
    if not any(months):
        return Frame(node.bounds_type == "rows", low, high)
    first, last = months
    return Frame(
        rows=False,
        lower=None if low is None else first,
        upper=None if high is None else last,
        months=True,
        lower_rest=int(low or 0),
        upper_rest=int(high or 0),
    )


def _months(bound: model.WindowBound) -> int:
    """Return the months of a distance, below zero before the row."""
    literal = bound.written
    if literal is None or literal.type.kind not in ("interval_year", "interval_compound"):
        return 0
    value: Any = literal.value
    months = int(value if literal.type.kind == "interval_year" else value[0])
    return -months if bound.kind == "preceding" else months


def _distance(
    node: model.WindowCall,
    bound: model.WindowBound,
    sorts: Sequence[MeasureSort],
    *,
    lower: bool,
) -> int | float | str | None:
    """Return the distance of a bound from the row, below zero before it; None without a bound.

    Months between times do not count. A text is the reason why the bound is not supported.
    """
    if bound.kind in ("missing", "unbounded"):
        return None
    if bound.kind == "current_row":
        return 0
    before = bound.kind == "preceding"
    distance: int | float
    if node.bounds_type == "range":
        if len(sorts) != 1:
            return "by a distance between values of other than one sort key"
        exact = _units(bound, sorts[0].expression.type)
        if isinstance(exact, str):
            return exact
        if isinstance(exact, float):
            return (-exact if before else exact) or 0
        # Between whole units: at most 2.5 away is at most 2 away, at least 2.5 away is at least 3.
        distance = floor(exact) if before == lower else ceil(exact)
        if distance >= 1 << 63 and sorts[0].expression.type.kind != "decimal":
            return "by a distance of more than 63 bits"
    elif bound.distance is None:
        return "by a distance that is not a constant number of rows"
    else:
        distance = min(bound.distance, MOST_DISTANCE)
    return -distance if before else distance


def _units(bound: model.WindowBound, key: Type) -> Fraction | float | str:
    """Return a distance between values of a sort key in its least units, or why it is none.

    It is a float between floats. Months between times do not count.
    """
    literal = bound.written
    if literal is None and bound.distance is None:
        return "by a distance that is not constant"
    kind = "i64" if literal is None else literal.type.kind
    value: Any = bound.distance if literal is None else literal.value
    integer = kind in INTEGER_BITS
    if key.kind in INTEGER_BITS and key.kind != "u64" and integer:
        return Fraction(value)
    if key.kind in FLOATS and (integer or kind in FLOATS) and isfinite(value) and value >= 0:
        return float(value)
    if key.kind == "interval_year" and kind == "interval_year":
        return Fraction(value)
    if key.kind == "decimal" and (integer or kind == "decimal"):
        scale = 0 if integer or literal is None else literal.type.params[1]
        return Fraction(value) * Fraction(10) ** (key.params[1] - scale)
    units = {"date": Fraction(1, 86_400)} | dict.fromkeys(
        (*TIMESTAMPS, "interval_day"), _ticks(key)
    )
    if literal is not None and key.kind in units and "interval" in kind:
        parts = (value, 0, 0) if kind == "interval_year" else (0, *value)[-3:]
        months, days, ticks = parts
        if not months or key.kind != "interval_day":
            digits = literal.type.params[0] if literal.type.params else 0
            return (Fraction(days * 86_400) + Fraction(ticks, 10**digits)) * units[key.kind]
    written = "number" if literal is None else literal.type
    return f"by a distance of type {written} between values of type {key}"


def _ticks(key: Type) -> Fraction:
    """Return how many units a second has in values of a timestamp or an interval."""
    return Fraction(10**6 if not key.params or key.params[0] <= 6 else 10**9)
