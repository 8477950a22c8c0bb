"""Find the grouping keys that follow event time, from the watermark columns to each operator.

A key qualifies if it is a function of event time that never decreases while event time increases:
the column itself, a window over it, its date, the column with another precision, or the column plus
a constant interval. Once the watermark has passed, groups with lesser keys get no more rows. With
several grouping sets, all of them must contain the key. With several inputs, all of them must
derive the key in the same way. Rows written in the plan come before any watermark and do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from substrait_agg.bind.bound import Call, Column, Constant, Conversion, Expr, NestedPart
from substrait_agg.flow.graph.graph import (
    Branch,
    OperatorOrigin,
    ProjectStep,
    RowsOrigin,
    TableOrigin,
    UnnestStep,
)
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.flow.graph.time_steps import EventKey, TimeStep
from substrait_agg.flow.passes.upserts import output_names
from substrait_agg.functions.scalars.catalogue import SCALARS

Table = tuple[str, ...]
DAY = 86_400_000_000
_POINTS = ("precision_timestamp", "precision_timestamp_tz")


@dataclass(frozen=True, slots=True)
class EventTimePoint:
    """A column that is a time, with the step functions from the event time to it."""

    time_steps: tuple[TimeStep, ...] = ()


@dataclass(frozen=True, slots=True)
class EventTimeWindow:
    """A column that is a window, with the step functions from the event time to its start and end.

    `start` is None if it is unknown.
    """

    start: tuple[TimeStep, ...] | None
    end: tuple[TimeStep, ...]


EventTimeColumn = EventTimePoint | EventTimeWindow | None
"""How a column follows event time; None if it does not."""

_Rule = Callable[[Call, Sequence[EventTimeColumn]], EventTimeColumn]


@dataclass(frozen=True, slots=True)
class EventColumns:
    """The columns with a watermark.

    Attributes:
        fixed: the tables that are read before any watermark.
        through_lookups: whether event time passes through joins with static rows.
    """

    columns: Mapping[Table, str]
    fixed: Collection[Table] = ()
    through_lookups: bool = True


def with_event_keys(flow: Flow, events: EventColumns) -> Flow:
    """Return the flow with the event keys of all operators."""
    done: list[Node] = []
    for node in flow.operators:
        timed = node.with_time(_time_of(node, events)) if node.is_source else node
        late = _passes_late(node, done, events)
        done.append(replace(timed, events=_event_keys(timed, done, events), passes_late=late))
    return replace(flow, operators=tuple(done))


def _event_keys(node: Node, done: Sequence[Node], events: EventColumns) -> tuple[EventKey, ...]:
    inputs = [b for b in node.branches if not _is_fixed(b, events)]
    if not inputs or not node.timed_by:
        return ()
    by_branch = [_event_time_columns(branch, node, done, events) for branch in inputs]
    keys = []
    for ordinal, first in enumerate(by_branch[0]):
        if first is not None and all(other[ordinal] == first for other in by_branch):
            end = isinstance(first, EventTimeWindow)
            time_steps = first.end if isinstance(first, EventTimeWindow) else first.time_steps
            keys.append(node.event_key(ordinal, time_steps, end=end))
    return tuple(key for key in keys if key is not None)


def tables_without_time(flow: Flow, events: EventColumns) -> list[Table]:
    """Return the tables that an operator reads beside tables with the event time of its keys."""
    tables: dict[Table, None] = {}
    for node in flow.operators:
        inputs = [branch for branch in node.branches if not _is_fixed(branch, events)]
        times = [_event_time_columns(branch, node, flow.operators, events) for branch in inputs]
        if any(map(any, times)):
            origins = (
                b.origin for b, columns in zip(inputs, times, strict=True) if not any(columns)
            )
            tables |= {origin.table: None for origin in origins if isinstance(origin, TableOrigin)}
    return list(tables)


def _passes_late(node: Node, done: Sequence[Node], events: EventColumns) -> bool:
    """Return whether the output of an operator may have late rows.

    Upserts, and joins that look up rows of tables, pass rows on; other operators drop late ones.
    """
    if node.is_source:
        return True
    if node.lookup_port is None or not events.through_lookups:
        return False
    return any(
        done[branch.origin.operator].passes_late
        if isinstance(branch.origin, OperatorOrigin)
        else isinstance(branch.origin, TableOrigin)
        for branch in node.inputs[node.lookup_port].branches
    )


def _time_of(node: Node, events: EventColumns) -> int | None:
    """Return the output column of an upsert operator that is the event time of its table."""
    origin = node.branches[0].origin
    if not isinstance(origin, TableOrigin) or origin.table not in events.columns:
        return None
    names, column = output_names(node), events.columns[origin.table]
    return names.index(column) if column in names else None


def _is_fixed(branch: Branch, events: EventColumns) -> bool:
    origin = branch.origin
    return (
        branch.static
        or isinstance(origin, RowsOrigin)
        or (isinstance(origin, TableOrigin) and origin.table in events.fixed)
    )


def _event_time_columns(
    branch: Branch, node: Node, done: Sequence[Node], events: EventColumns
) -> list[EventTimeColumn]:
    columns = _branch_columns(branch, done, events)
    return [time_of_expression(expression, columns) for expression in node.timed_by]


def _branch_columns(
    branch: Branch, done: Sequence[Node], events: EventColumns
) -> list[EventTimeColumn]:
    columns = _origin_columns(branch, done, events)
    for step in branch.steps:
        if isinstance(step, ProjectStep):
            columns = [time_of_expression(e, columns) for e in step.expressions]
        elif isinstance(step, UnnestStep):
            columns = [*columns, None]
    return columns


def _looked_up_columns(
    node: Node, done: Sequence[Node], events: EventColumns
) -> list[EventTimeColumn]:
    """Return how the output of a join with static rows follows event time.

    A row of its output comes and goes with one row of the other input.
    """
    columns: list[EventTimeColumn] = [None] * len(node.types)
    if node.lookup_port is None or not events.through_lookups:
        return columns
    branches = node.inputs[node.lookup_port].branches
    inputs = [_branch_columns(b, done, events) for b in branches if not _is_fixed(b, events)]
    for ordinal, (port, expression) in enumerate(node.port_columns or ()):
        if port == node.lookup_port and expression is not None:
            times = [time_of_expression(expression, into) for into in inputs]
            if times and all(other == times[0] for other in times):
                columns[ordinal] = times[0]
    return columns


def _origin_columns(
    branch: Branch, done: Sequence[Node], events: EventColumns
) -> list[EventTimeColumn]:
    origin = branch.origin
    if isinstance(origin, TableOrigin):
        time_column = events.columns.get(origin.table)
        return [EventTimePoint() if name == time_column else None for name in origin.names]
    columns: list[EventTimeColumn] = [None] * len(origin.types)
    if isinstance(origin, OperatorOrigin):
        below = done[origin.operator]
        if below.lookup_port is not None:
            return _looked_up_columns(below, done, events)
        if below.time is not None:
            columns[below.time] = EventTimePoint()
        for event in below.events:
            column, told_ = below.event_column(event)
            columns[column] = (
                EventTimeWindow(None, told_.time_steps)
                if told_.end
                else EventTimePoint(told_.time_steps)
            )
    return columns


def time_of_expression(expression: Expr, columns: Sequence[EventTimeColumn]) -> EventTimeColumn:
    """Return how an expression over columns follows event time."""
    match expression:
        case Column(ordinal=ordinal):
            return columns[ordinal]
        case NestedPart(input=inner, step=step):
            window = time_of_expression(inner, columns)
            if not isinstance(window, EventTimeWindow):
                return None
            time_steps = window.end if step == 1 else window.start
            return None if time_steps is None else EventTimePoint(time_steps)
        case Conversion(input=inner, type=type_):
            return _convert(time_of_expression(inner, columns), type_.kind, type_.params)
        case Call(function=name) if name in SCALARS and SCALARS[name].durations:
            return _window_of(expression, SCALARS[name].durations, columns)
        case Call(function=name) if name in _CALLS:
            return _CALLS[name](expression, columns)
    return None


def _convert(time: EventTimeColumn, kind: str, params: Sequence[int]) -> EventTimeColumn:
    if not isinstance(time, EventTimePoint):
        return None
    if kind == "date":
        return EventTimePoint((*time.time_steps, TimeStep(DAY)))
    if kind in _POINTS:
        digits = min(params[0], 6) if params else 6
        return (
            EventTimePoint((*time.time_steps, TimeStep(10 ** (6 - digits)))) if digits < 6 else time
        )
    return None


def _then(place: int, make: Callable[[Call, list[int]], TimeStep | None]) -> _Rule:
    """Return the rule of a function that maps the time at `place` and constants to a time."""

    def rule(call: Call, columns: Sequence[EventTimeColumn]) -> EventTimeColumn:
        """Append the step of the function to those of its time."""
        time = time_of_expression(call.arguments[place], columns)
        durations = _durations(call, place)
        time_step = None if durations is None else make(call, durations)
        return (
            EventTimePoint((*time.time_steps, time_step))
            if isinstance(time, EventTimePoint) and time_step
            else None
        )

    return rule


def _window_of(
    call: Call, names: Sequence[str], columns: Sequence[EventTimeColumn]
) -> EventTimeColumn:
    """Append the steps of a window, or of one of its bounds, to those of its time.

    Of the windows of `hop` that contain a row, the one that ends first counts.
    """
    time, durations = time_of_expression(call.arguments[0], columns), _durations(call, 0)
    named = dict(zip(names, durations or (), strict=False))
    if not isinstance(time, EventTimePoint) or "size" not in named:
        return None
    size, slide, origin = named["size"], named.get("slide"), named.get("offset", 0)
    first = (
        TimeStep(size, origin) if slide is None else TimeStep(slide, origin + size, slide - size)
    )
    last = TimeStep(size, origin, size) if slide is None else TimeStep(slide, origin + size, slide)
    start, end = (*time.time_steps, first), (*time.time_steps, last)
    bounds = {"tumble_start": start, "tumble_end": end}
    bound = bounds.get(call.function)
    return EventTimeWindow(start, end) if bound is None else EventTimePoint(bound)


def _durations(call: Call, time: int) -> list[int] | None:
    """Return the arguments except the time in microseconds, with words as 0.

    None if one is not a constant duration.
    """
    durations: list[int] = []
    for place, argument in enumerate(call.arguments):
        if place == time:
            continue
        if not isinstance(argument, Constant) or argument.value is None:
            return None
        if isinstance(argument.value, str):
            durations.append(0)
        elif argument.type.kind == "interval_day":
            days, ticks = argument.value
            durations.append(days * DAY + ticks * 10**6 // 10 ** argument.type.params[0])
        else:
            return None
    return durations


def _truncate(call: Call, _durations: list[int]) -> TimeStep | None:
    unit = call.arguments[0]
    word = str(unit.value).lower() if isinstance(unit, Constant) else ""
    return TimeStep(*_UNITS[word]) if word in _UNITS else None


_MONDAY = 4 * DAY
"""The first Monday after 1970-01-01, in microseconds."""

_UNITS: dict[str, tuple[int, int]] = {
    "microsecond": (1, 0),
    "millisecond": (10**3, 0),
    "second": (10**6, 0),
    "minute": (60 * 10**6, 0),
    "hour": (3600 * 10**6, 0),
    "day": (DAY, 0),
    "week": (7 * DAY, _MONDAY),
}
"""Size and origin of units that are grids, in microseconds. Months and years have no fixed size."""

_CALLS: dict[str, _Rule] = {
    "date_trunc": _then(1, _truncate),
    "add": _then(0, lambda _, d: TimeStep(1, 0, d[0])),
    "subtract": _then(0, lambda _, d: TimeStep(1, 0, -d[0])),
}
"""Rules for functions other than windows of a time and of constants that never decrease while the time increases."""
