"""A slow, plain model of measures over weighted rows: exact fractions, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tests.e2e.tpch import half_away

INTEGER_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}

Pair = tuple[Any, int]
"""A value and the weight of its row."""


class Overflow(Exception):
    """A result does not fit its type."""


def measured(kind: str, pairs: Iterable[Pair], output: str, *, saturate: bool = False) -> Any:
    """The value of a measure over the (value, weight) pairs for which its filter holds.

    Args:
        kind: count (of non-null values), sum, sum0 or avg.
        pairs: values of any type, None for null.
        output: type of the result, as text.
        saturate: the nearest value of the type instead of `Overflow`.
    """
    present = [(value, weight) for value, weight in pairs if value is not None]
    count = sum(weight for _, weight in present)
    if kind == "count":
        return _fitted(Fraction(max(0, count)), output, saturate=saturate)
    if count <= 0:
        return _zero(output) if kind == "sum0" else None
    divisor = count if kind == "avg" else 1
    if any(isinstance(value, float) for value, _ in present):
        return _float_total(present, divisor, output)
    total = sum((Fraction(value) * weight for value, weight in present), Fraction(0))
    return _fitted(total / divisor, output, saturate=saturate)


def _zero(output: str) -> Any:
    return 0.0 if output.startswith("fp") else _fitted(Fraction(0), output, saturate=False)


def _fitted(value: Fraction, output: str, *, saturate: bool) -> Any:
    kind = output.rstrip("!").partition("<")[0]
    if kind in ("fp32", "fp64"):
        return nearest(value, single=kind == "fp32")
    if kind in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[kind] - 1)
        return _clipped(math.trunc(value), -limit, limit - 1, saturate=saturate)
    precision, scale = (int(p) for p in output.rstrip("!").rstrip(">").partition("<")[2].split(","))
    unscaled = half_away(value, scale)
    most = 10**precision - 1
    # Written out: arithmetic on Decimal would round to the context's 28 digits.
    return Decimal(f"{_clipped(unscaled, -most, most, saturate=saturate)}e-{scale}")


def _clipped(value: int, low: int, high: int, *, saturate: bool) -> int:
    if not saturate and not low <= value <= high:
        raise Overflow
    return max(low, min(high, value))


def _float_total(present: list[Pair], divisor: int, output: str) -> float:
    def some(test: Callable[[float], bool]) -> bool:
        return sum(weight for value, weight in present if test(value)) > 0

    plus, minus = some(lambda v: v == math.inf), some(lambda v: v == -math.inf)
    if some(math.isnan) or (plus and minus):
        return math.nan
    if plus or minus:
        return math.inf if plus else -math.inf
    finite = [(Fraction(v), w) for v, w in present if math.isfinite(v)]
    total = sum((v * w for v, w in finite), Fraction(0)) / divisor
    return nearest(total, single=output.startswith("fp32"))


def nearest(value: Fraction, *, single: bool) -> float:
    """The nearest fp64, or fp32, ties to even; beyond the largest, infinity."""
    if value == 0:
        return 0.0
    lowest, bits, top = (-126, 23, 128) if single else (-1022, 52, 1024)
    size = abs(value)
    exponent = max(lowest, size.numerator.bit_length() - size.denominator.bit_length() - 1)
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - bits)
    rounded = round(size / unit) * unit
    result = math.inf if rounded >= Fraction(2) ** top else float(rounded)
    return -result if value < 0 else result
