"""Values of rows, plainly: expressions, the order of values, fractions in the types of measures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from substrait_agg.bind.bound import Call, Column, Conditional, Constant, Expr
from substrait_agg.plan.types import INTEGER_BITS, Type
from tests.operator.rounding import round_float, round_whole

Values = tuple[Any, ...]
NAN = "NaN"


@dataclass(frozen=True)
class Row:
    """A weighted input row: one Python value per column; and where it came: which batch, which place in it."""

    values: Values
    weight: int
    batch: int = 0
    place: int = 0


# --- expressions ---------------------------------------------------------------------------------


def evaluate(expression: Expr, row: Values) -> Any:
    """The value of one of the few expressions that draws and operators are made of."""
    match expression:
        case Constant(value=value):
            return value
        case Column(ordinal=ordinal):
            return row[ordinal]
        case Conditional(clauses=clauses, otherwise=otherwise):
            for condition, value in clauses:
                if evaluate(condition, row) is True:
                    return evaluate(value, row)
            return evaluate(otherwise, row)
        case Call(function=function, arguments=arguments):
            return _CALLS[function](*(evaluate(a, row) for a in arguments))
    raise AssertionError(expression)


def _and(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


_CALLS: dict[str, Callable[..., Any]] = {
    "is_not_null": lambda a: a is not None,
    "not": lambda a: None if a is None else not a,
    "and": _and,
}


# --- order ---------------------------------------------------------------------------------------


def canonical(value: Any) -> Any:
    """The value as something that equals itself: NaN as a word, 0.0 for -0.0, lists and structs as tuples."""
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return canonical(list(value.values()))
    if isinstance(value, list | tuple):
        return tuple(canonical(v) for v in value)
    return value


def canonical_as(value: Any, type_: Type) -> Any:
    """The canonical value of a type; maps are the list of their entries in order of key."""
    if type_.kind == "map" and value is not None:
        value = sorted(value, key=lambda entry: str(entry[0]))
    return canonical(value)


def read(expression: Expr, row: Row) -> Any:
    """The canonical value of an expression."""
    return canonical_as(evaluate(expression, row.values), expression.type)


def compare(a: Any, b: Any) -> int:
    """Order of two canonical values of one type that are not null; nulls inside lists come first."""
    if isinstance(a, tuple):
        for x, y in zip(a, b, strict=False):
            if x != y:
                if x is None or y is None:
                    return -1 if x is None else 1
                return compare(x, y)
        return (len(a) > len(b)) - (len(a) < len(b))
    if isinstance(a, str) and NAN not in (a, b):
        a, b = a.encode(), b.encode()
    elif a == b or NAN in (a, b):
        return int(a == NAN) - int(b == NAN)
    return int(a > b) - int(a < b)


@dataclass(frozen=True)
class Key:
    """A column by which entries are ordered."""

    expression: Expr
    descending: bool = False
    nulls_first: bool = False

    def compare(self, a: Any, b: Any) -> int:
        """Order of two values, null or not."""
        if a is None or b is None:
            nulls = int(a is None) - int(b is None)
            return -nulls if self.nulls_first else nulls
        return -compare(a, b) if self.descending else compare(a, b)


Entry = tuple[Values, int]


def live_entries(rows: Iterable[Row], keys: Sequence[Key]) -> list[Entry]:
    """The tuples of key values with a weight above 0, in order, with that weight."""
    weights: Counter[Values] = Counter()
    for row in rows:
        weights[tuple(read(k.expression, row) for k in keys)] += row.weight
    return in_order(weights, keys)


def in_order(weights: Counter[Values], keys: Sequence[Key]) -> list[Entry]:
    """Entries with a weight above 0, in order."""

    def by_keys(a: Entry, b: Entry) -> int:
        signs = (k.compare(x, y) for k, x, y in zip(keys, a[0], b[0], strict=True))
        return next((s for s in signs if s), 0)

    return sorted(((v, w) for v, w in weights.items() if w > 0), key=cmp_to_key(by_keys))


# --- numbers -------------------------------------------------------------------------------------


def number(value: Any) -> Any:
    """A number as the float NaN or infinity, or as the fraction it is."""
    if value == NAN:
        return math.nan
    if isinstance(value, float) and math.isinf(value):
        return value
    return Fraction(value)


def as_type(value: Fraction | None, type_: Type, overflow: str, mode: str = "") -> Any:
    """A fraction in the type of a measure; decimals round half away from zero, integers are cut."""
    if value is None:
        return None
    if type_.kind in ("fp64", "fp32"):
        return round_float(value, mode or "TIE_TO_EVEN", single=type_.kind == "fp32")
    scale = type_.params[1] if type_.kind == "decimal" else 0
    usual = "TIE_AWAY_FROM_ZERO" if type_.kind == "decimal" else "TRUNCATE"
    whole = round_whole(value * 10**scale, mode or usual)
    if type_.kind == "decimal":
        most = 10 ** type_.params[0] - 1
        if abs(whole) > most:
            if overflow != "SATURATE":
                return None
            whole = max(-most, min(most, whole))
        return Decimal(f"{whole}e-{scale}")
    bits = INTEGER_BITS[type_.kind]
    low = 0 if type_.kind.startswith("u") else -(1 << (bits - 1))
    high = low + (1 << bits) - 1
    whole = (
        max(low, min(high, whole)) if overflow == "SATURATE" else (whole - low) % (1 << bits) + low
    )
    return Decimal(whole) if type_.kind == "u64" else whole


def square_root(value: Fraction) -> Fraction:
    """The root to at least 300 bits; an inexact root is halfway between two of those values, so
    that it rounds correctly.
    """
    shift = max(0, value.denominator.bit_length() - value.numerator.bit_length()) + 600
    shift += shift & 1
    scaled = value.numerator << shift
    root = math.isqrt(scaled // value.denominator)
    inexact = root * root * value.denominator != scaled
    return Fraction(2 * root + inexact, 1 << (shift // 2 + 1))


def between(low: Any, high: Any, part: Fraction) -> Any:
    """The point at `part` of the way between two numbers, in IEEE arithmetic where one is not finite."""
    if isinstance(low, float) or isinstance(high, float):
        if not part:
            return low
        return float(low) + float(high)
    return low * (1 - part) + high * part
