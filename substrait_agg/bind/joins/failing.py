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
from substrait_agg.bind.rewrite import subexpressions
from substrait_agg.functions.signatures.derive import FLOATS, TEXTS, as_decimal
from substrait_agg.plan.types import INTEGER_BITS, Type

SAFE = frozenset(
    {
        "equal", "not_equal", "lt", "lte", "gt", "gte", "is_distinct_from", "is_not_distinct_from",
        "between", "is_null", "is_not_null", "is_true", "is_not_true", "is_false", "is_not_false",
        "is_unknown", "is_not_unknown", "is_nan", "is_finite", "is_infinite", "nullif", "coalesce",
        "least", "greatest", "least_skip_null", "greatest_skip_null", "and", "or", "not", "xor",
        "and_not", "upper", "lower", "reverse", "substring", "starts_with", "ends_with", "contains",
        "strpos", "ltrim", "rtrim", "trim", "char_length", "octet_length", "bit_length", "concat",
        "concat_ws", "extract", "date_part", "bitwise_and", "bitwise_or", "bitwise_xor",
        "bitwise_not", "cardinality", "list_element", "list_contains", "list_min", "list_max", "map_value",
    }
)  # fmt: skip
"""Functions that return a value or null for all arguments, unless an option says ERROR."""

ARITHMETIC = frozenset({"add", "subtract", "multiply"})
PATTERNS = frozenset({"like", "ilike"})


def can_fail(expression: Expr) -> bool:
    """Return whether computing an expression can fail, for any row."""
    return any(map(_fails, subexpressions(expression)))


def _fails(expression: Expr) -> bool:
    """Return whether the outermost operation of an expression can fail."""
    match expression:
        case Call():
            return not _is_safe(expression)
        case Conversion(type=target, input=inner, null_on_failure=to_null):
            return not (to_null or _always_converts(inner.type, target))
        case BoundNestedValue(type=type_):
            return type_.kind == "map"  # equal keys fail
        case BoundLambda() | LambdaParameter():
            return True
        case Column() | OuterColumn() | Constant() | NestedPart() | Conditional() | InList():
            return False


def _is_safe(call: Call) -> bool:
    if any(value == "ERROR" and call.function not in ARITHMETIC for _, value in call.options):
        return False
    if call.function in ARITHMETIC:
        return call.type.kind in FLOATS or _fits_decimal(call)
    if call.function in PATTERNS:
        return _is_valid_pattern(call)
    return call.function in SAFE


def _fits_decimal(call: Call) -> bool:
    """Return whether every result of decimal arithmetic fits the type of the call exactly."""
    if call.type.kind != "decimal" or len(call.arguments) != 2:
        return False
    operands = [as_decimal(a.type) for a in call.arguments]
    if any(o.kind != "decimal" for o in operands):
        return False
    (left, right), scale = (_whole_digits(o) for o in operands), call.type.params[1]
    scales = [o.params[1] for o in operands]
    if call.function == "multiply":
        return _whole_digits(call.type) >= left + right and scale >= sum(scales)
    return _whole_digits(call.type) > max(left, right) and scale >= max(scales)


def _whole_digits(type_: Type) -> int:
    return type_.params[0] - type_.params[1]


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


def _always_converts(source: Type, target: Type) -> bool:
    """Return whether every value of a type converts to another type."""
    if source.same_kind(target) or target.kind == "string":
        return True
    if source.kind in TEXTS:
        return False
    if target.kind in FLOATS:
        return source.kind in INTEGER_BITS or source.kind in ("decimal", *FLOATS)
    if target.kind in INTEGER_BITS:
        return source.kind in INTEGER_BITS and _contains(target.kind, source.kind)
    if target.kind == "decimal" and (source.kind in INTEGER_BITS or source.kind == "decimal"):
        digits = as_decimal(source)
        whole = _whole_digits(target) >= _whole_digits(digits)
        return whole and target.params[1] >= digits.params[1]
    return False


def _contains(wide: str, narrow: str) -> bool:
    """Return whether an integer type contains all values of another one."""
    unsigned = wide.startswith("u"), narrow.startswith("u")
    bits = INTEGER_BITS[wide], INTEGER_BITS[narrow]
    if unsigned[0] == unsigned[1]:
        return bits[0] >= bits[1]
    return unsigned[1] and bits[0] > bits[1]
