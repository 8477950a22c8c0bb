"""Arithmetic of Spark as that of Substrait, with Spark's types, values and errors.

A decimal result is declared with the type that Spark gives it. It is rounded to that type once, half
away from zero.
"""

from __future__ import annotations

from decimal import Decimal

from substrait_agg.spark.catalyst.analyzed.tree import SparkTree
from substrait_agg.spark.catalyst.translation.scope import (
    Scope,
    any_nullable,
    cast,
    decimal_cast,
    not_supported,
    null,
)
from substrait_agg.spark.catalyst.translation.types import (
    INTEGERS,
    MOST_DIGITS,
    SparkType,
    Typed,
    decimal,
)

_KEPT_SCALE = 6
"""Spark takes no more decimal places than down to this many, where a type has too many digits."""
_QUOTIENT_PLACES = MOST_DIGITS + 1
"""Spark rounds a quotient of decimals to this many decimal places before it rounds to the type."""
_LONGEST = {"byte": 3, "short": 5, "integer": 10, "long": 19}
"""Most digits of integers."""

_WHOLE_DIGITS = 12
"""A long divisor may have at least so many digits before the point, or it is refused."""

Digits = tuple[int, int]
"""Precision and scale."""


def arithmetic(scope: Scope, tree: SparkTree, *, name: str, **options: str) -> Typed:
    """Return the call of an operator of two decimals, or of two numbers of one type."""
    left, right = scope.arguments(tree)
    nullable = any_nullable((left, right))
    if left.type.digits and right.type.digits:
        digits = _decimal_result(scope, tree, name, left.type.digits, right.type.digits)
        type_ = decimal(*digits, nullable=nullable)
        return scope.call("arithmetic_decimal", name, (left, right), type_, overflow="ERROR")
    if left.type.name != right.type.name or left.type.interval:
        raise not_supported(tree, f"of {left.type.name} and {right.type.name}")
    type_ = SparkType(left.type.name, nullable)
    checked = options if left.type.name in INTEGERS else {}
    return scope.call("arithmetic", name, (left, right), type_, **checked)


def _decimal_result(
    scope: Scope, tree: SparkTree, name: str, left: Digits, right: Digits
) -> Digits:
    """Return the digits of the result of decimal arithmetic in Spark."""
    (p1, s1), (p2, s2) = left, right
    if name == "multiply":
        precision, scale = p1 + p2 + 1, s1 + s2
    elif name in ("add", "subtract"):
        scale = max(s1, s2)
        precision = scale + max(p1 - s1, p2 - s2) + 1
    else:
        raise not_supported(tree, "of decimals")
    digits = _bound_digits(scope, precision, scale)
    if name == "multiply" and digits[1] < scale:
        # Spark rounds such a product twice: to 39 digits, then to its type.
        raise not_supported(
            tree,
            f"its result has {precision} digits and {scale} of them after the point; cast to fewer",
        )
    return digits


def _bound_digits(scope: Scope, precision: int, scale: int) -> Digits:
    """Return the digits of a decimal of at most 38 digits. Decimal places may be given up first."""
    if precision <= MOST_DIGITS:
        return precision, scale
    if not scope.context.loses_precision:
        return MOST_DIGITS, min(scale, MOST_DIGITS)
    whole = precision - scale
    return MOST_DIGITS, max(MOST_DIGITS - whole, min(scale, _KEPT_SCALE))


def shift_right(scope: Scope, tree: SparkTree) -> Typed:
    """Translate ``shiftright``."""
    value, count = scope.arguments(tree)
    type_ = SparkType(value.type.name, any_nullable((value, count)))
    return scope.call("arithmetic", "shift_right", (value, count), type_)


def divide(scope: Scope, tree: SparkTree) -> Typed:
    """Translate ``/`` of doubles or decimals: a divisor of zero is an error, but null / 0 is null."""
    left, right = scope.arguments(tree)
    if left.type.name == right.type.name == "double":
        return _divide_doubles(scope, tree, left, right)
    if left.type.digits and right.type.digits:
        return _divide_decimals(scope, tree, left, right)
    raise not_supported(tree, f"of {left.type.name} and {right.type.name}")


def divide_whole(scope: Scope, tree: SparkTree) -> Typed:
    """Translate ``div`` of integers by a constant other than 0, where null / 0 cannot occur."""
    left, right = scope.arguments(tree)
    if {left.type.name, right.type.name} - set(INTEGERS) or not _constant(tree.children[1]):
        raise not_supported(tree, f"of {left.type.name} and {right.type.name}")
    values = (cast(left, "long"), cast(right, "long"))
    type_ = SparkType("long", any_nullable(values))
    return scope.call("arithmetic", "divide", values, type_, overflow="ERROR")


def _divide_doubles(scope: Scope, tree: SparkTree, left: Typed, right: Typed) -> Typed:
    type_ = SparkType("double", any_nullable((left, right)))
    quotient = scope.call("arithmetic", "divide", (left, right), type_)
    if _constant(tree.children[1]):
        return quotient
    # Division of floats follows IEEE 754, and division of integers fails for zero.
    one = Typed({"literal": {"i64": "1"}}, SparkType("long", nullable=False))
    whole = SparkType("long", right.type.nullable)
    failing = scope.call(
        "arithmetic", "divide", (one, cast(right, "long")), whole, on_division_by_zero="ERROR"
    )
    zero = Typed({"literal": {"fp64": 0.0}}, SparkType("double", nullable=False))
    truth = SparkType("boolean", any_nullable((left, right)))
    by_zero = scope.call("comparison", "equal", (right, zero), truth)
    if left.type.nullable:
        not_null = scope.call(
            "comparison", "is_not_null", (left,), SparkType("boolean", nullable=False)
        )
        by_zero = scope.call("boolean", "and", (not_null, by_zero), truth)
    return _if_then(by_zero, cast(failing, "double"), quotient)


def _divide_decimals(scope: Scope, tree: SparkTree, left: Typed, right: Typed) -> Typed:
    (p1, s1), (p2, s2) = left.type.digits or (0, 0), right.type.digits or (0, 0)
    whole, places = p1 - s1 + s2, max(_KEPT_SCALE, s1 + p2 + 1)
    digits = _bound_digits(scope, whole + places, places)
    if not scope.context.loses_precision:
        digits = _quotient_without_loss(whole, places)
    result_scale, type_ = digits[1], decimal(*digits, nullable=any_nullable((left, right)))
    longest = _QUOTIENT_PLACES - result_scale - max(0, s1 - s2 - result_scale)
    if _most_digits(tree.children[1], p2) > longest:
        # For a longer divisor, rounding twice as Spark does could give another value.
        if longest < s2 + _WHOLE_DIGITS:
            raise not_supported(tree, "its divisor has too many digits; cast it to fewer")
        right = decimal_cast(right, longest, s2)
    quotient = scope.call(
        "arithmetic_decimal", "divide", (left, right), type_,
        overflow="ERROR", on_division_by_zero="ERROR",
    )  # fmt: skip
    if not left.type.nullable or _constant(tree.children[1]):
        return quotient
    unknown = scope.call("comparison", "is_null", (left,), SparkType("boolean", nullable=False))
    return _if_then(unknown, null(type_.name), quotient)


def _quotient_without_loss(whole: int, places: int) -> Digits:
    """Return the digits of a quotient in a session that gives up no decimal places otherwise."""
    whole, places = min(MOST_DIGITS, whole), min(MOST_DIGITS, places)
    excess = whole + places - MOST_DIGITS
    if excess > 0:
        places -= excess // 2 + 1
        whole = MOST_DIGITS - places
    return whole + places, places


def _if_then(condition: Typed, value: Typed, other: Typed) -> Typed:
    body = {"ifs": [{"if": condition.message, "then": value.message}], "else": other.message}
    return Typed({"ifThen": body}, SparkType(other.type.name, any_nullable((value, other))))


def _without_casts(tree: SparkTree) -> SparkTree:
    while tree.kind == "Cast":
        tree = tree.children[0]
    return tree


def _constant(tree: SparkTree) -> bool:
    """Return whether a divisor is a constant other than null and zero."""
    value = _without_casts(tree)
    if value.kind != "Literal" or value.fields["value"] is None:
        return False
    return bool(Decimal(value.fields["value"]))


def _most_digits(tree: SparkTree, precision: int) -> int:
    """Return the most digits of a decimal: fewer than its type has, if it is an integer's or constant."""
    if tree.kind == "Cast":
        (child,) = tree.children
        longest = _LONGEST.get(str(child.type), precision)
        return min(precision, longest)
    return precision


def translate_round(scope: Scope, tree: SparkTree, *, mode: str) -> Typed:
    """Return the call of ``round`` or ``bround`` to a constant number of digits."""
    value = scope.translate(tree.children[0])
    places = tree.children[1]
    if places.kind != "Literal" or places.fields["value"] is None:
        raise not_supported(tree, "only to a constant number of digits")
    type_ = _rounded_type(tree, value.type, int(places.fields["value"]))
    urn = "rounding_decimal" if value.type.digits else "rounding"
    return scope.call(urn, "round", (value, scope.translate(places)), type_, rounding=mode)


def _rounded_type(tree: SparkTree, type_: SparkType, places: int) -> SparkType:
    """Return the type of a rounded number in Spark."""
    if type_.digits is None:
        if type_.name not in (*INTEGERS, "double"):
            raise not_supported(tree, f"of {type_.name}")
        return type_
    precision, scale = type_.digits
    whole = precision - scale + 1
    if places < 0:
        return decimal(max(whole, 1 - places), 0, nullable=type_.nullable)
    rounded_scale = min(scale, places)
    return decimal(whole + rounded_scale, rounded_scale, nullable=type_.nullable)


def same_type(scope: Scope, tree: SparkTree, *, name: str) -> Typed:
    """Return the call of a function of one number that keeps its type."""
    (value,) = scope.arguments(tree)
    if value.type.interval:
        raise not_supported(tree, f"of {value.type.name}")
    urn = "arithmetic_decimal" if value.type.digits else "arithmetic"
    return scope.call(urn, name, (value,), value.type)
