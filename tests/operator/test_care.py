"""How the next batch is computed follows from what this one was like."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from substrait_agg.commit.task_plan import TaskResult
from substrait_agg.functions.accumulators import Accumulator
from substrait_agg.operator.spec import OperatorSpec
from substrait_agg.plan.types import Type
from substrait_agg.spark.answers import HANDED_OVER
from substrait_agg.spark.care import ALIKE, FEW_GROUPS, UNWEIGHED_BYTES, Care, at_once, next_care

FLOAT = Accumulator("float", 0, 0, 0)


def spec(accumulators: int = 1, **changed: Any) -> OperatorSpec:
    sums = tuple(replace(FLOAT, argument=i) for i in range(accumulators))
    made = OperatorSpec((pa.int64(),), sums, (), "one", multiset=False, is_global=False)
    return replace(made, **changed)


def after(rows: int, groups: int, care: Care, told: OperatorSpec, received: int = 0) -> Care:
    counters = {"input_rows": rows, "touched": groups, "partial_rows": rows}
    return next_care(told, [TaskResult(0, 1, counters=counters, received=received)], care)


def test_rows_are_summed_first_where_their_keys_repeat() -> None:
    """And not where hardly any do; in between it stays as it is."""
    told = spec()
    assert not after(1_000, 10, Care(), told).raw
    assert after(1_000, 900, Care(), told).raw
    between = [after(1_000, 400, Care(raw=raw), told).raw for raw in (False, True)]
    assert between == [False, True]


def test_many_measures_are_rather_exchanged_as_rows() -> None:
    """Their partial sums are several times as wide as the rows that they are made of."""
    assert not after(1_000, 350, Care(), spec(1)).raw
    assert after(1_000, 350, Care(), spec(20)).raw


def test_one_group_and_any_weights_are_always_summed_first() -> None:
    """One task would get all rows; and products with weights of any size are made on Spark."""
    assert not after(2, 1, Care(), spec(30, is_global=True)).raw
    assert not after(1_000, 1_000, Care(), spec(30, weight="any")).raw


def test_the_driver_takes_the_sums_of_few_groups() -> None:
    """And leaves many to the workers."""
    told = spec()
    assert after(10**6, FEW_GROUPS, Care(), told).few
    assert not after(10**6, FEW_GROUPS + 1, Care(few=True), told).few


def test_few_groups_are_not_expected_of_a_much_larger_batch() -> None:
    """Where there were few in a thousand rows, there may be many in a million."""
    care = after(10**3, 10, Care(size=1_000), spec())
    assert care.of_size(ALIKE * 1_000) == replace(care, size=ALIKE * 1_000)
    assert not care.of_size(ALIKE * 1_000 + 1).few


def test_a_batch_without_rows_says_nothing() -> None:
    """The next one is computed as the one before it."""
    care = Care(raw=True, few=True, row_bytes=70)
    assert next_care(spec(), [], care) == care


@pytest.mark.parametrize(
    ("row_bytes", "rows"),
    [
        (0, None), (1, HANDED_OVER), (1 << 8, HANDED_OVER), (1 << 14, 1 << 10), (UNWEIGHED_BYTES, 1),
        (UNWEIGHED_BYTES + 1, None),
    ],
)  # fmt: skip
def test_rows_of_any_length_are_weighed_until_their_length_is_known(
    row_bytes: int, rows: int | None
) -> None:
    """Then so many are handed over at once that they take a bounded number of bytes, if they are as long as those before."""
    node: Any = type("Node", (), {"key_types": (Type("string"),), "arguments": ()})
    assert at_once(node, Care(row_bytes=row_bytes)) == rows
    node.key_types = (Type("i64"), Type("decimal", params=(38, 0)))
    assert at_once(node, Care(row_bytes=row_bytes)) == HANDED_OVER


def test_the_length_of_rows_is_that_of_all_that_came() -> None:
    """Rounded up, so that rows of a bit are not taken for unknown."""
    assert after(1_000, 10, Care(), spec(), received=1).row_bytes == 1
    assert after(1_000, 10, Care(row_bytes=9), spec(), received=64_001).row_bytes == 65
