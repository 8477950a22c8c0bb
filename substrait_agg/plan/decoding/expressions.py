"""Read ``Expression`` messages, and the parts common to all functions: arguments, options, sorts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from substrait_agg.plan.decoding.context import DecodeContext
from substrait_agg.plan.decoding.references import find_steps_out, read_steps
from substrait_agg.plan.decoding.types import BROKEN, type_of
from substrait_agg.plan.messages.node import MessageNode, children, structure
from substrait_agg.plan.model import (
    Cast,
    ContextVariable,
    EnumArgument,
    Expression,
    ExpressionPart,
    FieldRef,
    FunctionName,
    IfThen,
    LambdaExpression,
    Literal,
    MeasureCall,
    NestedExpression,
    OptionPreferences,
    OuterRef,
    ParameterRef,
    Relation,
    ScalarCall,
    SingularOrList,
    SortField,
    Subquery,
    SubqueryKind,
    Switch,
    TypeArgument,
    Unsupported,
    WindowBound,
    WindowCall,
)
from substrait_agg.plan.types import BOOL, INTEGER_BITS, Type

Argument = Expression | EnumArgument | TypeArgument

_EQUAL = FunctionName("equal", "any_any", "functions_comparison", "equal:any_any")

_NULLABLE = 1
_FAILURES = {0: "unspecified", 1: "null", 2: "throw"}
_DIRECTIONS = {
    0: "unspecified",
    1: "asc_nulls_first",
    2: "asc_nulls_last",
    3: "desc_nulls_first",
    4: "desc_nulls_last",
    5: "clustered",
}
_PHASES = {
    0: "unspecified",
    1: "initial_to_intermediate",
    2: "intermediate_to_intermediate",
    3: "initial_to_result",
    4: "intermediate_to_result",
}
_INVOCATIONS = {0: "unspecified", 1: "all", 2: "distinct"}
_BOUNDS_TYPES = {0: "unspecified", 1: "rows", 2: "range"}


def read_expression(node: MessageNode, context: DecodeContext) -> Expression | EnumArgument:
    """Return the expression of an ``Expression`` message.

    An enumeration in an argument list of the older form is returned as `EnumArgument`.
    """
    kind = node.which("rex_type")
    if kind is None:
        context.report_missing(node, "rex_type")
        return Unsupported("none", node.path)
    if kind == "detached_expression_ordinal":
        return _refer(node, kind)
    body = node.message(kind)
    reader = _READERS.get(kind)
    if body is None or reader is None:
        return refuse(node, kind, context)
    return reader(node, body, context)


def refuse(node: MessageNode, kind: str, context: DecodeContext, name: str = "") -> Unsupported:
    """Report an expression of a kind that is not supported; `name` is more exact than `kind`."""
    context.report("EXPRESSION_NOT_SUPPORTED", node.at(kind), kind=name or kind)
    node.taken.add(kind)
    body = node.values.get(kind)
    if not isinstance(body, MessageNode):
        return Unsupported(kind, node.path)
    body.refuse()
    return Unsupported(kind, node.path, *inside(body))


def inside(body: MessageNode) -> tuple[tuple[Relation, ...], tuple[Expression, ...]]:
    """Return the outermost relations and expressions in a message that is not read, in plan order."""
    relations: list[Relation] = []
    expressions_: list[Expression] = []
    waiting = [*children(body)][::-1]
    while waiting:
        node = waiting.pop()
        if node.shape.name == "Rel" and node.result is not None:
            relations.append(node.result)
        elif node.shape.name == "Expression" and node.result is not None:
            if not isinstance(node.result, EnumArgument):
                expressions_.append(node.result)
        else:
            waiting += [*children(node)][::-1]
    return tuple(relations), tuple(expressions_)


def _refer(node: MessageNode, kind: str) -> Expression:
    """Return a subtree that is written elsewhere; `result` was set before."""
    node.take(kind)
    target: Expression = node.result
    return target


def expression(
    node: MessageNode,
    name: str,
    context: DecodeContext,
    read: Callable[[MessageNode, DecodeContext], Expression] | None = None,
) -> Expression:
    """Return the expression in field `name`; report it if it is missing.

    `read` reads a field that is not an ``Expression`` message.
    """
    child = node.message(name)
    if child is None:
        context.report_missing(node, name)
        return Unsupported("none", node.at(name))
    return (read or as_expression)(child, context)


def optional(node: MessageNode, name: str, context: DecodeContext) -> Expression | None:
    """Return the expression in field `name`, or None."""
    child = node.message(name)
    return None if child is None else as_expression(child, context)


def expressions(node: MessageNode, name: str, context: DecodeContext) -> tuple[Expression, ...]:
    """Return the expressions in a repeated field."""
    return tuple(as_expression(child, context) for child in node.messages(name))


def as_expression(child: MessageNode, context: DecodeContext) -> Expression:
    """Return a decoded ``Expression`` message; report an enumeration, which is not allowed here."""
    decoded: Expression | EnumArgument = child.result
    if isinstance(decoded, EnumArgument):
        context.report("EXPRESSION_NOT_SUPPORTED", child.at("enum"), kind="enum")
        return Unsupported("enum", child.path)
    return decoded


# --- parts of functions ------------------------------------------------------------------------


def arguments(node: MessageNode, context: DecodeContext) -> tuple[Argument, ...]:
    """Return the arguments of a function, from field ``arguments`` or the older ``args``."""
    new, old = node.messages("arguments"), node.messages("args")
    if not old:
        return tuple(_argument(item, context) for item in new)
    context.report_removed(node, "args", "0.93")
    if not new:
        return tuple(item.result for item in old)
    if not _say_the_same(new, old):
        context.report("FIELD_CONFLICT", node.at("args"), field="args", other="arguments")
    return tuple(_argument(item, context) for item in new)


def _say_the_same(new: list[MessageNode], old: list[MessageNode]) -> bool:
    identities: dict[Any, int] = {}
    if len(new) != len(old):
        return False
    for argument, plain in zip(new, old, strict=True):
        kind = argument.which("arg_type")
        if kind == "value" and structure(argument.values[kind], identities) != structure(
            plain, identities
        ):
            return False
        if kind == "enum":
            written = plain.result
            if not isinstance(written, EnumArgument) or written.value != argument.values[kind]:
                return False
    return True


def _argument(node: MessageNode, context: DecodeContext) -> Argument:
    kind = node.which("arg_type")
    if kind == "enum":
        return EnumArgument(node.text(kind), node.path)
    child = node.message(kind) if kind else None
    if child is None:
        context.report_missing(node, "arg_type")
        return Unsupported("none", node.path)
    argument: Argument = TypeArgument(child.result, node.path) if kind == "type" else child.result
    return argument


def options(node: MessageNode) -> tuple[OptionPreferences, ...]:
    """Return the options of a function with their preferences."""
    return tuple(
        OptionPreferences(item.text("name"), tuple(item.scalars("preference")), item.path)
        for item in node.messages("options")
    )


def output_type(node: MessageNode) -> Type | None:
    """Return the type that a function declares, or None."""
    child = node.message("output_type")
    type_: Type | None = None if child is None else child.result
    return type_


def sort_fields(node: MessageNode, context: DecodeContext) -> tuple[SortField, ...]:
    """Return the ``sorts`` of a function or relation."""
    return tuple(_sort_field(item, context) for item in node.messages("sorts"))


def _sort_field(node: MessageNode, context: DecodeContext) -> SortField:
    key = expression(node, "expr", context)
    if node.has("comparison_function_reference"):
        comparison = context.function(node.number("comparison_function_reference"))
        return SortField(key, "comparison", comparison, node.path)
    direction = word(node, "direction", _DIRECTIONS, context)
    return SortField(key, direction, None, node.path)


def function_call(
    body: MessageNode,
    sorts: tuple[SortField, ...],
    condition: Expression | None,
    context: DecodeContext,
) -> MeasureCall:
    """Return the call of an aggregate or window function, from the fields that both messages have."""
    return MeasureCall(
        function=context.function(body.number("function_reference")),
        arguments=arguments(body, context),
        options=options(body),
        output_type=output_type(body),
        phase=word(body, "phase", _PHASES, context),
        invocation=word(body, "invocation", _INVOCATIONS, context),
        sorts=sorts,
        filter=condition,
        path=body.path,
    )


def window_call(
    body: MessageNode,
    partitions: tuple[Expression, ...],
    sorts: tuple[SortField, ...],
    path: str,
    context: DecodeContext,
) -> WindowCall:
    """Return the window function call of a message; partitions and order may be written elsewhere."""
    return WindowCall(
        call=function_call(body, sorts, None, context),
        partitions=partitions,
        bounds_type=word(body, "bounds_type", _BOUNDS_TYPES, context),
        lower=_decode_bound(body, "lower_bound", context),
        upper=_decode_bound(body, "upper_bound", context),
        path=path,
    )


def _decode_bound(body: MessageNode, name: str, context: DecodeContext) -> WindowBound:
    bound = body.message(name)
    if bound is None:
        return WindowBound("missing")
    match bound.which("kind"):
        case "unbounded":
            bound.message("unbounded")
            return WindowBound("unbounded")
        case "current_row":
            bound.message("current_row")
            return WindowBound("current_row")
        case "preceding":
            return WindowBound("preceding", *_distance(bound.message("preceding"), context))
        case "following":
            return WindowBound("following", *_distance(bound.message("following"), context))
    context.report_missing(bound, "kind")
    return WindowBound("missing")


def _distance(
    bound: MessageNode | None, context: DecodeContext
) -> tuple[int | None, Literal | None]:
    """Return the distance of a bound as an integer and as a literal; None if it is no such constant."""
    if bound is None:
        return None, None
    offset = bound.number("offset")
    literal: Literal | None = None
    distance: int | None = offset
    path = bound.at("offset")
    if bound.has("offset_expr"):
        written, path = expression(bound, "offset_expr", context), bound.at("offset_expr")
        literal = written if isinstance(written, Literal) and written.value is not None else None
        is_integer = literal is not None and literal.type.kind in INTEGER_BITS
        distance = literal.value if literal is not None and is_integer else None
        if offset and offset != distance:
            context.report("FIELD_CONFLICT", path, field="offset_expr", other=f"offset = {offset}")
    if _is_below_zero(distance if literal is None else literal.value):
        reason = "is below zero: a bound on the other side of the row is of the other kind"
        context.report("VALUE_INVALID", path, field="offset", reason=reason)
    elif distance == 0:
        context.report("WINDOW_DISTANCE_ZERO", bound.path)
    return distance, literal


def _is_below_zero(distance: object) -> bool:
    """Return whether a number is below zero, or a part of an interval and none above."""
    parts = distance if isinstance(distance, tuple) else (distance,)
    numbers = [part for part in parts if isinstance(part, int)]
    return min(numbers, default=0) < 0 and max(numbers) <= 0


def word(node: MessageNode, name: str, words: dict[int, str], context: DecodeContext) -> str:
    """Return the word for an enum value; report an unknown value and return ``invalid``."""
    number = node.number(name)
    if number not in words:
        reason = f"has the unknown value {number}"
        context.report("VALUE_INVALID", node.at(name), field=name, reason=reason)
    return words.get(number, "invalid")


# --- one function per kind of expression ---------------------------------------------------------


def _literal(node: MessageNode, body: MessageNode, context: DecodeContext) -> Expression:
    literal: Expression = body.result
    return literal


def _scalar_function(node: MessageNode, body: MessageNode, context: DecodeContext) -> Expression:
    function = context.function(body.number("function_reference"))
    operands = arguments(body, context)
    return ScalarCall(function, operands, options(body), output_type(body), node.path)


def _cast(node: MessageNode, body: MessageNode, context: DecodeContext) -> Expression:
    target = body.message("type")
    if target is None:
        context.report_missing(body, "type")
    type_ = BROKEN if target is None else target.result
    failure = word(body, "failure_behavior", _FAILURES, context)
    return Cast(expression(body, "input", context), type_, failure, node.path)


def _if_then(node: MessageNode, body: MessageNode, context: DecodeContext) -> Expression:
    written = body.messages("ifs")
    if context.datafusion and written and not written[0].has("then"):
        return _case_of(node, body, context)
    clauses = tuple(
        (expression(clause, "if", context), expression(clause, "then", context))
        for clause in written
    )
    if not clauses:
        context.report_missing(body, "ifs")
    return IfThen(clauses, optional(body, "else", context), node.path)


def _case_of(node: MessageNode, body: MessageNode, context: DecodeContext) -> Expression:
    """Read ``CASE x WHEN a THEN b``, which DataFusion writes with `x` as a condition without a value."""
    first, *others = body.messages("ifs")
    context.report("CASE_IN_FIRST_CLAUSE", first.path, producer="DataFusion")
    base = expression(first, "if", context)
    clauses = tuple(
        (expression(clause, "if", context), expression(clause, "then", context))
        for clause in others
    )
    otherwise = optional(body, "else", context)
    cases = tuple((case, value) for case, value in clauses if isinstance(case, Literal))
    if len(cases) == len(clauses):
        return Switch(base, cases, otherwise, node.path)
    if not isinstance(base, FieldRef | Literal):
        # The base would be copied for every condition, so nested cases would grow exponentially.
        kind = "case of an expression with conditions that are not constants"
        context.report("EXPRESSION_NOT_SUPPORTED", first.at("if"), kind=kind)
    equals = tuple((_equal(base, case), value) for case, value in clauses)
    return IfThen(equals, otherwise, node.path)


def _equal(left: Expression, right: Expression) -> Expression:
    return ScalarCall(_EQUAL, (left, right), (), BOOL, right.path)


def _switch(node: MessageNode, body: MessageNode, context: DecodeContext) -> Expression:
    cases = []
    if not body.messages("ifs"):
        context.report_missing(body, "ifs")
    for case in body.messages("ifs"):
        literal = case.message("if")
        value = expression(case, "then", context)
        if literal is None:
            context.report_missing(case, "if")
        elif isinstance(literal.result, Literal):
            cases.append((literal.result, value))
    matched = expression(body, "match", context)
    return Switch(matched, tuple(cases), optional(body, "else", context), node.path)


def _singular_or_list(node: MessageNode, body: MessageNode, context: DecodeContext) -> Expression:
    value = expression(body, "value", context)
    return SingularOrList(value, expressions(body, "options", context), node.path)


def _decode_nested(node: MessageNode, body: MessageNode, context: DecodeContext) -> Expression:
    kind = body.which("nested_type")
    inner = body.message(kind) if kind else None
    if kind is None or inner is None:
        context.report_missing(body, "nested_type")
        return Unsupported("nested", node.path)
    nullable = bool(body.take("nullable"))
    if kind == "map":
        pairs = inner.messages("key_values")
        parts = tuple(expression(p, name, context) for p in pairs for name in ("key", "value"))
    else:
        parts = expressions(inner, "fields" if kind == "struct" else "values", context)
    if not parts:
        # The type follows from the parts; an empty list or map is a literal.
        context.report_missing(
            inner, {"struct": "fields", "list": "values", "map": "key_values"}[kind]
        )
        return Unsupported("nested", node.path)
    return NestedExpression(kind, parts, nullable, node.path)


def _window(node: MessageNode, body: MessageNode, context: DecodeContext) -> Expression:
    partitions = expressions(body, "partitions", context)
    return window_call(body, partitions, sort_fields(body, context), node.path, context)


def _lambda(node: MessageNode, body: MessageNode, context: DecodeContext) -> Expression:
    struct = body.message("parameters")
    if struct is None:
        context.report_missing(body, "parameters")
        return Unsupported("lambda", node.path)
    if struct.number("nullability") == _NULLABLE:
        reason = "is nullable, but the parameters as a whole cannot be"
        context.report(
            "VALUE_INVALID", struct.at("nullability"), field="nullability", reason=reason
        )
    parameters = tuple(child.result for child in struct.messages("types"))
    return LambdaExpression(parameters, expression(body, "body", context), node.path)


def _subquery(node: MessageNode, body: MessageNode, context: DecodeContext) -> Expression:
    kind = body.which("subquery_type")
    inner = body.message(kind) if kind else None
    reader = _SUBQUERIES.get(kind or "")
    if kind is None or inner is None or reader is None:
        return refuse(node, "subquery", context)
    relation_field, needles, read = reader
    relation, read_kind = inner.message(relation_field), read(inner, context)
    if read_kind is None:
        return refuse(node, "subquery", context, _UNSUPPORTED_SUBQUERIES[kind])
    if relation is None:
        context.report_missing(inner, relation_field)
        return Unsupported("subquery", node.path)
    if needles == "left":
        values: tuple[Expression, ...] = (expression(inner, needles, context),)
    else:
        values = expressions(inner, needles, context) if needles else ()
    if needles and not values:
        context.report_missing(inner, needles)
        return Unsupported("subquery", node.path, (relation.result,))
    return Subquery(read_kind, values, relation.result, node.path)


def _context_variable(node: MessageNode, body: MessageNode, context: DecodeContext) -> Expression:
    name = body.which("execution_context_variable_type")
    type_ = body.message(name) if name in _VARIABLES else None
    if name is None or type_ is None:
        return refuse(node, "execution_context_variable", context, name or "")
    return ContextVariable(name, type_of(_VARIABLES[name], type_, context), node.path)


def _exists(node: MessageNode, context: DecodeContext) -> SubqueryKind | None:
    return "exists" if word(node, "predicate_op", _PREDICATES, context) == "exists" else None


def _compared_set(node: MessageNode, context: DecodeContext) -> SubqueryKind | None:
    reduction = word(node, "reduction_op", _REDUCTIONS, context)
    comparison = word(node, "comparison_op", _COMPARISONS, context)
    return _SET_COMPARISONS.get((reduction, comparison))


_PREDICATES = {0: "unspecified", 1: "exists", 2: "unique"}
_REDUCTIONS = {0: "unspecified", 1: "any", 2: "all"}
_VARIABLES = {"current_timestamp": "precision_timestamp_tz", "current_date": "date"}
"""Variable of the execution -> kind of its type."""

_COMPARISONS = {0: "unspecified", 1: "equal", 2: "not_equal", 3: "lt", 4: "gt", 5: "lte", 6: "gte"}
_SET_COMPARISONS: dict[tuple[str, str], SubqueryKind] = {
    ("any", "equal"): "in",
    ("all", "not_equal"): "not_in",
}
"""Comparisons with all rows of a subquery that are IN or NOT IN."""

_UNSUPPORTED_SUBQUERIES = {
    "set_predicate": "subquery with a predicate other than EXISTS",
    "set_comparison": "subquery compared with ANY or ALL other than = ANY and <> ALL",
}

_SUBQUERIES: dict[
    str, tuple[str, str, Callable[[MessageNode, DecodeContext], SubqueryKind | None]]
] = {
    "scalar": ("input", "", lambda _node, _context: "scalar"),
    "in_predicate": ("haystack", "needles", lambda _node, _context: "in"),
    "set_predicate": ("tuples", "", _exists),
    "set_comparison": ("right", "left", _compared_set),
}
"""Kind of a subquery -> the fields of its relation and of its values, and what it computes."""


def _enum(node: MessageNode, body: MessageNode, context: DecodeContext) -> EnumArgument:
    context.report_removed(node, "enum", "0.93")
    unspecified = body.message("unspecified")
    return EnumArgument("" if unspecified is not None else body.text("specified"), node.path)


def _selection(node: MessageNode, body: MessageNode, context: DecodeContext) -> Expression:
    """Return the column of reference `body`, whose problems have the path of `node`."""
    root = body.which("root_type")
    parameter = body.message(root) if root == "lambda_parameter_reference" else None
    steps_out = find_steps_out(node, body) if root == "outer_reference" else None
    read = parameter is not None or steps_out is not None
    if root not in (None, "root_reference", "expression") and not read:
        return _refused_root(node, body, root, context)
    kind = body.which("reference_type")
    segment = body.message("direct_reference") if kind == "direct_reference" else None
    if kind is None:
        what = "reference without a target"
        context.report("EXPRESSION_NOT_SUPPORTED", body.path, kind=what)
        return Unsupported("selection", node.path)
    if segment is None:
        return refuse(body, kind, context)
    steps = read_steps(segment)
    of_expression = root == "expression"
    if steps is None or not (of_expression or isinstance(steps[0], int)):
        context.report("EXPRESSION_NOT_SUPPORTED", segment.path, kind="reference without a column")
        return Unsupported("selection", node.path)
    if of_expression:
        return ExpressionPart(expression(body, "expression", context), steps, node.path)
    if parameter is not None:
        return ParameterRef(parameter.number("steps_out"), steps, node.path)
    if steps_out is not None:
        return OuterRef(steps_out, steps, node.path)
    if root is None:
        context.report_once("REFERENCE_ROOT_MISSING", body.path)
    return FieldRef(steps, node.path)


def field_reference(node: MessageNode, context: DecodeContext) -> Expression:
    """Return the column of a ``FieldReference`` message outside of an expression."""
    return _selection(node, node, context)


def _refused_root(
    node: MessageNode, body: MessageNode, root: str | None, context: DecodeContext
) -> Expression:
    """Report a reference whose root is a relation elsewhere in the plan."""
    context.report("EXPRESSION_NOT_SUPPORTED", body.path, kind=f"selection with {root}")
    body.refuse()
    return Unsupported("selection", node.path, *inside(body))


_READERS: dict[
    str, Callable[[MessageNode, MessageNode, DecodeContext], Expression | EnumArgument]
] = {
    "literal": _literal,
    "selection": _selection,
    "scalar_function": _scalar_function,
    "if_then": _if_then,
    "switch_expression": _switch,
    "singular_or_list": _singular_or_list,
    "cast": _cast,
    "nested": _decode_nested,
    "lambda": _lambda,
    "subquery": _subquery,
    "execution_context_variable": _context_variable,
    "window_function": _window,
    "enum": _enum,
}
