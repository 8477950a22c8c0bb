"""Determine which expressions can fail at run time.

An expression that cannot fail may be computed for rows that the plan would have removed before.
"""

from __future__ import annotations

from substrait_agg.bind.bound import (
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
    OuterColumn,
)
from substrait_agg.bind.conversions import always_converts, whole_digits
from substrait_agg.bind.rewrite import subexpressions
from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.functions.signatures.derive import FLOATS, TEXTS, as_decimal


def can_fail(expression: Expr) -> bool:
    """Return whether computing an expression can fail, for any row."""
    return any(map(operation_can_fail, subexpressions(expression)))


def operation_can_fail(expression: Expr) -> bool:
    """Return whether the outermost operation of an expression can fail for values of its operands."""
    match expression:
        case Call():
            return _call_can_fail(expression)
        case Conversion(type=target, input=inner, null_on_failure=to_null):
            return not (to_null or always_converts(inner.type, target))
        case BoundNestedValue(type=type_):
            return type_.kind == "map"  # equal keys fail
        case BoundLambda() | LambdaParameter():
            return True
        case Column() | OuterColumn() | Constant() | NestedPart() | Conditional() | InList():
            return False


def _call_can_fail(call: Call) -> bool:
    row = SCALARS.get(call.function)
    match row.fails if row is not None else "maybe":
        case "never":
            return "ERROR" in dict(call.options).values()
        case "overflow":
            return not (call.type.kind in FLOATS or _fits_decimal(call))
        case "pattern":
            return not _is_valid_pattern(call)
        case "maybe":
            return True


def _fits_decimal(call: Call) -> bool:
    """Return whether every result of decimal arithmetic fits the type of the call exactly."""
    if call.type.kind != "decimal" or len(call.arguments) != 2:
        return False
    operands = [as_decimal(a.type) for a in call.arguments]
    if any(o.kind != "decimal" for o in operands):
        return False
    (left, right), scale = (whole_digits(o) for o in operands), call.type.params[1]
    scales = [o.params[1] for o in operands]
    if call.function == "multiply":
        return whole_digits(call.type) >= left + right and scale >= sum(scales)
    return whole_digits(call.type) > max(left, right) and scale >= max(scales)


def _is_valid_pattern(call: Call) -> bool:
    """Return whether the escape characters of a constant pattern escape something."""
    pattern = without_text_casts(call.arguments[1])
    escape = without_text_casts(call.arguments[2]) if len(call.arguments) > 2 else None
    if not (isinstance(pattern, Constant) and isinstance(pattern.value, str)):
        return False
    if escape is None:
        return True
    if not (isinstance(escape, Constant) and isinstance(escape.value, str)):
        return False
    text, sign = pattern.value, escape.value
    at = text.find(sign)
    while at >= 0:
        if at + 1 == len(text) or text[at + 1] not in ("%", "_", sign):
            return False
        at = text.find(sign, at + 2)
    return True


def without_text_casts(expression: Expr) -> Expr:
    """Return the constant text whose cast to another kind of text has the same value.

    Every other expression is returned as it is.
    """
    inner = expression
    while isinstance(inner, Conversion) and inner.type.kind == "string":
        inner = inner.input
    is_text = isinstance(inner, Constant) and inner.type.kind in TEXTS
    return inner if is_text else expression
