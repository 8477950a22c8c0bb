"""Bind windows over time: their durations, and where `hop` and `session` may occur.

Both assign a row to several groups or to a group that depends on other rows. They are therefore not
values of a row, and only a whole grouping expression of an aggregate may call them. Producers put
grouping expressions into a projection below the aggregate. If a column of that projection is used
only as a grouping expression, the call moves up into the aggregate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

from substrait_agg.bind.bound import (
    BoundAggregate,
    BoundFilter,
    BoundJoin,
    BoundMeasure,
    BoundProject,
    BoundRelation,
    Call,
    Column,
    Constant,
    Expr,
)
from substrait_agg.bind.context import BindContext, Bound, Opaque
from substrait_agg.bind.places import expression_place
from substrait_agg.bind.rewrite import (
    call_durations,
    columns_in,
    expressions_of,
    inputs_of,
    parts,
    subexpressions,
)
from substrait_agg.bind.show import show
from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.functions.scalars.forms import ScalarFunction
from substrait_agg.functions.windows import (
    MICROS_PER_DAY,
    MOST_WINDOWS,
    duration_value,
    windows_per_row,
)
from substrait_agg.plan import model
from substrait_agg.plan.types import Type

DURATION = Type("interval_day", nullable=False, params=(6,))
"""Type of the durations of a bound window call. Values are (days, microseconds)."""

BY_ARRIVAL = frozenset({"first", "last"})
"""Kinds of measures that depend on the order of arrival."""

MOST_DAYS = 3_652_500
"""Longest duration: ten thousand years. A longer one could move a valid time beyond 64 bits."""


def is_window(expression: Expr) -> TypeGuard[Call]:
    """Return whether an expression is a window that must be a grouping expression."""
    row = SCALARS.get(expression.function) if isinstance(expression, Call) else None
    return row is not None and row.groups_only


def is_window_key(key: Expr, source: Bound) -> bool:
    """Return whether a key is a window, also if a projection below computes it."""
    while isinstance(key, Column) and isinstance(source, BoundProject | BoundFilter):
        if key.ordinal >= len(source.types):
            return False  # the value of a subquery
        key = source.expressions[key.ordinal] if isinstance(source, BoundProject) else key
        source = source.input
    row = SCALARS.get(key.function) if isinstance(key, Call) else None
    return row is not None and bool(row.durations)


# --- durations -------------------------------------------------------------------------------


def window_arguments(
    row: ScalarFunction, values: tuple[Expr, ...], call: model.ScalarCall, context: BindContext
) -> tuple[Expr, ...] | None:
    """Return the arguments of a window function with durations in microseconds.

    Args:
        row: the function.
        values: a point in time, then constant intervals.
        call: the call as the plan writes it; a call that does not come from a plan has no argument
            nodes.
        context: collects the problems.

    Returns:
        The arguments, or None after a problem has been reported.
    """
    digits = values[0].type.params[0]
    durations: list[Expr] = []
    for position, (name, value) in enumerate(zip(row.durations, values[1:], strict=False), 1):
        micros, reason = _micros(value)
        reason = reason or _limits(name, micros, 10 ** (6 - digits), digits)
        if reason:
            place = call.arguments[position].path if call.arguments else call.path
            context.report(
                "WINDOW_DURATION_INVALID", place.removesuffix(".literal"),
                function=row.name, argument=name, value=show(value), reason=reason,
            )  # fmt: skip
            return None
        durations.append(Constant(DURATION, duration_value(micros)))
    arguments = (values[0], *durations)
    if "slide" in row.durations and not _few(arguments, call, context):
        return None
    return arguments


def _micros(value: Expr) -> tuple[int, str]:
    """Return the microseconds of a constant interval, or the reason why it has none."""
    if not isinstance(value, Constant) or value.value is None:
        return 0, "it is null"
    days, ticks = value.value[-2:]
    if value.type.kind == "interval_compound" and value.value[0]:
        return 0, "it has months, which have no fixed number of days"
    digits = value.type.params[0] if value.type.params else 6
    # Digits beyond microseconds are zeros: other literals are refused before.
    return days * MICROS_PER_DAY + ticks * 10**6 // 10**digits, ""


def _limits(name: str, micros: int, unit: int, digits: int) -> str:
    """Return why a duration cannot be the argument `name`; empty if it can."""
    if name != "offset" and micros <= 0:
        return "it is not greater than zero"
    if micros % unit:
        return f"it is finer than the type of the time, which has {digits} digits of a second"
    return (
        "it is longer than ten thousand years" if abs(micros) > MOST_DAYS * MICROS_PER_DAY else ""
    )


def _few(values: tuple[Expr, ...], call: model.ScalarCall, context: BindContext) -> bool:
    size, slide = call_durations(values)[:2]
    count = windows_per_row(size, slide)
    if count > MOST_WINDOWS:
        context.report("WINDOWS_TOO_MANY", call.path, count=count, limit=MOST_WINDOWS)
    return count <= MOST_WINDOWS


# --- where windows may occur ------------------------------------------------------------------


def move_windows_up(
    node: model.AggregateRel,
    source: Bound,
    keys: tuple[Expr, ...],
    readers: tuple[Sequence[BoundMeasure | None], Collection[int]],
    context: BindContext,
) -> tuple[Bound, tuple[Expr, ...]]:
    """Move windows from a projection up into the aggregate, and check the grouping expressions.

    Args:
        node: the aggregate as the plan writes it.
        source: its bound input.
        keys: its grouping expressions.
        readers: the bound measures, None for one with problems, and the columns that subqueries read.
        context: lists the windows of the plan; valid ones are struck off.

    Returns:
        The input and the grouping expressions of the aggregate.
    """
    if not context.windows:
        return source, keys
    measures, read = readers
    for written in node.grouping_expressions:
        if context.windows.get(written.path) in keys:
            context.windows[written.path] = None
    others = [e for m in measures if m for e in m.expressions]
    for ordinal, key in enumerate(keys):
        rest = (*keys[:ordinal], *keys[ordinal + 1 :], *others)
        if isinstance(source, Opaque) or not isinstance(key, Column):
            continue
        # Columns behind those of the input are values of subqueries.
        own = key.ordinal < len(source.types) and key.ordinal not in read
        if not own or _reads(rest, key.ordinal):
            continue
        moved = _moved_up(source, key.ordinal, context)
        if moved is not None:
            source, call = moved
            keys = (*keys[:ordinal], call, *keys[ordinal + 1 :])
    _check_keys(node, keys, context)
    if any(_function(key) == "session" for key in keys):
        for measure in (m for m in measures if m is not None and m.kind in BY_ARRIVAL):
            context.report("SESSION_ARRIVAL", measure.path, name=measure.name)
    return source, keys


def _check_keys(node: model.AggregateRel, keys: tuple[Expr, ...], context: BindContext) -> None:
    """Report several windows, and sessions beside other grouping sets."""
    windows = [ordinal for ordinal, key in enumerate(keys) if is_window(key)]
    written = node.grouping_expressions
    if len(windows) > 1:
        place = expression_place(written[min(windows[1], len(written) - 1)])
        context.report("WINDOWS_SEVERAL", place, count=len(windows))
    sessions = [o for o in windows if _function(keys[o]) == "session"]
    if sessions and len(node.groupings) > 1:
        place = expression_place(written[min(sessions[0], len(written) - 1)])
        context.report("SESSION_GROUPING_SETS", place, count=len(node.groupings))


def _function(expression: Expr) -> str:
    return expression.function if isinstance(expression, Call) else ""


def _reads(expressions: Sequence[Expr], ordinal: int) -> bool:
    return any(c.ordinal == ordinal for e in expressions for c in columns_in(e))


def _moved_up(
    relation: BoundRelation, ordinal: int, context: BindContext
) -> tuple[BoundRelation, Call] | None:
    """Replace the window in a column of the relation by its time.

    Returns:
        The relation, and the window call over its columns; None if the column is not a window or is
        used elsewhere.
    """
    if isinstance(relation, BoundFilter):
        if _reads((relation.condition,), ordinal):
            return None
        below = _moved_up(relation.input, ordinal, context)
        if below is None:
            return None
        rewritten, call = below
        return replace(relation, input=rewritten, types=rewritten.types), call
    if isinstance(relation, BoundJoin):
        return _moved_through(relation, ordinal, context)
    if not isinstance(relation, BoundProject):
        return None
    expression = relation.expressions[ordinal]
    if is_window(expression):
        _strike_off(relation.path, expression, context)
        time = expression.arguments[0]
        rewritten = _with_column(relation, relation.input, ordinal, time)
        return rewritten, replace(
            expression, arguments=(Column(time.type, ordinal), *expression.arguments[1:])
        )
    rest = (*relation.expressions[:ordinal], *relation.expressions[ordinal + 1 :])
    if not isinstance(expression, Column) or _reads(rest, expression.ordinal):
        return None
    below = _moved_up(relation.input, expression.ordinal, context)
    if below is None:
        return None
    source, call = below
    time = call.arguments[0]
    rewritten = _with_column(relation, source, ordinal, replace(expression, type=time.type))
    return rewritten, replace(call, arguments=(Column(time.type, ordinal), *call.arguments[1:]))


def _moved_through(
    join: BoundJoin, ordinal: int, context: BindContext
) -> tuple[BoundRelation, Call] | None:
    """Replace the window in a column of the left input of a join that adds values to its rows."""
    tested = [key.left for key in join.keys]
    tested += [] if join.residual is None else [join.residual]
    if ordinal >= len(join.left.types) or join.kind == "full" or _reads(tested, ordinal):
        return None
    below = _moved_up(join.left, ordinal, context)
    if below is None:
        return None
    left, call = below
    types = (*join.types[:ordinal], left.types[ordinal], *join.types[ordinal + 1 :])
    return replace(join, left=left, types=types), call


def _with_column(
    relation: BoundProject, source: BoundRelation, ordinal: int, expression: Expr
) -> BoundProject:
    expressions = (
        *relation.expressions[:ordinal],
        expression,
        *relation.expressions[ordinal + 1 :],
    )
    return replace(
        relation, input=source, expressions=expressions, types=tuple(e.type for e in expressions)
    )


def _strike_off(path: str, call: Call, context: BindContext) -> None:
    """Strike a window that the projection at `path` computes off the list of unplaced windows."""
    places = (p for p, c in context.windows.items() if c == call and p.startswith(path))
    place = min(places, key=len, default=None)
    if place is not None:
        context.windows[place] = None


def report_misplaced(root: Bound, context: BindContext) -> None:
    """Report windows that are not grouping expressions, after the whole plan is bound."""
    misplaced = [(path, call) for path, call in context.windows.items() if call is not None]
    for path, call in misplaced:
        context.report("WINDOW_NOT_A_KEY", path, function=_function(call))
    if context.windows and not misplaced and not isinstance(root, Opaque):
        # Another reader of a shared projection may use its column in another way.
        for path, call in _iter_misplaced(root):
            context.report("WINDOW_NOT_A_KEY", path, function=call.function)
            return


def _iter_misplaced(root: BoundRelation) -> Iterator[tuple[str, Call]]:
    """Yield the windows that are not grouping expressions, with the path of their relation."""
    waiting, seen = [root], set[int]()
    while waiting:
        relation = waiting.pop()
        if id(relation) in seen:
            continue
        seen.add(id(relation))
        calls = filter(is_window, subexpressions(*_row_expressions(relation)))
        yield from ((relation.path, call) for call in calls)
        waiting.extend(inputs_of(relation))


def _row_expressions(relation: BoundRelation) -> Iterator[Expr]:
    """Yield the expressions of a relation that are values of a row: all but window keys."""
    if isinstance(relation, BoundAggregate):
        for key in relation.keys:
            yield from parts(key) if is_window(key) else (key,)
        yield from (e for m in relation.measures for e in m.expressions)
    else:
        yield from expressions_of(relation)
