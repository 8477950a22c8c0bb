"""Digits: every operation equals the same operation on Python's integers and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from substrait_agg.functions.numbers import exact

DIGITS = 11
NUMBERS = st.lists(
    st.one_of(
        st.integers(-(2**300), 2**300),
        st.integers(-5, 5),
        st.builds(
            lambda s, k, d: s * (2**k + d),
            st.sampled_from([1, -1]),
            st.integers(0, 300),
            st.integers(-1, 1),
        ),
    ),
    min_size=1,
    max_size=20,
)


def digits_of(values: list[int], length: int = DIGITS) -> exact.Digits:
    """Carried digits of integers."""
    digits = exact.zeros(length, len(values))
    for i, value in enumerate(values):
        for d in range(length):
            part = (abs(value) >> (32 * d)) & 0xFFFFFFFF
            digits[d, i] = part if value >= 0 else -part
    return exact.carry(digits)


def values_of(digits: np.ndarray) -> list[int]:
    """Integers from digits, carried or not, or from magnitudes."""
    return [sum(int(d) << (32 * k) for k, d in enumerate(column)) for column in digits.T]


def as_float(value: Fraction) -> float:
    """The nearest float, infinite beyond the largest."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@given(NUMBERS, NUMBERS)
def test_sums_and_signs(left: list[int], right: list[int]) -> None:
    """Digit-wise sums carry to the sums; the highest nonzero digit has the sign."""
    size = min(len(left), len(right))
    total = exact.carry(digits_of(left[:size], 12) + digits_of(right[:size], 12))
    wanted = [a + b for a, b in zip(left[:size], right[:size], strict=True)]
    assert values_of(total) == wanted
    assert exact.negative(total).tolist() == [w < 0 for w in wanted]
    assert (np.abs(total[:-1]) <= 1 << 31).all()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9), st.integers(0, 5))
def test_shifted_additions(values: list[int], shift: int) -> None:
    """Int64 values are added at any multiple of 16 bits."""
    target = exact.zeros(7, len(values))
    exact.add_at(target, np.array(values, np.int64), 16 * shift)
    assert values_of(target) == [v << (16 * shift) for v in values]


@given(NUMBERS, NUMBERS, st.integers(1, 6), st.integers(0, 7))
def test_addition_in_place(left: list[int], right: list[int], keep: int, used: int) -> None:
    """Sums that fit the digits are exact; the others are reported."""
    size = min(len(left), len(right))
    low, high = (sum(end << (32 * d) for d in range(keep)) for end in (-(2**31), 2**31 - 1))
    old = [low + value % (high - low + 1) for value in left[:size]]
    added = [value % 2 ** (32 * used) * (-1) ** (value % 2) for value in right[:size]]
    total = digits_of(old, keep + 1)[:keep].copy()
    assert values_of(total) == old
    lost = exact.add_to(total, 3 * digits_of(added, used + 4))
    wanted = [a + 3 * b for a, b in zip(old, added, strict=True)]
    assert [bool(n) for n in (np.zeros(size) if lost is None else lost)] == [
        not low <= value <= high for value in wanted
    ]
    if lost is None:
        assert values_of(total) == wanted
        assert values_of(exact.carry(exact.widen(total, keep + 1).copy())) == wanted


@given(NUMBERS, st.integers(0, 60))
def test_powers_of_ten(values: list[int], power: int) -> None:
    """Multiplied and divided by a power of ten."""
    digits = digits_of(values)
    assert values_of(exact.times_power_of_ten(digits, power)) == [v * 10**power for v in values]
    _, mag = exact.magnitude(digits)
    quotient, inexact = exact.divide_by_power_of_ten(mag, power)
    assert values_of(quotient) == [abs(v) // 10**power for v in values]
    assert inexact.tolist() == [abs(v) % 10**power != 0 for v in values]


@given(
    st.lists(
        st.tuples(st.integers(-(2**300), 2**300), st.integers(1, 2**63 - 1)), min_size=1, max_size=9
    )
)
def test_division(pairs: list[tuple[int, int]]) -> None:
    """Floor and remainder for divisors below and above 32 bits together."""
    below, mag = exact.magnitude(digits_of([v for v, _ in pairs]))
    assert below.tolist() == [v < 0 for v, _ in pairs]
    quotient, inexact = exact.divide(mag, np.array([d for _, d in pairs], np.uint64))
    assert values_of(quotient) == [abs(v) // d for v, d in pairs]
    assert inexact.tolist() == [abs(v) % d != 0 for v, d in pairs]


@given(NUMBERS)
def test_halves(values: list[int]) -> None:
    """Half of a number rounded up, and twice it."""
    _, mag = exact.magnitude(digits_of(values))
    assert values_of(exact.half_of(mag)) == [(abs(v) + 1) // 2 for v in values]
    assert values_of(exact.double(mag)) == [2 * abs(v) for v in values]


@given(NUMBERS, st.integers(-37, 25), st.booleans())
def test_rounding_to_double(values: list[int], base: int, cut: bool) -> None:
    """Correctly rounded, ties to even, through subnormals and overflow; a remainder cut off counts."""
    below, mag = exact.magnitude(digits_of(values))
    inexact = np.array([cut and v != 0 for v in values])
    found = exact.to_float(mag, below, inexact, base)
    unit = Fraction(2) ** (32 * base)
    rest = Fraction(1, 2**400) if cut else Fraction(0)
    sizes = [abs(v) + rest if v else Fraction(0) for v in values]
    wanted = [as_float(s * unit * (-1 if v < 0 else 1)) for s, v in zip(sizes, values, strict=True)]
    assert found.tolist() == wanted


@given(st.lists(st.integers(-(2**130), 2**130), min_size=1, max_size=9))
def test_words(values: list[int]) -> None:
    """Two's complement of 128 bits and back; numbers beyond it wrap."""
    below, mag = exact.magnitude(digits_of(values))
    words = exact.low_words(mag, below, 2)
    assert [int(a) | int(b) << 64 for a, b in words] == [v % 2**128 for v in values]
    signed = [(v + 2**127) % 2**128 - 2**127 for v in values]
    assert values_of(exact.from_words(words.view(np.int64))) == signed


@given(NUMBERS, st.integers(1, 10**60))
def test_limits(values: list[int], limit: int) -> None:
    """Compared with a limit of any size."""
    _, mag = exact.magnitude(digits_of(values))
    assert exact.below_limit(mag, limit).tolist() == [abs(v) < limit for v in values]


@given(NUMBERS, st.integers(1, 12))
def test_narrowing(values: list[int], keep: int) -> None:
    """Fewer digits where the number fits, and a mark where it does not."""
    digits = digits_of(values, 12)
    kept, lost = exact.narrow(digits, keep)
    for value, mark, column in zip(values, lost.tolist(), kept.T, strict=True):
        if not mark:
            assert values_of(column[:, None]) == [value]
        else:
            assert abs(value) >= 2 ** (32 * keep - 1) - 2 ** (32 * keep - 32)


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=5))
def test_small_values_come_out_as_int64(values: list[int]) -> None:
    """Either the values themselves, or None."""
    found = exact.as_int64(digits_of(values, 5))
    assert found is None or found.tolist() == values
    if all(abs(v) < 2**60 for v in values):
        assert found is not None
