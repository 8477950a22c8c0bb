"""Derive result types by the rules of the standard extension files, or by Arrow's rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Literal as OneOf

from substrait_agg.plan.types import DATE, INTEGER_BITS, SIGNED, STRING, UNSIGNED, Type, decimal

Derivation = OneOf["standard", "arrow"]
"""Rules for types that the plan does not declare: the extension files', or Arrow's (DataFusion)."""

ResultRule = Callable[[tuple[Type, ...], Derivation], Type]

MAX_PRECISION = 38
MIN_KEPT_SCALE = 6
DECIMAL_DIGITS = {
    "i8": 3, "i16": 5, "i32": 10, "i64": 19, "u8": 3, "u16": 5, "u32": 10, "u64": 20
}  # fmt: skip
"""Digits of a decimal that can represent every value of an integer type."""

FLOATS = ("fp32", "fp64")
TEXTS = ("string", "varchar", "fixedchar")


def is_numeric(type_: Type) -> bool:
    """Return whether arithmetic is defined on the type. Unsigned integers are excluded."""
    return type_.kind in SIGNED or type_.kind in FLOATS or type_.kind == "decimal"


def as_decimal(type_: Type) -> Type:
    """Return the decimal type for every value of an integer type; a decimal is unchanged."""
    digits = DECIMAL_DIGITS.get(type_.kind)
    return decimal(digits, 0, type_.nullable) if digits else type_


def widen(type_: Type, other: Type) -> Type:
    """Make `type_` nullable wherever the other type is, also inside nested types."""
    if type_ is other:
        return type_
    same_shape = len(type_.children) == len(other.children)
    children = tuple(map(widen, type_.children, other.children)) if same_shape else type_.children
    return replace(type_, nullable=type_.nullable or other.nullable, children=children)


def common_type(types: tuple[Type, ...]) -> Type | None:
    """Return the type that all values of `types` convert to without loss, or None if there is none.

    As in SQL, an integer or decimal beside a float becomes fp64. This is the only conversion with
    loss.
    """
    if all(t.same_kind(types[0]) for t in types):
        return reduce(widen, types)
    common = _common_kind(types)
    return None if common is None else common.as_nullable(any(t.nullable for t in types))


def _common_kind(types: tuple[Type, ...]) -> Type | None:
    kinds = {t.kind for t in types}
    if kinds <= set(SIGNED):
        return max(types, key=lambda t: INTEGER_BITS[t.kind])
    if kinds <= {*SIGNED, *UNSIGNED}:
        return _common_integer(types, kinds)
    if all(is_numeric(t) or t.kind in UNSIGNED for t in types):
        return _common_number(types, kinds)
    if kinds <= set(TEXTS):
        return STRING
    if kinds <= {"binary", "fixedbinary"}:
        return Type("binary")
    alike = len(kinds) == 1 and kinds <= {
        "precision_timestamp_tz",
        "precision_time",
        "interval_day",
    }
    if alike or kinds <= {"precision_timestamp", "date"}:
        return max(types, key=lambda t: t.params or (-1,))
    return None


def _common_integer(types: tuple[Type, ...], kinds: set[str]) -> Type:
    """Return the common type of integers of which some are unsigned.

    This is the widest of unsigned types. With signed types it is the signed type that contains all,
    or a decimal if one is u64.
    """
    widest = max((t for t in types if t.kind in UNSIGNED), key=lambda t: INTEGER_BITS[t.kind])
    if kinds <= set(UNSIGNED):
        return widest
    if widest.kind == "u64":
        return as_decimal(widest)
    bits = max(2 * INTEGER_BITS[widest.kind], *(INTEGER_BITS[t.kind] for t in types))
    return Type(f"i{bits}")


def _common_number(types: tuple[Type, ...], kinds: set[str]) -> Type | None:
    if kinds & set(FLOATS):
        return Type("fp64")
    decimals = [as_decimal(t) for t in types]
    scale = max(t.params[1] for t in decimals)
    precision = scale + max(t.params[0] - t.params[1] for t in decimals)
    return decimal(precision, scale) if precision <= MAX_PRECISION else None


def bound_digits(precision: int, scale: int, rules: Derivation) -> Type:
    """Return a decimal of at most 38 digits.

    The standard reduces the scale first, down to 6. Arrow keeps the scale.
    """
    if rules == "arrow":
        return decimal(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    lowest = min(scale, MIN_KEPT_SCALE)
    return decimal(MAX_PRECISION, max(scale - (precision - MAX_PRECISION), lowest))


def _operands(types: tuple[Type, ...]) -> tuple[int, int, int, int]:
    left, right = as_decimal(types[0]), as_decimal(types[1])
    return left.params[0], left.params[1], right.params[0], right.params[1]


def _add(types: tuple[Type, ...], rules: Derivation) -> Type:
    p1, s1, p2, s2 = _operands(types)
    scale = max(s1, s2)
    return bound_digits(scale + max(p1 - s1, p2 - s2) + 1, scale, rules)


def _multiply(types: tuple[Type, ...], rules: Derivation) -> Type:
    p1, s1, p2, s2 = _operands(types)
    return bound_digits(p1 + p2 + 1, s1 + s2, rules)


def _divide(types: tuple[Type, ...], rules: Derivation) -> Type:
    p1, s1, p2, s2 = _operands(types)
    if rules == "arrow":
        return bound_digits(p1 + s2 + 4, s1 + 4, rules)
    scale = max(6, s1 + p2 + 1)
    return bound_digits(p1 - s1 + p2 + scale, scale, rules)


def _modulus(types: tuple[Type, ...], rules: Derivation) -> Type:
    p1, s1, p2, s2 = _operands(types)
    scale = max(s1, s2)
    return bound_digits(min(p1 - s1, p2 - s2) + scale, scale, rules)


def _whole(types: tuple[Type, ...], _rules: Derivation) -> Type:
    precision, scale = types[0].params
    return decimal(min(precision - scale + 1, MAX_PRECISION), 0)


def _derive_rounded(types: tuple[Type, ...], _rules: Derivation) -> Type:
    precision, scale = types[0].params
    return decimal(min(precision + 1, MAX_PRECISION), scale)


def _date_and_days(types: tuple[Type, ...], rules: Derivation) -> Type:
    if rules == "arrow":
        return DATE
    digits = types[1].params or (6,)
    return Type("precision_timestamp", params=digits)


def _text(types: tuple[Type, ...], _rules: Derivation) -> Type:
    first = next(t for t in types if t.kind in TEXTS)
    return first if all(t.same_kind(first) for t in types) and first.kind == "varchar" else STRING


def _first_text(types: tuple[Type, ...], _rules: Derivation) -> Type:
    texts = [t for t in types if t.kind in TEXTS]
    return texts[0] if all(t.kind == "varchar" for t in texts) else STRING


def _derive_joined(types: tuple[Type, ...], rules: Derivation) -> Type:
    """Derive the type from the arguments after the separator: string, if that is no varchar."""
    return _text(types[1:], rules) if types[0].kind == "varchar" else STRING


def _always(kind: str) -> ResultRule:
    return lambda _types, _rules: Type(kind)


def _argument(ordinal: int) -> ResultRule:
    return lambda types, _rules: types[ordinal]


def _length(_types: tuple[Type, ...], rules: Derivation) -> Type:
    return Type("i32" if rules == "arrow" else "i64")


def _window(types: tuple[Type, ...], _rules: Derivation) -> Type:
    edge = types[0].as_nullable(False)
    return Type("struct", children=(edge, edge))


def _with_digits_of_first(kind: str) -> ResultRule:
    return lambda types, _rules: Type(kind, params=types[0].params)


RESULT_RULES: dict[str, ResultRule] = {
    "bool": _always("bool"),
    "i32": _always("i32"),
    "i64": _always("i64"),
    "fp64": _always("fp64"),
    "date": _always("date"),
    "string": _always("string"),
    "local_first": _with_digits_of_first("precision_timestamp"),
    "zoned_first": _with_digits_of_first("precision_timestamp_tz"),
    "length": _length,
    "first": _argument(0),
    "second": _argument(1),
    "unified": lambda types, _rules: common_type(types) or types[0],
    "text": _text,
    "first_text": _first_text,
    "joined_text": _derive_joined,
    "list_of_first": lambda types, _rules: Type("list", children=(types[0].as_nullable(False),)),
    "element": lambda types, _rules: types[0].children[0],
    "value": lambda types, _rules: types[0].children[1],
    "list_of_results": lambda types, _rules: Type("list", children=(types[1].children[0],)),
    "window": _window,
    "decimal_widest": lambda _types, _rules: decimal(MAX_PRECISION, 0),
    "decimal_longest": lambda types, _rules: decimal(max(t.params[0] for t in types), 0),
    "decimal_add": _add,
    "decimal_multiply": _multiply,
    "decimal_divide": _divide,
    "decimal_modulus": _modulus,
    "decimal_whole": _whole,
    "decimal_round": _derive_rounded,
    "date_and_days": _date_and_days,
}
"""Result rules by the word in the function tables. They do not decide nullability."""
