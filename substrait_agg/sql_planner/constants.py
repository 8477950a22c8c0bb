"""Find constants that DataFusion computes otherwise than a run does.

DataFusion replaces a constant expression by its value when it optimizes a query. Its integers wrap
around, for example, and it truncates the quotients of decimals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from substrait import algebra_pb2, plan_pb2, type_pb2

from substrait_agg.bind.bound import BoundProject, Conversion, Expr
from substrait_agg.bind.rewrite import subexpressions
from substrait_agg.errors import RunFailed
from substrait_agg.evaluation.expressions import evaluate, supports
from substrait_agg.report.checked_plan import Plan
from substrait_agg.sql_planner.corrections import correct_expressions
from substrait_agg.sql_planner.messages import messages, parts

if TYPE_CHECKING:
    from datafusion import SessionContext

SIMPLIFY = "simplify_expressions"
"""The rule of DataFusion's optimizer that computes constants."""

_EXPRESSION = "substrait.Expression"
_COMPUTED = ("scalar_function", "cast", "singular_or_list", "if_then")
"""Kinds of expressions that have a value of their own."""
_NOT_CONSTANT = ("selection", "subquery", "window_function", "dynamic_parameter")


def has_other_constants(content: bytes, context: SessionContext) -> bool:
    """Return whether a run computes another value than DataFusion for a constant, or fails.

    Constants that only Spark can compute are not compared, but for timestamps as text.

    Args:
        content: a plan of DataFusion whose constants are not computed yet.
        context: the session of the plan.
    """
    plan = plan_pb2.Plan.FromString(content)
    constants = {c.SerializeToString(deterministic=True): c for c in _constants(plan)}
    return any(_differs(plan, constant, context) for constant in constants.values())


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


def _differs(plan: Any, constant: Any, context: SessionContext) -> bool:
    one = _plan_of(plan, constant)
    theirs = _value_of_datafusion(one, context)
    correct_expressions(one, {})
    expression = _bound(one)
    if theirs is None or expression is None:
        return False
    if not supports(expression):
        return any(map(_writes_time, subexpressions(expression)))
    try:
        own = evaluate(expression, [], 1)
    except RunFailed:
        return True
    return repr(own[0].as_py()) != repr(theirs.as_py())


def _writes_time(expression: Expr) -> bool:
    """Return whether an expression writes a timestamp as text. DataFusion puts a T before the time."""
    return (
        isinstance(expression, Conversion)
        and expression.type.kind in ("string", "varchar", "fixedchar")
        and expression.input.type.kind.startswith("precision_timestamp")
    )


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
