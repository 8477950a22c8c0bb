"""Find queries that DataFusion simplifies to queries with other results.

DataFusion replaces a constant expression by its value. Its integers wrap around, for example, and it
truncates the quotients of decimals. It also removes casts of a side of a comparison, although the
cast rounds, or fails for some values, and joins lists of IN. For some constants it fails itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from substrait import algebra_pb2, plan_pb2, type_pb2

from substrait_agg.bind.bound import (
    BoundProject,
    BoundRelation,
    Call,
    Column,
    Constant,
    Conversion,
    Expr,
    InList,
)
from substrait_agg.bind.rewrite import expressions_of, inputs_of, subexpressions
from substrait_agg.bind.rewrite import parts as parts_of
from substrait_agg.errors import RunFailed
from substrait_agg.evaluation.expressions import evaluate, supports
from substrait_agg.plan.types import Type
from substrait_agg.report.checked_plan import Plan
from substrait_agg.sql_planner.corrections.expressions import correct_expressions
from substrait_agg.sql_planner.corrections.messages import messages, parts
from substrait_agg.sql_planner.errors import panics_as_errors

if TYPE_CHECKING:
    from datafusion import SessionContext

SIMPLIFYING_RULES = ("simplify_expressions", "common_sub_expression_eliminate")
"""Rules of DataFusion's optimizer. The first computes constants and removes casts. The second takes parts out of constants."""

_EXPRESSION = "substrait.Expression"
_COMPUTED = ("scalar_function", "cast", "singular_or_list", "if_then")
"""Kinds of expressions that have a value of their own."""
_NOT_CONSTANT = ("selection", "subquery", "window_function", "dynamic_parameter")
_COMPARISONS = frozenset(
    {"equal", "not_equal", "lt", "lte", "gt", "gte", "between", "is_distinct_from", "is_not_distinct_from"}
)  # fmt: skip
_TIMES = ("precision_timestamp", "precision_timestamp_tz")
_WHOLE_DIGITS = {"i8": 3, "i16": 5, "i32": 10, "i64": 19}
"""Integer type -> digits of its largest value."""


def is_simplified_wrongly(content: bytes, plain: bytes, context: SessionContext) -> bool:
    """Return whether DataFusion's simplification can give a plan other values than a run computes.

    A constant that only Spark computes counts as another value. One of a function that only DataFusion has keeps its value.
    True also for a plan with a cast that columns cannot have.

    Args:
        content: the plan as DataFusion writes it without simplification.
        plain: the same plan, corrected.
        context: the session of the plan.
    """
    plan = plan_pb2.Plan.FromString(content)
    differences = {_differs(plan, constant, context) for constant in _distinct_constants(plan)}
    if True in differences:
        return True
    checked = Plan("", plain).check()
    if checked.bound is None:
        return "CAST_NOT_SUPPORTED" in {problem.code for problem in checked.problems}
    return None in differences or any(map(_compares_changed, expressions_below(checked.bound.root)))


def computes_all_constants(content: bytes, plain: bytes) -> bool:
    """Return whether a run computes a plan with all of its constants, and none of them fails.

    It is asked where DataFusion's simplification fails.

    Args:
        content: the plan as DataFusion writes it without simplification.
        plain: the same plan, corrected.
    """
    plan = plan_pb2.Plan.FromString(content)
    if Plan("", plain).check().bound is None:
        return False
    expressions = [_read(_plan_of(plan, constant)) for constant in _distinct_constants(plan)]
    try:
        return all(e is not None and supports(e) and evaluate(e, [], 1) for e in expressions)
    except RunFailed:
        return False


def _distinct_constants(plan: Any) -> Collection[Any]:
    return {c.SerializeToString(deterministic=True): c for c in _constants(plan)}.values()


def expressions_below(root: BoundRelation) -> Iterator[Expr]:
    """Yield all expressions of a bound plan."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        relation = waiting.pop()
        if id(relation) not in seen:
            seen.add(id(relation))
            yield from subexpressions(*expressions_of(relation))
            waiting.extend(inputs_of(relation))


def _compares_changed(expression: Expr) -> bool:
    """Return whether a constant is compared with a cast that rounds, or fails for some values, or IN has columns.

    DataFusion compares the value before the cast: ``CAST(price AS bigint) = 1`` becomes ``price = 1.00``. It also joins
    lists without regard to values: ``x IN (y, z) AND x IN (1, 2)`` becomes false.
    """
    if isinstance(expression, InList) and any(map(_reads_columns, expression.options)):
        return True
    is_comparison = isinstance(expression, Call) and expression.function in _COMPARISONS
    if not is_comparison and not isinstance(expression, InList):
        return False
    sides = tuple(parts_of(expression))
    return any(map(_is_changed, sides)) and not all(map(_stays_variable, sides))


def _stays_variable(expression: Expr) -> bool:
    """Return whether an expression reads columns, and has no null, which can make it constant."""
    nulls = (e for e in subexpressions(expression) if isinstance(e, Constant) and e.value is None)
    return _reads_columns(expression) and not any(nulls)


def _reads_columns(expression: Expr) -> bool:
    return any(isinstance(e, Column) for e in subexpressions(expression))


def _is_changed(expression: Expr) -> bool:
    """Return whether an expression is a cast that changes values, or a cast of one."""
    while isinstance(expression, Conversion):
        if not _keeps_values(expression.input.type, expression.type):
            return True
        expression = expression.input
    return False


def _keeps_values(before: Type, after: Type) -> bool:
    """Return whether a cast of numbers or times has a result for all values, and another one for each.

    True for other types: DataFusion does not remove casts of floats and texts, and casts to them or to dates.
    """
    digits, digits_after = _digits(before), _digits(after)
    if digits and digits_after:
        return digits[0] <= digits_after[0] and digits[1] <= digits_after[1]
    return not (before.kind in _TIMES and after.kind in _TIMES and after.params < before.params)


def _digits(type_: Type) -> tuple[int, int] | None:
    """Return the digits of an exact number before and after the point; None for other types."""
    if type_.kind == "decimal":
        precision, scale = type_.params
        return precision - scale, scale
    whole = _WHOLE_DIGITS.get(type_.kind)
    return None if whole is None else (whole, 0)


def _constants(plan: Any) -> Iterator[Any]:
    """Yield the largest constant expressions that are not literals."""
    stack = [plan]
    while stack:
        message = stack.pop()
        if message.DESCRIPTOR.full_name == _EXPRESSION and _is_constant(message):
            if message.WhichOneof("rex_type") in _COMPUTED:
                yield message
        else:
            stack.extend(parts(message))


def _is_constant(expression: Any) -> bool:
    inner = messages(expression, _EXPRESSION)
    return all(e.WhichOneof("rex_type") not in (*_NOT_CONSTANT, None) for e in inner)


def _differs(plan: Any, constant: Any, context: SessionContext) -> bool | None:
    """Return whether a run computes another value than DataFusion, or fails; None if it is not known."""
    one = _plan_of(plan, constant)
    theirs = _value_of_datafusion(one, context)
    expression = _read(one)
    if expression is None:
        return False
    if theirs is None or not supports(expression):
        return None
    try:
        own = evaluate(expression, [], 1)[0]
    except RunFailed:
        return True
    return _shown(own) != _shown(theirs)


def _shown(value: pa.Scalar) -> str:
    """Return a value as text. Dates and timestamps can be outside of the years that Python has."""
    if isinstance(value, pa.TimestampScalar):
        return str(value.cast(pa.timestamp("us"), safe=False).value)
    return repr(value.value if isinstance(value, pa.Date32Scalar) else value.as_py())


def _plan_of(plan: Any, constant: Any) -> Any:
    """Return a plan whose result is a constant."""
    one = plan_pb2.Plan()
    one.CopyFrom(plan)
    del one.relations[:]
    root = one.relations.add().root
    root.names[:] = ["value"]
    project = root.input.project
    project.common.emit.output_mapping[:] = [1]
    project.expressions.add().CopyFrom(constant)
    read = project.input.read
    read.base_schema.names[:] = ["row"]
    required = type_pb2.Type.NULLABILITY_REQUIRED
    read.base_schema.struct.nullability = required
    read.base_schema.struct.types.add().i64.nullability = required
    row = algebra_pb2.Expression()
    row.literal.i64 = 1
    read.virtual_table.expressions.add().fields.add().CopyFrom(row)
    return one


def _value_of_datafusion(plan: Any, context: SessionContext) -> pa.Scalar | None:
    """Return the value that DataFusion computes; None if it fails."""
    from datafusion.substrait import Consumer, Serde

    try:
        read = Serde.deserialize_bytes(plan.SerializeToString())
        frame = context.create_dataframe_from_logical_plan(
            Consumer.from_substrait_plan(context, read)
        )
        with panics_as_errors():
            (batch,) = frame.collect()
    except Exception:  # noqa: BLE001 - DataFusion has no class of its own, and keeps an expression that fails
        return None
    return batch.column(0)[0]


def _read(plan: Any) -> Expr | None:
    """Correct a plan of `_plan_of` and return its expression; None if it is not supported."""
    correct_expressions(plan, {})
    bound = Plan("", plan.SerializeToString()).check().bound
    if bound is None or not isinstance(bound.root, BoundProject):
        return None
    return bound.root.expressions[0]
