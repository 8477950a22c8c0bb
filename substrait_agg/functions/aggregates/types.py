"""Derive result types of aggregate functions, and define the types that their values convert to."""

from __future__ import annotations

from collections.abc import Callable

from substrait_agg.functions.signatures.derive import (
    FLOATS,
    MAX_PRECISION,
    TEXTS,
    Derivation,
)
from substrait_agg.plan.types import SIGNED, UNSIGNED, Type, decimal

INTEGERS = (*SIGNED, *UNSIGNED)
NUMBERS: tuple[str, ...] = (*SIGNED, *FLOATS, "decimal")
ALL_NUMBERS: tuple[str, ...] = (*NUMBERS, *UNSIGNED)
BYTES = ("binary", "fixedbinary")
POINTS = ("date", "precision_time", "precision_timestamp", "precision_timestamp_tz")
SPANS = ("interval_year", "interval_day")
ORDERED: tuple[str, ...] = (
    *ALL_NUMBERS, "bool", *TEXTS, *BYTES, *POINTS, *SPANS, "uuid", "list", "struct",
)  # fmt: skip
"""Type kinds whose values can be compared. Maps and compound intervals are excluded."""

HASHED: tuple[str, ...] = (
    *NUMBERS, "bool", "string", "binary", "date", "precision_timestamp", "precision_timestamp_tz",
)  # fmt: skip
"""Type kinds whose values have a hash of Spark."""

FAMILIES: dict[tuple[str, ...], str] = {
    (): "any type",
    ALL_NUMBERS: "number",
    INTEGERS: "integer",
    HASHED: "number, boolean, string, binary, date or timestamp",
    ORDERED: "anything that can be compared",
    (*ALL_NUMBERS, *POINTS): "number, date or time",
    TEXTS: "text",
    ("bool",): "boolean",
    (*SIGNED, "string", "binary"): "signed integer, string or binary",
}
"""Type kinds of a parameter -> their name in messages and documents."""

LEAST_DEVIATION, MOST_DEVIATION = 0.001, 0.39
"""Relative standard deviations of an estimated number of distinct values."""

DECIMAL_OUTPUT = "functions_aggregate_decimal_output"

ResultType = Callable[[tuple[Type, ...], str | None, Derivation], Type]
"""(types of the value arguments, last part of the URN, derivation rules) -> type of the measure."""


def _count(_types: tuple[Type, ...], urn: str | None, _rules: Derivation) -> Type:
    if urn == DECIMAL_OUTPUT:
        return decimal(MAX_PRECISION, 0, nullable=False)
    return Type("i64", nullable=False)


def _approximate_count(types: tuple[Type, ...], urn: str | None, rules: Derivation) -> Type:
    return Type("u64", nullable=False) if rules == "arrow" else _count(types, urn, rules)


def _sum(types: tuple[Type, ...], _urn: str | None, rules: Derivation) -> Type:
    argument = types[0]
    if argument.kind in UNSIGNED:
        return Type("u64")
    if argument.kind != "decimal":
        return Type("fp64" if argument.kind in FLOATS else "i64")
    precision, scale = argument.params
    wide = precision + 10 if rules == "arrow" else MAX_PRECISION
    return decimal(min(wide, MAX_PRECISION), scale)


def _avg(types: tuple[Type, ...], _urn: str | None, rules: Derivation) -> Type:
    argument = types[0]
    if argument.kind != "decimal":
        return Type("fp64") if rules == "arrow" else argument.as_nullable()
    precision, scale = argument.params
    if rules == "arrow":
        return decimal(min(precision + 4, MAX_PRECISION), min(scale + 4, MAX_PRECISION))
    return decimal(MAX_PRECISION, scale)


def _float(types: tuple[Type, ...], _urn: str | None, rules: Derivation) -> Type:
    narrow = rules == "standard" and all(t.kind == "fp32" for t in types)
    return Type("fp32" if narrow else "fp64")


def _continuous(types: tuple[Type, ...], urn: str | None, rules: Derivation) -> Type:
    return Type("fp64") if types[0].kind in INTEGERS else _first(types, urn, rules)


def _first(types: tuple[Type, ...], _urn: str | None, _rules: Derivation) -> Type:
    return types[0].as_nullable()


def _derive_collected(types: tuple[Type, ...], _urn: str | None, _rules: Derivation) -> Type:
    return Type("list", False, children=(types[0].as_nullable(False),))


def _quantiles(types: tuple[Type, ...], _urn: str | None, _rules: Derivation) -> Type:
    return Type("list", True, children=(types[0].as_nullable(False),))


def _ordinal(_types: tuple[Type, ...], _urn: str | None, rules: Derivation) -> Type:
    return Type("i32" if rules == "arrow" else "i64", nullable=False)


def _always(type_: Type) -> ResultType:
    return lambda _types, _urn, _rules: type_


RESULTS: dict[str, ResultType] = {
    "count": _count,
    "approximate count": _approximate_count,
    "sum": _sum,
    "sum0": lambda types, urn, rules: _sum(types, urn, rules).as_nullable(False),
    "avg": _avg,
    "float": _float,
    "continuous": _continuous,
    "first": _first,
    "mirror": lambda types, _urn, _rules: types[0],
    "text": lambda types, _urn, _rules: Type("string", types[0].nullable),
    "bool": _always(Type("bool")),
    "bytes": _always(Type("binary", nullable=False)),
    "list": lambda types, _urn, _rules: Type("list", True, children=(types[0],)),
    "collected": _derive_collected,
    "quantiles": _quantiles,
    "union": lambda types, _urn, _rules: types[0].as_nullable(False),
    "ordinal": _ordinal,
    "key": _always(Type("i64", nullable=False)),
}
"""Result rules by the word in the catalogue.

They follow the declarations, including nullability.
"""


def _derive_sum_and_count(types: tuple[Type, ...], urn: str | None, rules: Derivation) -> Type:
    total = RESULTS["sum0"](types, urn, rules)
    return Type("struct", False, children=(total, Type("i64", False)))


def _derive_product(types: tuple[Type, ...], _urn: str | None, _rules: Derivation) -> Type:
    return Type("fp64" if types[0].kind in FLOATS else "i64", nullable=False)


INTERMEDIATES: dict[str, ResultType] = {
    **{word: RESULTS[word] for word in ("count", "sum", "sum0", "first")},
    "sum and count": _derive_sum_and_count,
    "product": _derive_product,
}
"""Rules for the types of intermediate states by the word in the catalogue."""

INTERMEDIATE_TEXTS: dict[str, str] = {
    "count": "`i64`, or `decimal<38,0>` from its own extension",
    "sum": "`i64`, `u64` or `decimal<38,S>`",
    "sum0": "`i64`, `u64` or `decimal<38,S>`",
    "first": "the type of the argument",
    "sum and count": "`struct<i64,i64>` or `struct<decimal<38,S>,i64>`",
    "product": "`i64`",
}
"""The rules of intermediate types as text, for states that can be computed here."""

ROUNDED_STATES = frozenset({"sum", "sum0", "sum and count", "product"})
"""Rules whose type for floats rounds the exact value."""

MIRRORING = frozenset({"mirror", "text"})
"""Rules whose result is nullable if an argument is, constant arguments included."""

OWN = "own"
"""The rule of user-defined measures. Their value has exactly the type that they derive."""

COUNTS = frozenset({"count", "approximate count", "ordinal", "key"})
"""Rules whose result is an integer for all arguments."""

RESULT_TEXTS: dict[str, str] = {
    "count": "`i64`, or `decimal<38,0>` from its own extension",
    "approximate count": "`i64`, or `decimal<38,0>` from its own extension",
    "sum": "`i64`, `u64`, `fp64` or `decimal<38,S>`",
    "sum0": "`i64`, `u64`, `fp64` or `decimal<38,S>`",
    "avg": "the type of the argument; decimals `decimal<38,S>`",
    "float": "`fp32` if all arguments are `fp32`, else `fp64`",
    "continuous": "`fp64` for integers, else the type of the argument",
    "first": "the type of the argument",
    "mirror": "the type of the argument",
    "text": "`string`",
    "bool": "`bool`",
    "bytes": "`binary`",
    "list": "a list of the argument's type",
    "collected": "a list of the argument's type, not null",
    "quantiles": "a list of the argument's type",
    "union": "the type of the argument",
    "ordinal": "`i64`",
    "key": "`i64`",
}
"""The result rules as text. A declared output type takes precedence if the value converts to it."""


def convertible(result: str, types: tuple[Type, ...], derived: Type, declared: Type) -> bool:
    """Return whether the exact value of a measure converts to `declared`.

    Numbers convert to every numeric type, with two exceptions. Values of floats convert to floats
    only, because NaN and infinities have no other form. Products of integers convert to integers
    and floats. Texts of every kind convert to ``string``. Everything else keeps its type.
    """
    if result == OWN:
        return derived.same_kind(declared)
    if derived.kind in ALL_NUMBERS:
        floats = result not in COUNTS and (
            result == "float" or any(t.kind in FLOATS for t in types[:1])
        )
        wide = (*INTEGERS, *FLOATS) if result == "mirror" else ALL_NUMBERS
        return declared.kind in (FLOATS if floats else wide)
    if derived.kind in TEXTS and declared.kind == "string":
        return True
    return derived.same_kind(declared)
