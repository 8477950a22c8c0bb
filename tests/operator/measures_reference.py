"""The values of measures, computed from all rows with fractions, sorted lists and counters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from substrait_agg.bind.bound import BoundMeasure, Column, MeasureSort
from substrait_agg.plan.types import Type
from tests.operator.measures_values import (
    NAN,
    Entry,
    Key,
    Row,
    Values,
    as_type,
    between,
    canonical,
    canonical_as,
    evaluate,
    in_order,
    live_entries,
    number,
    read,
    square_root,
)
from tests.operator.rounding import round_float, round_whole

__all__ = ["Row", "Values", "canonical", "canonical_as", "evaluate", "measured", "value_of"]

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
    found = [(tuple(read(a, r) for a in measure.arguments), r.weight) for r in rows]
    return [(values, weight) for values, weight in found if None not in values]


def _weight(entries: Sequence[Entry]) -> int:
    return sum(w for _, w in entries)


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
        keys.append(Key(value, nulls_first=True))
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
    return _in_type(measure, values[-1 if measure.kind in ("max", "last_value") else 0])


def _in_type(measure: BoundMeasure, value: Any) -> Any:
    if measure.type.same_kind(measure.arguments[0].type):
        return value
    return as_type(number(value), measure.type, "")


def _mode(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    entries = _in_order(measure, rows)
    return _in_type(measure, max(entries, key=lambda e: e[1])[0]) if entries else None


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


def _arrived(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    by_value: dict[Any, list[Row]] = {}
    for row in rows:
        value = read(measure.arguments[0], row)
        if measure.keep_nulls or value is not None:
            by_value.setdefault(value, []).append(row)
    last = measure.kind == "last"
    came = {v: _arrival(found, last=last) for v, found in by_value.items()}
    there = [(arrival, value) for value, arrival in came.items() if arrival is not None]
    if not there:
        return None
    return (max if last else min)(there, key=lambda pair: pair[0])[1]


def _arrival(rows: Sequence[Row], *, last: bool) -> tuple[int, int] | None:
    """When the first of some equal rows arrived, or with `last` the newest; None if all are
    deleted.
    """
    weight, arrival = 0, None
    for batch in sorted({r.batch for r in rows}):
        here = [r for r in rows if r.batch == batch]
        gain = sum(r.weight for r in here)
        places = [r.place for r in here if r.weight > 0]
        if weight + gain > 0 and gain > 0 and (last or weight <= 0):
            arrival = (batch, max(places) if last else min(places))
        weight += gain
        arrival = arrival if weight > 0 else None
    return arrival


def _by(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    value, by = measure.arguments
    pairs = live_entries(rows, [Key(by), Key(value, nulls_first=True)])
    skips = ("IGNORE_NULLS", "TRUE") in measure.options
    values = [x for (y, x), _ in pairs if y is not None and not (skips and x is None)]
    return None if not values else values[-1 if measure.kind == "max_by" else 0]


def _union(measure: BoundMeasure, rows: Sequence[Row]) -> Any:
    weights: Counter[Values] = Counter()
    for row in rows:
        for element in evaluate(measure.arguments[0], row.values) or ():
            weights[(canonical(element),)] += row.weight
    return [
        values[0] for values, _ in in_order(weights, [Key(measure.arguments[0], nulls_first=True)])
    ]


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
    **dict.fromkeys(("first", "last"), _arrived),
    **dict.fromkeys(("min_by", "max_by"), _by),
    "list_union_distinct": _union,
}


# --- measures of a column ------------------------------------------------------------------------

Pair = tuple[Any, int]
"""A value and the weight of its row."""


def measured(kind: Any, pairs: Iterable[Pair], output: str, *, saturate: bool = False) -> Any:
    """The canonical value of a measure of one argument, whose type is a text, over (value, weight) pairs."""
    name, _, params = output.rstrip("!>").partition("<")
    type_ = Type(name, params=tuple(map(int, params.split(","))) if params else ())
    options = (("OVERFLOW", "SATURATE"),) if saturate else ()
    measure = BoundMeasure(kind, (Column(type_, 0),), None, type_, kind, "", options=options)
    return value_of(measure, [Row((value,), weight) for value, weight in pairs], 0)
