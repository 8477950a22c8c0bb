"""What measures must show, computed slowly and plainly from all rows: fractions, sorted lists, counters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from substrait_agg.bind.bound import (
    BoundMeasure,
    Call,
    Column,
    Conditional,
    Constant,
    Expr,
    MeasureSort,
)
from substrait_agg.plan.types import INTEGER_BITS, Type
from tests.operator.rounding import round_float, round_whole

Values = tuple[Any, ...]
NAN = "NaN"


@dataclass(frozen=True)
class Row:
    """A weighted input row: one Python value per column."""

    values: Values
    weight: int


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
        weights[tuple(canonical(evaluate(k.expression, row.values)) for k in keys)] += row.weight
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


def _specials(numbers: Iterable[tuple[Any, int]]) -> tuple[int, int, int]:
    """Signed counts of NaN, infinity and minus infinity."""
    nan = plus = minus = 0
    for value, weight in numbers:
        if isinstance(value, float):
            nan += weight * math.isnan(value)
            plus += weight * (value == math.inf)
            minus += weight * (value == -math.inf)
    return nan, plus, minus


def _finite_sum(numbers: Iterable[tuple[Any, int]]) -> Fraction:
    return sum((v * w for v, w in numbers if not isinstance(v, float)), Fraction(0))


def _total(numbers: Sequence[tuple[Any, int]], divisor: int, measure: BoundMeasure) -> Any:
    nan, plus, minus = _specials(numbers)
    if nan > 0 or (plus > 0 and minus > 0):
        return NAN
    if plus > 0 or minus > 0:
        return math.inf if plus > 0 else -math.inf
    return as_type(_finite_sum(numbers) / divisor, measure.type, measure.overflow)


def square_root(value: Fraction) -> Fraction:
    """The root to 300 bits and more."""
    shift = max(0, value.denominator.bit_length() - value.numerator.bit_length()) + 600
    shift += shift & 1
    return Fraction(math.isqrt((value.numerator << shift) // value.denominator), 1 << (shift // 2))


def between(low: Any, high: Any, part: Fraction) -> Any:
    """The point at `part` of the way between two numbers, in IEEE arithmetic where one is not finite."""
    if isinstance(low, float) or isinstance(high, float):
        if not part:
            return low
        return float(low) + float(high)
    return low * (1 - part) + high * part


# --- measures ------------------------------------------------------------------------------------


def contributing(measure: BoundMeasure, rows: Iterable[Row]) -> list[Row]:
    """The rows for which the filter is true."""
    condition = measure.filter
    return [r for r in rows if condition is None or evaluate(condition, r.values) is True]


def value_of(measure: BoundMeasure, rows: Sequence[Row], set_index: int) -> Any:
    """The canonical value of a measure over the rows of a group."""
    rows = contributing(measure, rows)
    if measure.kind == "grouping":
        return measure.constants[set_index if len(measure.constants) > 1 else 0]
    if measure.kind in _ADDITIVE:
        return canonical(_ADDITIVE[measure.kind](measure, _tuples(measure, rows)))
    return canonical(_ORDERED[measure.kind](measure, rows))


def _tuples(measure: BoundMeasure, rows: Iterable[Row]) -> list[Entry]:
    """The argument tuples without nulls, with their weights; with DISTINCT the live ones, once."""
    keys = [Key(a) for a in measure.arguments]
    if measure.distinct:
        live = live_entries(rows, keys)
        return [(values, 1) for values, _ in live if None not in values]
    found = [
        (tuple(canonical(evaluate(a, r.values)) for a in measure.arguments), r.weight) for r in rows
    ]
    return [(values, weight) for values, weight in found if None not in values]


def _weight(entries: Sequence[Entry]) -> int:
    return sum(w for _, w in entries)


def _count(_: BoundMeasure, entries: list[Entry]) -> int:
    return max(0, _weight(entries))


def _numbers(entries: Sequence[Entry], place: int = 0) -> list[tuple[Any, int]]:
    return [(number(values[place]), weight) for values, weight in entries]


def _sum(measure: BoundMeasure, entries: list[Entry]) -> Any:
    n = _weight(entries)
    if n <= 0:
        zero = as_type(Fraction(0), measure.type, "")
        return zero if measure.kind == "sum0" else None
    return _total(_numbers(entries), n if measure.kind == "avg" else 1, measure)


def _boolean(measure: BoundMeasure, entries: list[Entry]) -> bool | None:
    holds, fails = (_weight([e for e in entries if e[0][0] is b]) > 0 for b in (True, False))
    if not holds and not fails:
        return None
    return not fails if measure.kind == "bool_and" else holds


def _moment(measure: BoundMeasure, entries: list[Entry]) -> Any:
    n, options = _weight(entries), dict(measure.options)
    sample = measure.kind != "corr" and options.get("DISTRIBUTION", "SAMPLE") == "SAMPLE"
    if n < 1 + sample:
        return None
    x, y = _numbers(entries), _numbers(entries, -1)
    sums = [x, y, _products(x, y)]
    sums += [_products(x, x), _products(y, y)] if measure.kind == "corr" else []
    if any(any(_specials(s)) for s in sums):
        return NAN
    mode = options.get("ROUNDING", "TIE_TO_EVEN")
    spread = _spread(n, x, y)
    if measure.kind == "corr":
        return _correlation(spread, _spread(n, x, x), _spread(n, y, y))
    result = spread / (n * (n - sample))
    if result < 0 and measure.kind != "covar":
        return NAN
    root = square_root(result) if measure.kind == "std_dev" else result
    return round_float(root, mode, single=measure.type.kind == "fp32")


def _products(x: list[tuple[Any, int]], y: list[tuple[Any, int]]) -> list[tuple[Any, int]]:
    pairs = zip(x, y, strict=True)
    return [
        (a * b if isinstance(a, Fraction) and isinstance(b, Fraction) else float(a) * float(b), w)
        for (a, w), (b, _) in pairs
    ]


def _spread(n: int, x: list[tuple[Any, int]], y: list[tuple[Any, int]]) -> Fraction:
    return n * _finite_sum(_products(x, y)) - _finite_sum(x) * _finite_sum(y)


def _correlation(xy: Fraction, xx: Fraction, yy: Fraction) -> Any:
    if xx * yy == 0:
        return NAN if xx < 0 or yy < 0 else None
    if xx < 0 or yy < 0:
        return NAN
    return max(-1.0, min(1.0, float(xy / square_root(xx * yy))))


# --- measures over ordered entries -----------------------------------------------------------------


def _in_order(measure: BoundMeasure, rows: Sequence[Row]) -> list[tuple[Any, int]]:
    """The values of a measure in its order, with their weights (1 with DISTINCT)."""
    value = measure.arguments[0]
    keys = [_key(s) for s in measure.order]
    place = next((i for i, k in enumerate(keys) if k.expression == value), len(keys))
    if place == len(keys):
        keys.append(Key(value))
    kept = live_entries(rows, keys)
    return [
        (values[place], 1 if measure.distinct else weight)
        for values, weight in kept
        if measure.keep_nulls or values[place] is not None
    ]


def _key(sort: MeasureSort) -> Key:
    return Key(sort.expression, sort.descending, sort.nulls_first)


def _repeated(entries: Iterable[tuple[Any, int]]) -> list[Any]:
    return [value for value, weight in entries for _ in range(weight)]


def _extreme(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    values = [v for v, _ in _in_order(measure, rows)]
    if not values:
        return None
    value = values[-1 if measure.kind in ("max", "last_value") else 0]
    if measure.type.same_kind(measure.arguments[0].type):
        return value
    return as_type(number(value), measure.type, "")


def _mode(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    entries = _in_order(measure, rows)
    return max(entries, key=lambda e: e[1])[0] if entries else None


def _point(measure: BoundMeasure, type_: Type, values: list[Any], at: Fraction) -> Any:
    """The point at a rank that may lie between two values."""
    mode = dict(measure.options).get("ROUNDING", "TIE_TO_EVEN")
    if type_.kind == "date":
        return values[round_whole(at, mode)]
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    point = between(number(values[low]), number(values[high]), at - low)
    return point if isinstance(point, float) else as_type(point, type_, "", mode)


def _median(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    values = _repeated(_in_order(measure, rows))
    return _point(measure, measure.type, values, Fraction(len(values) - 1, 2)) if values else None


def _percentile_cont(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    values = _repeated(_in_order(measure, rows))
    at = Fraction(str(measure.constants[0])) * (len(values) - 1)
    return _point(measure, measure.type, values, at) if values else None


def _percentile_disc(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    values = _repeated(_in_order(measure, rows))
    if not values:
        return None
    return values[max(0, math.ceil(Fraction(str(measure.constants[0])) * len(values)) - 1)]


def _quantile(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    values, n = _repeated(_in_order(measure, rows)), measure.constants[0]
    if n is None or n < 1 or not values or None in values:
        return None
    boundaries = dict(measure.options).get("BOUNDARIES", "NEITHER")
    steps = range(boundaries not in ("MINIMUM", "BOTH"), n + (boundaries in ("MAXIMUM", "BOTH")))
    element = measure.type.children[0]
    return [_point(measure, element, values, Fraction(k * (len(values) - 1), n)) for k in steps]


def _product(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    values = [number(v) for v in _repeated(_in_order(measure, rows))]
    if not values and dict(measure.options).get("EMPTY") == "NULL":
        return None
    finite = math.prod((v for v in values if not isinstance(v, float)), start=Fraction(1))
    special = math.prod(v for v in values if isinstance(v, float))
    if any(isinstance(v, float) for v in values):
        return NAN if not finite or math.isnan(special) else special * (1 if finite > 0 else -1)
    return as_type(finite, measure.type, measure.overflow)


_BITS: dict[str, Callable[[int, int], int]] = {
    "bit_and": int.__and__,
    "bit_or": int.__or__,
    "bit_xor": int.__xor__,
}


def _bits(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    values = _repeated(_in_order(measure, rows))
    if not values:
        return None
    result = int(values[0])
    for value in values[1:]:
        result = _BITS[measure.kind](result, int(value))
    return as_type(Fraction(result), measure.type, "")


def _list(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    values = _repeated(_in_order(measure, rows))
    return None if not values and dict(measure.options).get("EMPTY") == "NULL" else values


def _string_agg(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    values = _repeated(_in_order(measure, rows))
    return measure.constants[0].join(values) if values else None


def _nth(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    values, n = _repeated(_in_order(measure, rows)), measure.constants[0]
    return values[n - 1] if n <= len(values) else None


def _by(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    value, by = measure.arguments
    pairs = live_entries(rows, [Key(by), Key(value, nulls_first=True)])
    values = [x for (y, x), _ in pairs if y is not None]
    return None if not values else values[-1 if measure.kind == "max_by" else 0]


def _union(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    weights: Counter[Values] = Counter()
    for row in rows:
        for element in evaluate(measure.arguments[0], row.values) or ():
            weights[(canonical(element),)] += row.weight
    return [values[0] for values, _ in in_order(weights, [Key(measure.arguments[0])])]


_ADDITIVE: dict[str, Callable[[BoundMeasure, list[Entry]], Any]] = {
    "count": _count,
    **dict.fromkeys(("sum", "sum0", "avg"), _sum),
    **dict.fromkeys(("bool_and", "bool_or"), _boolean),
    **dict.fromkeys(("variance", "std_dev", "covar", "corr"), _moment),
}

_ORDERED: dict[str, Callable[[BoundMeasure, Sequence[Row]], Any]] = {
    **dict.fromkeys(("min", "max", "any_value", "first_value", "last_value"), _extreme),
    "mode": _mode,
    "median": _median,
    "percentile_cont": _percentile_cont,
    "percentile_disc": _percentile_disc,
    "quantile": _quantile,
    "product": _product,
    **dict.fromkeys(_BITS, _bits),
    "list": _list,
    "string_agg": _string_agg,
    "nth_value": _nth,
    **dict.fromkeys(("min_by", "max_by"), _by),
    "list_union_distinct": _union,
}
