"""Points in time of Spark: the present, and dates and instants plus constant intervals."""

from __future__ import annotations

import re
from collections.abc import Iterable

from substrait_agg.spark.catalyst.analyzed.tree import SparkTree
from substrait_agg.spark.catalyst.translation.scope import (
    PlanContext,
    Scope,
    cast,
    emit_only,
    in_other_zone,
    not_supported,
    scope_of,
)
from substrait_agg.spark.catalyst.translation.types import ColumnOf, Relation, SparkType, Typed

DAY = 86_400_000_000
"""Microseconds of a day."""
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
    days, rest = divmod(micros, DAY)
    seconds, subseconds = divmod(rest, 1_000_000)
    body = {"days": days, "seconds": seconds, "precision": 6, "subseconds": str(subseconds)}
    return {"literal": {"intervalDayToSecond": body}}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))
