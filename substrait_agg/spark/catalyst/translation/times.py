"""Points in time of Spark: the present, points plus constant intervals, and windows over time.

Spark's analyzer writes ``window(t, size, slide, start)`` as arithmetic on microseconds: one projection
per window that a time is in. It marks their columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from substrait_agg.functions.windows import WINDOWS_URN
from substrait_agg.spark.catalyst.analyzed.tree import SparkTree
from substrait_agg.spark.catalyst.translation.scope import (
    DAY,
    PlanContext,
    Scope,
    cast,
    duration,
    emit_only,
    in_other_zone,
    not_supported,
    scope_of,
)
from substrait_agg.spark.catalyst.translation.types import (
    ColumnOf,
    Relation,
    SparkType,
    Typed,
    type_of,
)

_MOST_DAYS = 1_000_000
_OF_TIME = re.compile(r"interval (day|hour|minute|second)( to \w+)?")
"""Types of intervals of days to seconds."""


def clock_value(scope: Scope, tree: SparkTree) -> Typed:
    """Return the present instant or date: that of a version of the view.

    Raises:
        Refusal: the date of another zone than UTC.
    """
    name, zone = str(tree.metadata["clock"]), scope.context.tables.zone
    if name == "current_date" and zone != "UTC":
        raise in_other_zone(tree, zone)
    type_ = SparkType("date" if name == "current_date" else "timestamp")
    ((_, body),) = type_.message().items()
    return Typed({"executionContextVariable": {_camel(name): body}}, type_)


def with_clock(below: Relation, readers: Iterable[SparkTree], context: PlanContext) -> Relation:
    """Return a relation with the columns of the time that expressions above it read."""
    read = {node.id: node for tree in readers for node in tree.walk() if "clock" in node.metadata}
    if not read:
        return below
    scope = scope_of(context, below.columns)
    values = [*scope.columns.values(), *(scope.value(node) for node in read.values())]
    times = (
        ColumnOf(id, "", value.type) for id, value in zip(read, values[-len(read) :], strict=True)
    )
    return Relation(emit_only(below, values), (*below.columns, *times))


def add_interval(scope: Scope, tree: SparkTree) -> Typed:
    """Return an instant plus a constant interval of days and microseconds."""
    point, interval = tree.children
    if interval.kind != "Literal" or not _OF_TIME.fullmatch(str(interval.type)):
        raise not_supported(tree, "only with a constant interval of days to seconds")
    if tree.zone not in ("", "UTC"):
        raise in_other_zone(tree)
    return _moved(scope, tree, scope.translate(point), int(interval.fields["value"]))


def add_days(scope: Scope, tree: SparkTree, *, sign: int) -> Typed:
    """Return a date some constant days later or earlier."""
    date, days = tree.children
    count = days.fields["value"] if days.kind == "Literal" else None
    if count is None or abs(int(count)) > _MOST_DAYS:
        raise not_supported(tree, "only with a constant number of days")
    value = scope.translate(date)
    return cast(_moved(scope, tree, value, sign * int(count) * DAY), "date")


def _moved(scope: Scope, tree: SparkTree, point: Typed, micros: int) -> Typed:
    """Return a date or instant plus microseconds."""
    if point.type.name not in ("date", "timestamp", "timestamp_ntz"):
        raise not_supported(tree, f"of a {point.type.name}")
    interval = Typed(interval_of(micros), SparkType("interval day to second", nullable=False))
    name = "timestamp_ntz" if point.type.name == "date" else point.type.name
    type_ = SparkType(name, point.type.nullable)
    return scope.call("datetime", "add", (point, interval), type_)


def interval_of(micros: int) -> dict[str, object]:
    """Return the literal of an interval of days to microseconds."""
    return {"literal": {"intervalDayToSecond": duration(micros)}}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


# --- windows over time ----------------------------------------------------------------------------

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
