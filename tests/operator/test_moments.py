"""Variance, standard deviation, covariance and correlation equal exact fractions, rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrait_agg.functions.numbers import exact, roots
from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.operator.measures import moments
from substrait_agg.operator.measures.moments import moment_value
from substrait_agg.operator.numeric.delta import FloatDigits
from substrait_agg.plan.types import FP32, FP64, Type
from tests.operator.rounding import MODES, round_float
from tests.sampling import examples

LOWEST = -2148 // 32 - 1
"""Position of a digit below the product of the two smallest floats."""
DIGITS = 96 - LOWEST

Pair = tuple[float, float]
Group = Sequence[tuple[Pair, int]]


def digits_of(numbers: Sequence[Fraction]) -> FloatDigits:
    """Carried digits of exact sums."""
    digits = exact.zeros(DIGITS, len(numbers))
    for row, number in enumerate(numbers):
        units = number / Fraction(2) ** (32 * LOWEST)
        assert units.denominator == 1
        size = np.frombuffer(abs(int(units)).to_bytes(4 * DIGITS, "little"), np.uint32)
        digits[:, row] = size.astype(np.int64) * (-1 if number < 0 else 1)
    return FloatDigits(LOWEST, exact.carry(digits))


def sums_of(groups: Sequence[Group]) -> tuple[np.ndarray[Any, Any], dict[str, FloatDigits]]:
    """Counts and exact sums."""
    count = np.array([sum(w for _, w in g) for g in groups], np.int64)

    def total(a: int | None, b: int | None) -> FloatDigits:
        return digits_of(
            [
                sum(
                    (Fraction(p[a] if a is not None else 1) * Fraction(p[b] if b is not None else 1) * w for p, w in g),
                    Fraction(0),
                )
                for g in groups
            ]
        )  # fmt: skip

    names = {"x": (0, None), "y": (1, None), "xx": (0, 0), "xy": (0, 1), "yy": (1, 1)}
    return count, {name: total(*which) for name, which in names.items()}


def measure_of(kind: Any, type_: Type = FP64, **options: str) -> MeasureSpec:
    """A measure with options."""
    return MeasureSpec(kind, (), type_, kind, options=tuple(options.items()))


def values_of(kind: Any, groups: Sequence[Group], type_: Type = FP64, **options: str) -> list[Any]:
    """The results of the kernel."""
    count, sums = sums_of(groups)
    return list(moment_value(measure_of(kind, type_, **options), count, sums).to_pylist())


def spread(group: Group, a: int, b: int) -> Fraction:
    """n * sum(xy) - sum(x) * sum(y)."""
    n = sum(w for _, w in group)
    first = sum((Fraction(p[a]) * Fraction(p[b]) * w for p, w in group), Fraction(0))
    left, right = (sum((Fraction(p[i]) * w for p, w in group), Fraction(0)) for i in (a, b))
    return n * first - left * right


def root(value: Fraction, mode: str, *, single: bool) -> float:
    """The square root, rounded in a direction, from an integer root with 200 bits and a sticky bit."""
    if value == 0:
        return 0.0
    scale = 2 * max(0, 300 - (value.numerator.bit_length() - value.denominator.bit_length()) // 2)
    scaled = value * Fraction(2) ** scale
    whole = math.isqrt(math.floor(scaled))
    more = Fraction(0) if whole * whole == scaled else Fraction(1, 2)
    return round_float((whole + more) / Fraction(2) ** (scale // 2), mode, single=single)


FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([1e308, -1e308, 5e-324, 1e-320, 2.0**53, 2.0**53 + 2, 0.1, -0.1, 0.0, 1e20]),
    st.integers(-4, 4).map(float),
)
GROUPS = st.lists(
    st.lists(
        st.tuples(
            st.tuples(FLOATS, FLOATS), st.one_of(st.integers(1, 3), st.sampled_from([2**40, 2**58]))
        ),
        max_size=5,
    ),
    max_size=4,
)


@pytest.mark.parametrize("distribution", ["SAMPLE", "POPULATION"])
@pytest.mark.parametrize("type_", [FP64, FP32])
@settings(deadline=None, max_examples=examples(40))
@given(groups=GROUPS, mode=st.sampled_from(MODES))
def test_variance_deviation_and_covariance_are_rounded_once(
    distribution: str, type_: Type, groups: Sequence[Group], mode: str
) -> None:
    """Correctly rounded in every mode, for values of all sizes together and any weights; null where undefined."""
    options = {"DISTRIBUTION": distribution, "ROUNDING": mode}
    single, less = type_.kind == "fp32", distribution == "SAMPLE"
    found = {k: values_of(k, groups, type_, **options) for k in ("variance", "std_dev", "covar")}
    for i, group in enumerate(groups):
        n = sum(w for _, w in group)
        if n - less <= 0:
            assert [found[k][i] for k in found] == [None] * 3
            continue
        variance, covariance = (spread(group, 0, b) / (n * (n - less)) for b in (0, 1))
        assert found["variance"][i] == round_float(variance, mode, single=single)
        assert found["covar"][i] == round_float(covariance, mode, single=single)
        assert found["std_dev"][i] == root(variance, mode, single=single)


@settings(deadline=None, max_examples=examples(40))
@given(GROUPS)
def test_correlation_is_within_two_units(groups: Sequence[Group]) -> None:
    """Next to the exact value, within [-1, 1]; null where x or y does not vary."""
    for got, group in zip(values_of("corr", groups), groups, strict=True):
        square = spread(group, 0, 0) * spread(group, 1, 1)
        if not group or square == 0:
            assert got is None
            continue
        top = spread(group, 0, 1)
        size = root(top * top / square, "TIE_TO_EVEN", single=False)
        wanted = -size if top < 0 else size
        assert abs(got - wanted) <= 2 * math.ulp(wanted)
        assert -1 <= got <= 1


@settings(deadline=None)
@given(
    st.lists(st.tuples(FLOATS, st.integers(1, 9)), min_size=2, max_size=5),
    st.sampled_from([2.0, -0.5, 1.0]),
)
def test_points_on_a_line_correlate_exactly(points: list[tuple[float, int]], slope: float) -> None:
    group = [((x, x * slope), w) for x, w in points]
    exactly = all(
        Fraction(x) * Fraction(slope) == Fraction(y) for (x, y), _ in group if math.isfinite(y)
    )
    if (
        not exactly
        or not all(math.isfinite(y) for (_, y), _ in group)
        or len({p for p, _ in group}) == 1
    ):
        return
    assert values_of("corr", [group]) == [math.copysign(1.0, slope)]


@pytest.mark.parametrize("value", [1e308, 5e-324, 0.1, 2.0**53 + 2, 1e-320, 1e20 / 3])
def test_equal_values_do_not_vary(value: float) -> None:
    """However large, small or many: exactly 0."""
    group = [((value, value), w) for w in (1, 2, 2**40, 3)]
    assert values_of("variance", [group]) == [0.0]
    assert values_of("std_dev", [group]) == [0.0]
    assert values_of("corr", [group]) == [None]


def test_a_small_spread_far_from_zero_is_kept() -> None:
    """Variances that plain floating point computes as 0 or less: near 2^53, and after a single
    1e308 is deleted.
    """
    near = [((2.0**53 + 2 * k, 0.0), 1) for k in range(5)]
    assert values_of("variance", [near]) == [10.0]
    left = [((1e308, 0.0), 1), ((1.0, 0.0), 1), ((3.0, 0.0), 1), ((1e308, 0.0), -1)]
    assert values_of("variance", [left]) == [2.0]
    wide = [((1e308, 0.0), 1), ((-1e308, 0.0), 1)]
    assert values_of("variance", [wide]) == [math.inf]
    assert values_of("std_dev", [wide], DISTRIBUTION="POPULATION") == [1e308]
    assert values_of("variance", [wide], ROUNDING="FLOOR") == [1.7976931348623157e308]


def test_a_correlation_that_no_multiset_has_is_not_a_number_where_one_side_does_not_vary() -> None:
    """More copies of a value are deleted than exist, so the variance of x is negative; y is constant."""
    group = [((0.0, 7.0), 3), ((1.0, 7.0), -1)]
    (got,) = values_of("corr", [group])
    assert math.isnan(got)


def test_groups_of_one_and_none() -> None:
    """Groups of one row and of none have the results of the standard's tests."""
    groups: list[Group] = [[], [((42.0, 1.0), 1)]]
    for kind in ("variance", "std_dev", "covar"):
        assert values_of(kind, groups, DISTRIBUTION="SAMPLE") == [None, None]
        assert values_of(kind, groups, DISTRIBUTION="POPULATION") == [None, 0.0]
    assert values_of("corr", groups) == [None, None]


def test_special_values_give_nan() -> None:
    """A NaN or an infinity in any sum; without it the group is as before."""
    count, sums = sums_of([[((1.0, 1.0), 1), ((2.0, 3.0), 1)]] * 2)
    for register in (0, 4, 8):
        registers = exact.zeros(12, 2)
        registers[register, 0] = 1
        changed = {**sums, "xx": FloatDigits(LOWEST, sums["xx"].digits, registers)}
        for kind in ("variance", "std_dev", "corr"):
            nan, plain = moment_value(measure_of(kind), count, changed).to_pylist()
            assert math.isnan(nan)
            assert math.isfinite(plain)


def test_sums_that_no_values_have_give_nan() -> None:
    """A retraction that came before its insertion leaves a negative spread: shown as NaN, never as a negative variance."""
    early: Group = [((1.0, 1.0), 3), ((5.0, 5.0), -1)]
    assert spread(early, 0, 0) < 0
    for kind in ("variance", "std_dev", "corr"):
        (value,) = values_of(kind, [early])
        assert math.isnan(value)


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are computed in chunks, and the bounds of chunks do not change results."""
    groups = [[((float(k), 1.0), 1), ((1e300 / (k + 1), 2.0), 1)] for k in range(7)]
    whole = values_of("variance", groups)
    monkeypatch.setattr(moments, "CHUNK", 2)
    assert values_of("variance", groups) == whole


CASES: list[tuple[list[float], str, Type, float, float]] = [
    ([1.0, 2.0, 3.0, 4.0, 5.0], "SAMPLE", FP64, 2.5, 1.5811388300841898),
    ([1.0, 2.0, 3.0, 4.0, 5.0], "POPULATION", FP64, 2.0, 1.4142135623730951),
    ([-5.0, -3.0, -1.0, 1.0, 3.0, 5.0], "SAMPLE", FP64, 14.0, 3.7416573867739413),
    ([10.0, 20.0, 30.0], "POPULATION", FP64, 66.66666666666667, 8.16496580927726),
    ([1.0, 3.0, 5.0], "POPULATION", FP64, 2.6666666666666665, 1.632993161855452),
    ([0.001, 0.002, 0.003, 0.004, 0.005], "SAMPLE", FP64, 2.5e-06, 0.0015811388300841897),
]


@pytest.mark.parametrize(("values", "distribution", "type_", "variance", "deviation"), CASES)
def test_cases_of_the_standard(
    values: list[float], distribution: str, type_: Type, variance: float, deviation: float
) -> None:
    """Values in the style of the standard's tests; the last digit is that of the exact result."""
    group = [((v, v), 1) for v in values]
    assert values_of("variance", [group], type_, DISTRIBUTION=distribution) == [variance]
    assert values_of("std_dev", [group], type_, DISTRIBUTION=distribution) == [deviation]


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 2**400), min_size=1, max_size=9), st.integers(-40, 40), st.booleans()
)
def test_roots(numbers: list[int], base: int, cut: bool) -> None:
    """Integer roots of 55 bits are never too large, at most one unit too small, and exact if there
    is no remainder.
    """
    digits = exact.zeros(15, len(numbers))
    for row, number in enumerate(numbers):
        for d in range(14):
            digits[d, row] = (number >> (32 * d)) & 0xFFFFFFFF
    _, mag = exact.magnitude(exact.carry(digits))
    inexact = np.array([cut and n > 0 for n in numbers])
    root_, unit, lost = roots.square_root(mag, inexact, base)
    for row, number in enumerate(numbers):
        if number == 0:
            assert not root_[:, row].any()
            continue
        found = Fraction(int(root_[0, row]) | int(root_[1, row]) << 32)
        one = Fraction(2) ** int(unit[row])
        value = number * Fraction(2) ** (32 * base)
        assert 2**54 <= found < 2**55
        assert (found * one) ** 2 <= value < ((found + 1) * one) ** 2
        assert bool(lost[row]) == (cut or (found * one) ** 2 != value)
