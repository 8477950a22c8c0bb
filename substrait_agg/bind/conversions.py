"""Insert conversions into bound expressions, and define which casts exist and which of them can fail."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from substrait_agg.bind.bound import Call, Constant, Conversion, Expr
from substrait_agg.bind.context import UNKNOWN, is_unknown
from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.functions.signatures.derive import (
    FLOATS,
    MAX_PRECISION,
    TEXTS,
    as_decimal,
    common_type,
    widen,
)
from substrait_agg.plan.types import INTEGER_BITS, UNSIGNED, Type

_INTEGERS = frozenset(INTEGER_BITS)
_NUMBERS = frozenset({*_INTEGERS, *FLOATS, "decimal"})
_TEXTS = frozenset(TEXTS)
_BYTES = frozenset({"binary", "fixedbinary"})
_POINTS = frozenset({"date", "precision_timestamp", "precision_timestamp_tz"})
_TIME = frozenset({"precision_time"})
_UUID = frozenset({"uuid"})
_SIMPLE = _NUMBERS | _POINTS | _TIME | _UUID | {"bool"}

CASTS: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (_NUMBERS, _NUMBERS),
    (frozenset({"bool"}), _NUMBERS),
    (_NUMBERS, frozenset({"bool"})),
    (_TEXTS, _TEXTS | _SIMPLE | _BYTES),
    (_SIMPLE | _BYTES, _TEXTS),
    (_BYTES | _UUID, _BYTES | _UUID),
    (_POINTS, _POINTS),
    (_TIME, _TIME),
)
"""Pairs (from, to) of type kinds between which a cast exists.

A cast from a type to itself always exists.
"""


def can_cast(source: Type, target: Type) -> bool:
    """Return whether a cast from `source` to `target` is defined."""
    if source.same_kind(target) or "unknown" in (source.kind, target.kind):
        return True
    return any(source.kind in left and target.kind in right for left, right in CASTS)


def always_converts(source: Type, target: Type) -> bool:
    """Return whether every value of a type converts to another type. False is always correct."""
    if source.same_kind(target) or target.kind == "string":
        return True
    if source.kind in _TEXTS:
        return False
    if target.kind in FLOATS:
        return source.kind in _NUMBERS
    if target.kind in _INTEGERS:
        return source.kind in _INTEGERS and _contains(target.kind, source.kind)
    if target.kind == "decimal" and (source.kind in _INTEGERS or source.kind == "decimal"):
        digits = as_decimal(source)
        whole = whole_digits(target) >= whole_digits(digits)
        return whole and target.params[1] >= digits.params[1]
    return False


def _contains(wide: str, narrow: str) -> bool:
    """Return whether an integer type contains all values of another one."""
    unsigned = wide.startswith("u"), narrow.startswith("u")
    bits = INTEGER_BITS[wide], INTEGER_BITS[narrow]
    if unsigned[0] == unsigned[1]:
        return bits[0] >= bits[1]
    return unsigned[1] and bits[0] > bits[1]


def whole_digits(type_: Type) -> int:
    """Return the number of digits before the point of a decimal type."""
    return type_.params[0] - type_.params[1]


def convert(expression: Expr, target: Type) -> Expr:
    """Convert `expression` to the type `target`, constants exactly; its nullability stays."""
    type_ = target.as_nullable(expression.type.nullable)
    if is_unknown(expression) or expression.type.same_kind(target):
        return expression
    if isinstance(expression, Constant):
        constant = _fold(expression, type_)
        if constant is not None:
            return constant
    return Conversion(type_, expression)


def _fold(constant: Constant, target: Type) -> Constant | None:
    """Convert the constant if only its form changes, else return None."""
    value, source = constant.value, constant.type
    if value is None or (source.kind in TEXTS and target.kind == "string"):
        return Constant(target, value)
    if source.kind in _INTEGERS and target.kind in _INTEGERS:
        return Constant(target, value) if _in_range(value, target.kind) else None
    if source.kind in _INTEGERS or source.kind == "decimal":
        scale = source.params[1] if source.params else 0
        if target.kind == "decimal" and target.params[1] >= scale:
            unscaled = value * 10 ** (target.params[1] - scale)
            return Constant(target, unscaled) if abs(unscaled) < 10 ** target.params[0] else None
    return None


def _in_range(value: int, kind: str) -> bool:
    bits = INTEGER_BITS[kind]
    lowest = 0 if kind in UNSIGNED else -(1 << (bits - 1))
    return lowest <= value < lowest + (1 << bits)


def unify(expressions: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
    """Convert all expressions to their common type, or return None if they have none."""
    if is_unknown(*expressions):
        return expressions
    common = _fitting_type(expressions)
    return None if common is None else tuple(convert(e, common) for e in expressions)


def _fitting_type(expressions: tuple[Expr, ...]) -> Type | None:
    # A null constant takes any type, because producers give it arbitrary types.
    typed = tuple(e.type for e in expressions if not is_null(e))
    return common_type(typed or tuple(e.type for e in expressions))


def is_null(expression: Expr) -> bool:
    """Return whether the expression is the null constant."""
    return isinstance(expression, Constant) and expression.value is None


def unified_type(expressions: tuple[Expr, ...]) -> Type:
    """Return the type of a value that is one of the unified expressions."""
    if is_unknown(*expressions):
        return UNKNOWN
    return reduce(widen, (e.type for e in expressions))


def as_declared(call: Expr, declared: Type) -> Expr:
    """Return `call` as a value of the declared type.

    A decimal call takes the declared type itself, so that its result is rounded once.
    """
    type_ = declared.as_nullable(declared.nullable or call.type.nullable)
    if call.type == type_ or is_unknown(call):
        return call
    same = call.type.same_kind(declared)
    both_decimal = call.type.kind == declared.kind == "decimal"
    if isinstance(call, Call) and (same or both_decimal):
        return replace(call, type=type_)
    return Conversion(type_, call)


_WHOLE = ("decimal_whole", "decimal_round")
"""Rules of results that have no more digits after the point than the second argument says, or none."""


def loses_digits(source: Type, target: Type) -> bool:
    """Return whether a conversion of numbers or times drops digits that values of `source` have."""
    if source.kind in FLOATS:
        narrower = source.kind == "fp64" and target.kind == "fp32"
        return narrower or target.kind == "decimal" or target.kind in INTEGER_BITS
    if source.kind == "decimal":
        digits = target.params[1] if target.kind == "decimal" else 0
        return source.params[1] > digits and target.kind not in (*FLOATS, *TEXTS)
    if not source.kind.startswith("precision_"):
        return False
    return target.kind == "date" or (bool(target.params) and target.params[0] < source.params[0])


def call_loses_digits(call: Call, declared: Type) -> bool:
    """Return whether the result of a call has digits that the declared type drops."""
    if not loses_digits(call.type, declared):
        return False
    rules = {o.result for o in SCALARS[call.function].overloads}
    if call.type.kind != "decimal" or rules.isdisjoint(_WHOLE):
        return True
    digits = call.arguments[1] if len(call.arguments) > 1 else Constant(call.type, 0)
    scale = declared.params[1] if declared.kind == "decimal" else 0
    if not isinstance(digits, Constant) or not isinstance(digits.value, int):
        return True
    return digits.value > scale


def fits_decimal(type_: Type) -> bool:
    """Return whether the parameters of a decimal type are within bounds."""
    return type_.kind != "decimal" or 0 <= type_.params[1] <= type_.params[0] <= MAX_PRECISION
