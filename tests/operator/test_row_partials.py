"""Raw rows become partial sums without loss: for weights of every kind, floats and products of floats of every size."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrait_agg.functions.aggregates.accumulators import Accumulator, WeightKind, digits_for
from substrait_agg.functions.numbers import exact
from substrait_agg.operator.aggregate.groups import RowGroups
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.operator.measures.row_partials import Weights, split_accumulator, split_rows
from substrait_agg.operator.numeric.delta import (
    FloatDigits,
    add_floats,
    coefficients,
    fixed_digits,
    float_digits,
    from_halves,
    pack_floats,
    split_registers,
    unpack_floats,
)

X, Y = 2, 3  # places of the floats in a row
LONGS = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
UNITS = st.one_of(st.integers(-3, 3), st.integers(1 - 10**38, 10**38 - 1))
EXTREMES = [
    0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e-320, 2.2250738585072014e-308, 1.7976931348623157e308,
    -1.7976931348623157e308, 2.0**53 + 2, 2.0**-32, 2.0**32 - 2**-20, math.nan, math.inf, -math.inf,
]  # fmt: skip
FLOATS = st.one_of(st.sampled_from(EXTREMES), st.floats(width=64))
WEIGHTS: dict[WeightKind, st.SearchStrategy[int]] = {
    "append_only": st.just(1),
    "changelog": st.sampled_from([1, -1]),
    "weighted": st.one_of(
        st.integers(-3, 3),
        st.integers(-(2**63), 2**63 - 1),
        st.sampled_from([2**63 - 1, -(2**63), 2**16 - 1, -(2**16), 2**32, -1]),
    ),
}
Row = tuple[int | None, int | None, float | None, float | None, int]


def rows(kind: WeightKind) -> st.SearchStrategy[list[Row]]:
    """Rows of (i64, unscaled decimal, x, y, weight)."""

    def perhaps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(st.none(), values, values, values)

    one = st.tuples(perhaps(LONGS), perhaps(UNITS), perhaps(FLOATS), perhaps(FLOATS), WEIGHTS[kind])
    return st.lists(one, min_size=1, max_size=9)


def spec_for(kind: WeightKind) -> OperatorSpec:
    """An operator that keeps a number of every kind; the entries of a tree are none of the rows' business."""
    accumulators = (
        Accumulator("count", 0, 0, 2),
        Accumulator("integer", 0, 64, digits_for(64, kind)),
        Accumulator("decimal", 1, 128, digits_for(128, kind)),
        Accumulator("float", 2, 0, 0),
        Accumulator("product", 2, 0, 0, other=3),
        Accumulator("product", 3, 0, 0, other=3),
        Accumulator("live", None, 0, 2, tree=0),
        Accumulator("float", 2, 0, 0, tree=0),
    )
    return OperatorSpec((pa.int64(),), accumulators, (), kind, is_global=False)


def batch_of(given_: list[Row], kind: WeightKind) -> pa.RecordBatch:
    """Raw rows after a few that are cut off, so that the columns have an offset."""
    ints, units, xs, ys, weights = zip(*([(9, 9, 9.0, 9.0, 1)] * 3 + given_), strict=True)
    columns = {
        "k0": pa.array([1] * len(ints)),
        "x0": pa.array(ints, pa.int64()),
        "x1": pa.array([None if u is None else Decimal(f"{u}e-2") for u in units], pa.decimal128(38, 2)),
        "x2": pa.array(xs, pa.float64()),
        "x3": pa.array(ys, pa.float64()),
    }  # fmt: skip
    if kind != "append_only":
        columns["__weight"] = pa.array(weights, pa.int64())
    return pa.RecordBatch.from_pydict(columns).slice(3)


def integer_of(digits: exact.Digits) -> int:
    """The sum of all rows' digits."""
    return sum(int(d) << (32 * k) for k, row in enumerate(digits) for d in row)


def total(value: FloatDigits) -> FloatDigits:
    """All rows added up and carried, through the stored form."""
    one = RowGroups.of(np.zeros(value.digits.shape[1], np.int64), 1)
    summed = one.sum_floats(value)
    return unpack_floats(*pack_floats(add_floats(FloatDigits(0, exact.zeros(1, 1)), summed)))


def check_floats(value: FloatDigits, products: list[tuple[Fraction | float, int]]) -> None:
    """Check that the finite part is the exact sum, and that the registers count the other values."""
    finite, (nan, plus, minus) = split_registers(total(value))
    wanted = sum((v * w for v, w in products if isinstance(v, Fraction)), Fraction(0))
    assert integer_of(finite.digits) * Fraction(2) ** (32 * finite.base) == wanted
    special = [(float(v), w) for v, w in products if not isinstance(v, Fraction)]
    counts = (
        sum(w for v, w in special if math.isnan(v)),
        sum(w for v, w in special if v == math.inf),
        sum(w for v, w in special if v == -math.inf),
    )
    assert [int(nan[0]), int(plus[0]), int(minus[0])] == [int(np.sign(c)) for c in counts]


def product(x: float, y: float) -> Fraction | float:
    """Exact where both factors are finite."""
    return Fraction(x) * Fraction(y) if math.isfinite(x) and math.isfinite(y) else x * y


@pytest.mark.parametrize("kind", ["append_only", "changelog", "weighted"])
@settings(deadline=None)
@given(data=st.data())
def test_partial_sums_of_raw_rows_are_exact(kind: WeightKind, data: st.DataObject) -> None:
    """Counts, integers, decimals, floats and products, each times its weight, add up without rounding."""
    given_ = data.draw(rows(kind))
    spec = spec_for(kind)
    table = pa.Table.from_batches([split_rows(batch_of(given_, kind), spec)])
    assert not {"x0", "__weight", "a6_0", "a7_0"} & set(table.column_names)
    assert integer_of(coefficients(table, "w")) == sum(r[4] for r in given_)
    fixed = [integer_of(fixed_digits(table, i, spec.accumulators[i])) for i in range(3)]
    assert fixed == [
        sum(r[4] for r in given_ if r[0] is not None),
        sum((r[0] or 0) * r[4] for r in given_),
        sum((r[1] or 0) * r[4] for r in given_),
    ]
    for i, left, right in ((3, X, None), (4, X, Y), (5, Y, Y)):
        value = float_digits(table, i, spec.accumulators[i])
        factors = [(r[left], 1.0 if right is None else r[right], r[4]) for r in given_]
        present = [(product(x, y), w) for x, y, w in factors if x is not None and y is not None]
        check_floats(value, present)


def test_products_reach_from_the_smallest_to_the_largest() -> None:
    """One sum contains the square of the smallest float and many squares of the largest, apart from
    the registers.
    """
    most, least = 1.7976931348623157e308, 5e-324
    x = pa.array([most, most, least, -least, math.inf, 0.0, None, 1.0])
    y = pa.array([most, -most, least, least, 1.0, math.inf, math.nan, 1.0])
    weight = np.array([2**63 - 1, 5, 2**62, 1, -3, 2, 1, 0], np.int64)
    accumulator = Accumulator("product", 0, 0, 0, other=1)
    cells = split_accumulator(0, accumulator, {0: x, 1: y}, Weights.of(weight))
    value = float_digits(pa.table(cells), 0, accumulator)
    wanted = Fraction(most) ** 2 * (2**63 - 6) + Fraction(least) ** 2 * (2**62 - 1)
    check_floats(value, [(wanted, 1), (math.inf, -3), (math.nan, 2)])


def test_finite_products_never_reach_the_registers() -> None:
    """The largest product with the largest weight, doubled 63 times, is still distinguished from
    NaN.
    """
    most = pa.array([1.7976931348623157e308])
    accumulator = Accumulator("product", 0, 0, 0, other=0)
    cells = split_accumulator(0, accumulator, {0: most}, Weights.of(np.array([2**63 - 1])))
    value = total(float_digits(pa.table(cells), 0, accumulator))
    for _ in range(63):
        value = add_floats(value, value)
    _, registers = split_registers(value)
    assert [int(r[0]) for r in registers] == [0, 0, 0]
    below = FloatDigits(value.base, -value.digits)
    assert [int(r[0]) for r in split_registers(below)[1]] == [0, 0, 0]


def test_what_is_not_finite_is_counted_apart_from_the_digits() -> None:
    """One NaN does not give every group of a slice the digits between it and the finite values."""
    values = pa.array([1.0, math.nan, 2.5, -math.inf])
    cells = split_accumulator(
        0, Accumulator("float", 0, 0, 0), {0: values}, Weights.of(np.ones(4, np.int64))
    )
    value = float_digits(pa.table(cells), 0, Accumulator("float", 0, 0, 0))
    plain = float_digits(pa.table(cells).slice(0, 1), 0, Accumulator("float", 0, 0, 0))
    assert len(value.digits) == len(plain.digits)
    stored = unpack_floats(*pack_floats(add_floats(FloatDigits(0, exact.zeros(1, 4)), value)))
    counts = [list(register) for register in split_registers(stored)[1]]
    assert counts == [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    gone = FloatDigits(value.base, -value.digits, -value.registers)  # type: ignore[operator]
    assert add_floats(value, gone).registers is None


def test_single_floats_multiply_exactly() -> None:
    x = pa.array([0.1, 3.0000002], pa.float32())
    accumulator = Accumulator("product", 0, 0, 0, other=0)
    cells = split_accumulator(0, accumulator, {0: x}, Weights.of(np.array([1, -1])))
    value = float_digits(pa.table(cells), 0, accumulator)
    exactly = [Fraction(v) ** 2 for v in x.to_pylist()]
    check_floats(value, [(exactly[0], 1), (exactly[1], -1)])


@settings(deadline=None)
@given(columns=st.lists(st.lists(LONGS, min_size=3, max_size=3), min_size=1, max_size=12))
def test_sums_in_halves_keep_their_value(columns: list[list[int]]) -> None:
    """Coefficients at distances of 16 bits, of any size, become coefficients at distances of 32 bits."""
    cells = {f"a0h_{j}": pa.array(column, pa.int64()) for j, column in enumerate(columns)}
    rows = from_halves(pa.RecordBatch.from_pydict({"k0": pa.array([1, 2, 3]), **cells}))
    assert "a0h_0" not in rows.schema.names
    digits = coefficients(pa.Table.from_batches([rows]), "a0")
    for i in range(3):
        wanted = sum(column[i] << (16 * j) for j, column in enumerate(columns))
        assert integer_of(digits[:, i : i + 1]) == wanted


def test_weights_at_the_limit_have_one_coefficient() -> None:
    """One more bit, and they are cut; a value of 63 bits times either is exact."""
    accumulator = Accumulator("integer", 0, 64, digits_for(64, "weighted"))
    value = pa.array([-(2**63), 2**63 - 1])
    for most, columns in ((2**28, 2), (2**28 + 1, 4), (-(2**63), 4)):
        weight = np.array([most, 1 if most < 0 else -most])
        cells = split_accumulator(0, accumulator, {0: value}, Weights.of(weight))
        assert len(cells) == columns
        total_ = integer_of(fixed_digits(pa.table(cells), 0, accumulator))
        assert total_ == -(2**63) * int(weight[0]) + (2**63 - 1) * int(weight[1])
