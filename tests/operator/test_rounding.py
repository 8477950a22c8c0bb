"""Exact products of columns, and rounding to floats in every direction and at any shift."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrait_agg.functions.numbers import exact
from substrait_agg.functions.numbers.roots import exponents, scaled_floats
from substrait_agg.operator.common.spec import MeasureSpec
from substrait_agg.operator.measures.moments import moment_value
from substrait_agg.operator.numeric.delta import FloatDigits
from substrait_agg.plan.types import FP64
from tests.operator.rounding import MODES, round_float
from tests.operator.test_exact import NUMBERS, digits_of, values_of


@settings(deadline=None)
@given(NUMBERS, NUMBERS)
def test_products_of_columns(left: list[int], right: list[int]) -> None:
    """Row by row, carried; digits of -2^31 included."""
    size = min(len(left), len(right))
    product = exact.multiply(digits_of(left[:size]), digits_of(right[:size], 12))
    wanted = [a * b for a, b in zip(left[:size], right[:size], strict=True)]
    assert values_of(product) == wanted
    assert (np.abs(product) <= 1 << 31).all()


def test_the_lowest_digits_multiply() -> None:
    low = np.full((4, 1), -(1 << 31), np.int64)
    (value,) = values_of(low)
    assert values_of(exact.multiply(low, low)) == [value * value]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("precision", "lowest"), [(53, -1022), (24, -126)])
@settings(deadline=None)
@given(
    numbers=NUMBERS,
    shifts=st.lists(st.integers(-1500, 1100), min_size=20, max_size=20),
    cut=st.booleans(),
)
def test_rounding_in_every_direction(
    mode: str, precision: int, lowest: int, numbers: list[int], shifts: list[int], cut: bool
) -> None:
    """Through subnormals, ties and overflow, with a shift per number and something cut off below the lowest digit."""
    below, mag = exact.magnitude(digits_of(numbers))
    inexact = np.array([cut and v != 0 for v in numbers])
    shift = np.array(shifts[: len(numbers)])
    found = exact.to_float(
        mag, below, inexact, 0, precision=precision, lowest=lowest, shift=shift, rounding=mode
    )
    narrowed = np.where(np.abs(found) >= 2.0**128, np.copysign(np.inf, found), found)
    found = narrowed if precision == 24 else found
    for got, number, bits in zip(found.tolist(), numbers, shifts, strict=False):
        size = abs(number) + (Fraction(1, 2**400) if cut and number else Fraction(0))
        exactly = size * Fraction(2) ** bits * (-1 if number < 0 else 1)
        assert got == round_float(exactly, mode, single=precision == 24)


@settings(deadline=None)
@given(NUMBERS)
def test_floats_with_powers_of_their_own(numbers: list[int]) -> None:
    """A float from 1 to 2 and a power of two, for numbers far beyond any float."""
    below, mag = exact.magnitude(digits_of(numbers))
    whole = np.zeros_like(below)
    fractions, powers = scaled_floats(mag, whole, 100)
    for number, fraction, power in zip(numbers, fractions.tolist(), powers.tolist(), strict=True):
        if number:
            assert 1 <= fraction <= 2
            assert abs(Fraction(fraction) * 2**power / (abs(number) * 2**3200) - 1) <= Fraction(
                1, 2**53
            )
    wanted = [abs(v).bit_length() - 1 if v else 0 for v in numbers]
    assert exponents(mag, 0).tolist() == wanted


def test_no_groups_at_all() -> None:
    sums = {name: FloatDigits(0, exact.zeros(1, 0)) for name in ("x", "y", "xx", "xy", "yy")}
    for kind in ("variance", "std_dev", "covar", "corr"):
        measure = MeasureSpec(kind, (), FP64, kind)
        assert moment_value(measure, np.zeros(0, np.int64), sums).to_pylist() == []
