"""Bind expressions: derive types bottom-up, resolve references and make conversions explicit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from substrait_agg.bind.bound import (
    Argument,
    BoundLambda,
    BoundNestedValue,
    Call,
    Column,
    Conditional,
    Constant,
    Conversion,
    Expr,
    InList,
    LambdaParameter,
    NestedPart,
)
from substrait_agg.bind.context import (
    FRACTIONAL,
    MAX_TIME_DIGITS,
    BindContext,
    Schema,
    is_unknown,
    unknown,
)
from substrait_agg.bind.conversions import (
    can_cast,
    fits_decimal,
    is_null,
    unified_type,
    unify,
)
from substrait_agg.bind.expressions.calls import bind_call
from substrait_agg.bind.expressions.clock import bind_context_variable
from substrait_agg.bind.expressions.spark_calls import is_unnest
from substrait_agg.bind.expressions.subqueries import bind_outer_column, bind_subquery
from substrait_agg.bind.expressions.time_texts import read_time_texts
from substrait_agg.bind.rewrite import larger_than
from substrait_agg.functions.signatures.derive import common_type
from substrait_agg.plan import model
from substrait_agg.plan.types import BOOL, Type, names_width


def bind_expression(
    expression: model.Expression, schema: Schema | None, context: BindContext
) -> Expr:
    """Return the bound, typed expression over a row of `schema` (None: unknown columns).

    A part that cannot be bound is reported. It becomes an expression of unknown type, which is
    accepted everywhere.
    """
    bound = bind_projected(expression, schema, context)
    if is_unnest(bound):
        reason = "a list becomes rows only as an expression of a projection"
        context.report("SPARK_EXPRESSION_INVALID", expression.path, reason=reason)
        return unknown()
    return bound


def bind_projected(
    expression: model.Expression, schema: Schema | None, context: BindContext
) -> Expr:
    """Bind an expression of a projection, which may be the elements of a list as rows."""
    return _BINDERS[type(expression)](expression, schema, context)


def bind_condition(
    expression: model.Expression, schema: Schema | None, context: BindContext
) -> Expr:
    """Bind a condition. Report any type but boolean."""
    bound = bind_expression(expression, schema, context)
    if bound.type.kind not in ("bool", "unknown"):
        context.report("FILTER_NOT_BOOLEAN", expression.path, type=bound.type)
        return unknown()
    return bound


def bind_arguments(
    arguments: tuple[model.Expression | model.EnumArgument | model.TypeArgument, ...],
    schema: Schema | None,
    context: BindContext,
) -> tuple[Argument, ...]:
    """Bind the expressions among the arguments of a function."""
    return tuple(
        a
        if isinstance(a, model.EnumArgument | model.TypeArgument)
        else bind_expression(a, schema, context)
        for a in arguments
    )


def _literal(node: model.Literal, _schema: Schema | None, context: BindContext) -> Expr:
    if not context.check_type(node.type, node.path):
        return unknown()
    type_ = context.limit_time_digits(node.type, node.path)
    value = value_in_micros(node.value, node.type)
    if value is TOO_FINE:
        context.report("TIME_TOO_FINE", node.path, type=node.type, ticks=node.value)
        return unknown()
    return Constant(type_.as_nullable(type_.nullable or value is None), value)


def _field(node: model.FieldRef, schema: Schema | None, context: BindContext) -> Expr:
    type_ = context.column_type(schema, node.steps[0], node.path)
    bound = unknown() if type_ is None else Column(type_, node.steps[0])
    return _step_into(bound, node.steps[1:], node.path, context)


def _step_into(bound: Expr, steps: tuple[Any, ...], path: str, context: BindContext) -> Expr:
    """Return the part of a value to which steps lead."""
    for step in steps:
        bound = _part(bound, step, path, context)
    return bound


def _part_of_expression(
    node: model.ExpressionPart, schema: Schema | None, context: BindContext
) -> Expr:
    return _step_into(bind_expression(node.input, schema, context), node.steps, node.path, context)


def _part(outer: Expr, step: Any, path: str, context: BindContext) -> Expr:
    if is_unknown(outer):
        return outer
    kind, key = step if isinstance(step, tuple) else ("field", step)
    type_ = _part_type(outer.type, kind, key)
    if outer.type.kind == "map" and kind == "key":
        key = bind_expression(key, None, context)
        type_ = outer.type.children[1].as_nullable()
        if not key.type.same_kind(outer.type.children[0]):
            type_ = None
    if type_ is None:
        context.report("NESTED_STEP_INVALID", path, type=outer.type, step=_step_name(step))
        return unknown()
    return NestedPart(type_, outer, key)


def _part_type(type_: Type, kind: str, key: Any) -> Type | None:
    if (type_.kind, kind) == ("struct", "field") and 0 <= key < len(type_.children):
        child: Type = type_.children[key]
        return child.as_nullable(child.nullable or type_.nullable)
    # An offset beyond the end of a list gives null.
    return type_.children[0].as_nullable() if (type_.kind, kind) == ("list", "element") else None


def _step_name(step: Any) -> str:
    if isinstance(step, int):
        return str(step)
    kind, key = step
    return f"key {key.value!r}" if kind == "key" else f"element {key}"


def _call(node: model.ScalarCall, schema: Schema | None, context: BindContext) -> Expr:
    if nested := _find_construction(node, context):
        return _nested_value(nested, schema, context)
    bound = tuple(
        _lambda(argument, schema, context)
        if isinstance(argument, model.LambdaExpression)
        else bind_arguments((argument,), schema, context)[0]
        for argument in node.arguments
    )
    return bind_call(node, bound, context)


def _find_construction(
    node: model.ScalarCall, context: BindContext
) -> model.NestedExpression | None:
    """Return the list or struct that a function of the producer makes of its arguments."""
    kind, width = context.profile.constructors.get(node.function.name, ("", 1))
    values = node.arguments[width - 1 :: width] if kind else ()
    parts = (v for v in values if not isinstance(v, model.EnumArgument | model.TypeArgument))
    return model.NestedExpression(kind, tuple(parts), False, node.path) if values else None


def _cast(node: model.Cast, schema: Schema | None, context: BindContext) -> Expr:
    value = bind_expression(node.input, schema, context)
    if is_unknown(value) or not context.check_type(node.type, node.path):
        return unknown()
    node = replace(node, type=context.limit_time_digits(node.type, node.path))
    if not _is_defined(value, node.type, context):
        context.report("CAST_NOT_SUPPORTED", node.path, source=value.type, target=node.type)
        return unknown()
    if node.failure == "unspecified":
        context.report("CAST_FAILURE_MISSING", f"{node.path}.cast")
    to_null = node.failure == "null"
    if not node.type.nullable and (value.type.nullable or to_null):
        reason = (
            f"its input is {value.type}" if value.type.nullable else "it returns null on failure"
        )
        place = f"{node.path}.cast.type"
        context.report("CAST_NULLABILITY", place, declared=node.type, reason=reason)
    if value.type.same_kind(node.type):
        # Only nullability differs. The result is nullable exactly where the input is.
        return value
    nullable = value.type.nullable or to_null
    return Conversion(node.type.as_nullable(nullable), value, to_null)


def _is_defined(value: Expr, target: Type, context: BindContext) -> bool:
    """Return whether a cast is defined."""
    has_fields = names_width(value.type) > 1
    if has_fields and context.profile.casts_by_field_name and not is_null(value):
        return False
    return can_cast(value.type, target) and fits_decimal(target)


def _if_then(node: model.IfThen, schema: Schema | None, context: BindContext) -> Expr:
    conditions = tuple(bind_condition(condition, schema, context) for condition, _ in node.clauses)
    values = tuple(bind_expression(value, schema, context) for _, value in node.clauses)
    last = None if node.otherwise is None else bind_expression(node.otherwise, schema, context)
    nodes = (*(value for _, value in node.clauses), node.otherwise)
    return _conditional(conditions, values, last, nodes, context)


def _switch(node: model.Switch, schema: Schema | None, context: BindContext) -> Expr:
    match = bind_expression(node.match, schema, context)
    if larger_than(match, MATCH_PARTS // max(1, len(node.cases))):
        context.report("EXPRESSION_TOO_LARGE", node.path, limit=MATCH_PARTS)
        return unknown()
    cases = tuple(bind_expression(case, schema, context) for case, _ in node.cases)
    values = tuple(bind_expression(value, schema, context) for _, value in node.cases)
    if is_unknown(match, *cases):
        return unknown()
    nodes = (node.match, *(case for case, _ in node.cases))
    unified = _unify_compared("the switch", (match, *cases), nodes, context)
    if unified is None:
        return unknown()
    _check_cases(node, context)
    match, *literals = unified
    conditions = tuple(_equals(match, literal) for literal in literals)
    last = None if node.otherwise is None else bind_expression(node.otherwise, schema, context)
    results = (*(value for _, value in node.cases), node.otherwise)
    return _conditional(conditions, values, last, results, context)


def _check_cases(node: model.Switch, context: BindContext) -> None:
    """Report cases that never apply because an earlier case has the same value."""
    first: dict[object, int] = {}
    for position, (case, _) in enumerate(node.cases):
        earlier = first.setdefault((case.type.kind, case.value), position)
        if earlier != position:
            context.report("CASE_REPEATED", case.path, case=position, earlier=earlier)


def _equals(left: Expr, right: Expr) -> Expr:
    nullable = left.type.nullable or right.type.nullable
    return Call(BOOL.as_nullable(nullable), "equal", (left, right))


def _conditional(
    conditions: tuple[Expr, ...],
    values: tuple[Expr, ...],
    otherwise: Expr | None,
    nodes: tuple[model.Expression | None, ...],
    context: BindContext,
) -> Expr:
    first = next((v.type for v in values), BOOL)
    last = Constant(first.as_nullable(), None) if otherwise is None else otherwise
    unified = _unify((*values, last), nodes, context)
    if unified is None:
        return unknown()
    if is_unknown(*conditions, *unified):
        return unknown()
    clauses = tuple(zip(conditions, unified[:-1], strict=True))
    return Conditional(unified_type(unified), clauses, unified[-1])


def _or_list(node: model.SingularOrList, schema: Schema | None, context: BindContext) -> Expr:
    value = bind_expression(node.value, schema, context)
    options = tuple(bind_expression(option, schema, context) for option in node.options)
    if not options:
        context.report("IN_LIST_EMPTY", node.path)
    unified = _unify_compared(
        "the IN list", (value, *options), (node.value, *node.options), context
    )
    if unified is None or is_unknown(*unified):
        return unknown()
    nullable = any(e.type.nullable for e in unified)
    return InList(BOOL.as_nullable(nullable), unified[0], unified[1:])


def _unify_compared(
    what: str,
    values: tuple[Expr, ...],
    nodes: tuple[model.Expression, ...],
    context: BindContext,
) -> tuple[Expr, ...] | None:
    """Unify values that are compared. Read text literals as dates or times where needed."""
    read = read_time_texts(what, values, [node.path for node in nodes], context)
    return None if read is None else _unify(read, nodes, context)


def _unify(
    values: tuple[Expr, ...], nodes: tuple[model.Expression | None, ...], context: BindContext
) -> tuple[Expr, ...] | None:
    """Convert the values to their common type, or report that they have none and return None.

    The report points to the first value that does not fit.
    """
    unified = unify(values)
    written = [(v, n.path) for v, n in zip(values, nodes, strict=True) if n is not None]
    if unified is None:
        path = _first_unlike(written)
        types = ", ".join(dict.fromkeys(str(v.type) for v in values))
        context.report("BRANCH_TYPES_DIFFER", path, types=types)
        return None
    if is_unknown(*values):
        return unified
    common = unified[0].type
    for value, path in written:
        if not value.type.same_kind(common) and not is_null(value):
            context.report("BRANCHES_CONVERTED", path, type=value.type, common=common)
            break
    return unified


def _first_unlike(written: list[tuple[Expr, str]]) -> str:
    """Return the path of the first value that has no common type with the values before it."""
    typed = [(v.type, path) for v, path in written if not is_null(v)]
    common, last = typed[0]
    for type_, path in typed[1:]:
        last = path
        shared = common_type((common, type_))
        if shared is None:
            break
        common = shared
    return last


def _refuse_lambda(
    node: model.LambdaExpression, _schema: Schema | None, context: BindContext
) -> Expr:
    """Report a lambda that is not an argument of a scalar function."""
    context.report("EXPRESSION_NOT_SUPPORTED", node.path, kind="lambda outside a call")
    return unknown()


def _lambda(node: model.LambdaExpression, schema: Schema | None, context: BindContext) -> Expr:
    if not all(context.check_column(type_, node.path) for type_ in node.parameters):
        return unknown()
    parameters = tuple(context.limit_time_digits(type_, node.path) for type_ in node.parameters)
    inside = replace(context, parameters=(*context.parameters, parameters))
    body = bind_expression(node.body, schema, inside)
    if is_unknown(body):
        return unknown()
    return BoundLambda(Type("func", nullable=False, children=(body.type, *parameters)), body)


def _parameter(node: model.ParameterRef, _schema: Schema | None, context: BindContext) -> Expr:
    ordinal, depth = node.steps[0], len(context.parameters)
    around = context.parameters[depth - 1 - node.steps_out] if node.steps_out < depth else ()
    if not context.in_range(around, ordinal, node.path):
        return unknown()
    parameter = LambdaParameter(around[ordinal], node.steps_out, ordinal)
    return _step_into(parameter, node.steps[1:], node.path, context)


def _nested_value(
    node: model.NestedExpression, schema: Schema | None, context: BindContext
) -> Expr:
    parts = tuple(bind_expression(part, schema, context) for part in node.parts)
    if is_unknown(*parts):
        return unknown()
    children: list[Type] = []
    # All keys of a map share one type, and so do its values and the elements of a list.
    for first, step in {"struct": (), "list": ((0, 1),), "map": ((0, 2), (1, 2))}[node.kind]:
        alike = _unify(parts[first::step], node.parts[first::step], context)
        if alike is None:
            return unknown()
        parts = _with_replaced(parts, first, step, alike)
        children.append(unified_type(alike))
    type_ = Type(node.kind, node.nullable, children=tuple(children) or tuple(p.type for p in parts))
    return BoundNestedValue(type_, parts) if context.check_type(type_, node.path) else unknown()


def _with_replaced(
    parts: tuple[Expr, ...], first: int, step: int, alike: tuple[Expr, ...]
) -> tuple[Expr, ...]:
    """Replace every `step`-th part from `first` on."""
    changed = list(parts)
    changed[first::step] = alike
    return tuple(changed)


def constant_in(expression: Expr) -> Constant | None:
    """Return the constant that a condition consists of, or None. A converted null counts as one."""
    plain = expression
    while isinstance(plain, Conversion):
        plain = plain.input
    if not isinstance(plain, Constant) or is_unknown(plain):
        return None
    return plain if plain is expression or plain.value is None else None


def _outer(node: model.OuterRef, _schema: Schema | None, context: BindContext) -> Expr:
    return _step_into(bind_outer_column(node, context), node.steps[1:], node.path, context)


def _subquery(node: model.Subquery, schema: Schema | None, context: BindContext) -> Expr:
    values = tuple(bind_expression(value, schema, context) for value in node.values)
    return bind_subquery(node, values, schema, context)


def _variable(node: model.ContextVariable, schema: Schema | None, context: BindContext) -> Expr:
    return bind_context_variable(node, None if schema is None else len(schema), context)


def _window(node: model.WindowCall, schema: Schema | None, context: BindContext) -> Expr:
    return unknown() if context.bind_window is None else context.bind_window(node, schema, context)


def _refuse(node: model.Unsupported, schema: Schema | None, context: BindContext) -> Expr:
    context.apart.extend(node.inputs)
    for inner in node.expressions:
        bind_expression(inner, schema, context)
    return unknown()


MATCH_PARTS = 20_000
"""Limit on the cases of a switch times the parts of its match expression.

Binding copies the match into every case. Nested switches multiply, so the product is limited.
"""

_BINDERS: dict[type, Callable[[Any, Schema | None, BindContext], Expr]] = {
    model.Literal: _literal,
    model.FieldRef: _field,
    model.ScalarCall: _call,
    model.Cast: _cast,
    model.IfThen: _if_then,
    model.Switch: _switch,
    model.SingularOrList: _or_list,
    model.NestedExpression: _nested_value,
    model.LambdaExpression: _refuse_lambda,
    model.ParameterRef: _parameter,
    model.OuterRef: _outer,
    model.ExpressionPart: _part_of_expression,
    model.Subquery: _subquery,
    model.ContextVariable: _variable,
    model.WindowCall: _window,
    model.Unsupported: _refuse,
}


TOO_FINE = object()
"""Marks a value that has digits finer than a microsecond."""


def value_in_micros(value: Any, type_: Type) -> Any:
    """Return the value in microseconds if its type has more digits, or `TOO_FINE`.

    The value has the form of `plan.model.Literal`. A compound interval keeps its type and value,
    because it occurs in expressions only.
    """
    if value is None:
        return None
    if type_.kind in FRACTIONAL or type_.kind == "interval_compound":
        return _cut(value, type_)
    if not type_.children:
        return value
    if type_.kind == "map":
        pairs = [
            tuple(value_in_micros(v, t) for v, t in zip(p, type_.children, strict=True))
            for p in value
        ]
        return TOO_FINE if any(TOO_FINE in pair for pair in pairs) else tuple(pairs)
    types = type_.children if type_.kind == "struct" else type_.children * len(value)
    parts = tuple(value_in_micros(v, t) for v, t in zip(value, types, strict=True))
    return TOO_FINE if any(part is TOO_FINE for part in parts) else parts


def _cut(value: Any, type_: Type) -> Any:
    step = 10 ** max(0, type_.params[0] - MAX_TIME_DIGITS) if type_.params else 1
    ticks = value[-1] if isinstance(value, tuple) else value
    if ticks % step:
        return TOO_FINE
    if step == 1 or type_.kind == "interval_compound":
        return value
    return (*value[:-1], ticks // step) if isinstance(value, tuple) else ticks // step
