"""The fast path for totals of 63 bits returns the same values as the general path."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrait_agg.functions.aggregates.accumulators import Accumulator
from substrait_agg.functions.numbers import exact
from substrait_agg.operator.common.spec import MeasureSpec, OperatorSpec
from substrait_agg.operator.measures import finalize
from substrait_agg.operator.measures.finalize import (
    GroupState,
    number_value,
    small_float_quotient,
    small_quotient,
)
from substrait_agg.operator.numeric.delta import FloatDigits
from substrait_agg.plan.types import FP32, FP64, I8, I64, Type, decimal

TYPES = (
    I8, I64, FP64, FP32, decimal(38, 0), decimal(10, 2), decimal(38, 6), decimal(38, 12), decimal(38, 30),
)  # fmt: skip
TOTALS = st.one_of(
    st.integers(-1000, 1000),
    st.integers(-(2**61), 2**61),
    st.sampled_from([2**53 + 1, -(2**53) - 1, 10**17]),
)
COUNTS = st.one_of(st.integers(1, 9), st.sampled_from([2**31, 2**40 + 1, 10**12]))


def _measure(kind: Any, scale: int, type_: Type) -> MeasureSpec:
    return MeasureSpec(kind, (0, 1), type_, "m", scale, options=(("OVERFLOW", "SATURATE"),))


def _spec(measure: MeasureSpec) -> OperatorSpec:
    kind = "decimal" if measure.scale else "integer"
    sums = (Accumulator(kind, 0, 64, 4), Accumulator("count", 0, 0, 2))  # type: ignore[arg-type]
    return OperatorSpec((), sums, (measure,), "append_only", is_global=False)


def _values(measure: MeasureSpec, rows: list[tuple[int, int]], *, fast: bool) -> list[Any]:
    total = exact.from_words(np.array([[t] for t, _ in rows], np.int64))
    count = exact.from_words(np.array([[n] for _, n in rows], np.int64))
    fixed = np.concatenate([count[:2], exact.widen(total, 4)[:4], count[:2]])
    every = np.ones(len(rows), np.bool_)
    used = small_quotient if fast else lambda *_: None
    with patch.object(finalize, "small_quotient", used):
        column = number_value(_spec(measure), GroupState(fixed, {}), measure, every)
    return list(column.to_pylist())


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("scale", [0, 4])
@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(TOTALS, COUNTS), min_size=1, max_size=5), average=st.booleans())
def test_both_paths_agree(
    type_: Type, scale: int, rows: list[tuple[int, int]], average: bool
) -> None:
    """Sums and averages, of integers and of decimals, converted to each type; saturating where they do not fit."""
    kind = "avg" if average else "sum"
    measure = _measure(kind, scale, type_)
    assert _values(measure, rows, fast=True) == _values(measure, rows, fast=False)


def test_the_fast_path_is_taken() -> None:
    """The fast path is used for these inputs, so the comparison of both paths is meaningful."""
    measure = _measure("avg", 2, decimal(19, 6))
    digits = exact.widen(exact.from_words(np.array([[2551]], np.int64)), 4)
    assert small_quotient(measure, digits, np.array([7], np.uint64)) == [3644286]


def _float_values(rows: list[tuple[int, int]], base: int, *, average: bool) -> list[str]:
    measure = MeasureSpec("avg" if average else "sum", (0, 1), FP64, "m", 0)
    sums = Accumulator("float", 0, 64, 0), Accumulator("count", 0, 0, 2)
    spec = OperatorSpec((), sums, (measure,), "append_only", is_global=False)
    total = exact.from_words(np.array([[t, -(t < 0)] for t, _ in rows], np.int64))
    count = exact.from_words(np.array([[n] for _, n in rows], np.int64))
    state = GroupState(np.concatenate([count[:2], count[:2]]), {0: FloatDigits(base, total)})
    return list(map(repr, number_value(spec, state, measure, np.ones(len(rows), bool)).to_pylist()))


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(st.tuples(TOTALS, COUNTS | st.just(0)), min_size=1, max_size=5),
    base=st.sampled_from([-33, -31, -28, -5, -1, 0, 1, 28, 31]),
    average=st.booleans(),
)
def test_both_paths_of_floats_agree(rows: list[tuple[int, int]], base: int, average: bool) -> None:
    """Sums and averages of floats from the least to the greatest exponents, to the last bit."""
    fast = _float_values(rows, base, average=average)
    with patch.object(finalize, "small_float_quotient", lambda *_: None):
        assert fast == _float_values(rows, base, average=average)


def test_small_float_totals_take_the_fast_path() -> None:
    measure = MeasureSpec("avg", (0, 1), FP64, "m", 0)
    total = FloatDigits(-3, np.array([[0], [0], [0], [7], [0]]))
    found = small_float_quotient(measure, total, np.array([2], np.uint64))
    assert found is not None
    assert found.tolist() == [3.5]
