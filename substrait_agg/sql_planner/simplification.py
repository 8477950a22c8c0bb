"""Find queries that DataFusion simplifies to queries with other results.

DataFusion replaces a constant expression by its value. Its integers wrap around, for example, and it
truncates the quotients of decimals. It also removes casts of a side of a comparison, although the
cast rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from substrait import algebra_pb2, plan_pb2, type_pb2

from substrait_agg.bind.bound import BoundProject, BoundRelation, Call, Conversion, Expr, InList
from substrait_agg.bind.rewrite import expressions_of, inputs_of, subexpressions
from substrait_agg.bind.rewrite import parts as parts_of
from substrait_agg.errors import RunFailed
from substrait_agg.evaluation.expressions import evaluate, supports
from substrait_agg.plan.types import Type
from substrait_agg.report.checked_plan import Plan
from substrait_agg.sql_planner.corrections import correct_expressions
from substrait_agg.sql_planner.errors import panics_as_errors
from substrait_agg.sql_planner.messages import messages, parts

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
_DECIMAL_TARGETS = ("i8", "i16", "i32", "i64", "decimal")
_TEXTS = ("string", "varchar", "fixedchar")
_TIMES = ("precision_timestamp", "precision_timestamp_tz")


def is_simplified_wrongly(content: bytes, plain: bytes, context: SessionContext) -> bool:
    """Return whether DataFusion's simplification gives a plan other values than a run computes.

    Constants that only Spark can compute are not compared, but for floats and timestamps as text.

    Args:
        content: the plan as DataFusion writes it without simplification.
        plain: the same plan, corrected.
        context: the session of the plan.
    """
    plan = plan_pb2.Plan.FromString(content)
    constants = {c.SerializeToString(deterministic=True): c for c in _constants(plan)}
    differences = {_differs(plan, constant, context) for constant in constants.values()}
    if True in differences:
        return True
    bound = Plan("", plain).check().bound
    if bound is None:
        return False
    return None in differences or any(map(_compares_rounded, _expressions(bound.root)))


def _expressions(root: BoundRelation) -> Iterator[Expr]:
    """Yield all expressions of a bound plan."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        relation = waiting.pop()
        if id(relation) not in seen:
            seen.add(id(relation))
            yield from subexpressions(*expressions_of(relation))
            waiting.extend(inputs_of(relation))


def _compares_rounded(expression: Expr) -> bool:
    """Return whether a comparison has a side that a cast rounds.

    DataFusion compares the value before the cast: ``CAST(price AS bigint) = 1`` becomes ``price = 1.00``.
    """
    if isinstance(expression, InList):
        return any(map(_is_rounded, (expression.value, *expression.options)))
    is_comparison = isinstance(expression, Call) and expression.function in _COMPARISONS
    return is_comparison and any(map(_is_rounded, parts_of(expression)))


def _is_rounded(expression: Expr) -> bool:
    """Return whether an expression is a cast that rounds, or a cast of one."""
    while isinstance(expression, Conversion):
        if _rounds(expression.input.type, expression.type):
            return True
        expression = expression.input
    return False


def _rounds(before: Type, after: Type) -> bool:
    """Return whether a cast of numbers or times can give several values the same result.

    DataFusion does not remove casts of floats and texts, and casts to dates.
    """
    if before.kind == "decimal" and after.kind in _DECIMAL_TARGETS:
        digits = after.params[1] if after.kind == "decimal" else 0
        return digits < before.params[1]
    return before.kind in _TIMES and after.kind in _TIMES and after.params < before.params


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
    correct_expressions(one, {})
    expression = _bound(one)
    if expression is None or not supports(expression):
        return expression is not None and any(map(_writes_otherwise, subexpressions(expression)))
    if theirs is None:
        return None
    try:
        own = evaluate(expression, [], 1)
    except RunFailed:
        return True
    return repr(own[0].as_py()) != repr(theirs.as_py())


def _writes_otherwise(expression: Expr) -> bool:
    """Return whether an expression writes a value as another text than DataFusion.

    DataFusion puts a T before the time of a timestamp, and writes 1e19 where Spark writes 1.0E19.
    """
    if not isinstance(expression, Conversion) or expression.type.kind not in _TEXTS:
        return False
    return expression.input.type.kind in ("fp32", "fp64", *_TIMES)


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


def _bound(plan: Any) -> Expr | None:
    """Return the expression of a plan of `_plan_of`; None if it is not supported."""
    bound = Plan("", plan.SerializeToString()).check().bound
    if bound is None or not isinstance(bound.root, BoundProject):
        return None
    return bound.root.expressions[0]
