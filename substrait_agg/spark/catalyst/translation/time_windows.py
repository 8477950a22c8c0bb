"""Windows over time of Spark as the functions of windows of a plan.

Spark's analyzer writes ``window(t, size, slide, start)`` as arithmetic on microseconds: one projection
per window that a time is in. It marks their columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from substrait_agg.functions.windows import WINDOWS_URN
from substrait_agg.spark.catalyst.analyzed.tree import SparkTree
from substrait_agg.spark.catalyst.translation.scope import Scope, not_supported
from substrait_agg.spark.catalyst.translation.times import DAY, interval_of
from substrait_agg.spark.catalyst.translation.types import SparkType, Typed, type_of

_WINDOW, _SESSION = "spark.timeWindow", "spark.sessionWindow"


def is_window(alias: SparkTree) -> bool:
    """Return whether a column is a window, by its mark."""
    return bool({_WINDOW, _SESSION} & alias.metadata.keys())


def window(scope: Scope, alias: SparkTree, projections: int = 1) -> Typed:
    """Return the window of a time.

    Args:
        scope: the columns of the rows.
        alias: the column that Spark computes.
        projections: number of the windows that a time is in.

    Raises:
        Refusal: durations that are not constant.
    """
    value = alias.children[0] if alias.kind == "Alias" else alias
    if _SESSION in alias.metadata:
        return _session(scope, value)
    return _of_constants(scope, value, projections)


def _of_constants(scope: Scope, value: SparkTree, projections: int) -> Typed:
    nodes = list(value.walk())
    time = next((n.children[0] for n in nodes if n.kind == "PreciseTimestampConversion" and n.children[0].kind != "Subtract" and n.type == "long"), None)  # fmt: skip
    remainder = next((n for n in nodes if n.kind == "Remainder"), None)
    if time is None or remainder is None:
        raise not_supported(value, "a window of another form")
    difference, slide = remainder.children
    start = _micros(value, difference.children[1])
    end = value.children[3]
    size = _micros(value, next(n for n in end.walk() if n.kind == "Add").children[1])
    step = _micros(value, slide)
    durations = (size, start) if projections == 1 and size == step else (size, step, start)
    name = "tumble" if len(durations) == 2 else "hop"
    return _call(scope, name, value, scope.translate(time), durations)


def _session(scope: Scope, value: SparkTree) -> Typed:
    _, first, _, last = value.children
    time = next((n.children[0] for n in first.walk() if n.kind == "PreciseTimestampConversion" and n.type == "long"), None)  # fmt: skip
    gap = next((n for n in last.walk() if n.kind == "Literal" and "interval" in str(n.type)), None)
    if time is None or gap is None:
        raise not_supported(value, "a session window without a constant gap")
    return _call(scope, "session", value, scope.translate(time), (_micros(value, gap),))


def _micros(value: SparkTree, literal: SparkTree) -> int:
    while literal.kind in ("Cast", "KnownNullable"):
        literal = literal.children[0]
    duration = literal.fields.get("value")
    if isinstance(duration, list):  # an interval: months, days and microseconds
        months, days, micros = duration
        duration = None if months else days * DAY + micros
    text = str(duration)
    if literal.kind != "Literal" or not text.lstrip("-").isdigit():
        raise not_supported(value, "a window whose durations are not constant")
    return int(text)


def _call(
    scope: Scope, name: str, value: SparkTree, time: Typed, durations: Sequence[int]
) -> Typed:
    interval = SparkType("interval day", nullable=False)
    arguments = [time, *(Typed(interval_of(micros), interval) for micros in durations)]
    start = {"name": "start", "type": time.type.name, "nullable": True}
    end = {"name": "end", "type": time.type.name, "nullable": True}
    type_ = type_of({"type": "struct", "fields": [start, end]}, nullable=time.type.nullable)
    return scope.call(WINDOWS_URN, name, arguments, type_)
