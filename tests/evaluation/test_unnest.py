"""Rows of the elements of lists, on Arrow as on Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from substrait_agg.bind.bound import Column
from substrait_agg.evaluation.steps import apply_steps, supports_steps
from substrait_agg.flow.graph.graph import FilterStep, UnnestStep
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.plan.types import Type
from substrait_agg.spark.inputs.linear_steps import apply_steps as apply_on_spark

I64, LIST = Type("i64"), Type("list", children=(Type("i64"),))
STEPS = (UnnestStep(Column(LIST, 1)),)

numbers = st.none() | st.integers(-3, 3)
rows = st.lists(st.tuples(numbers, st.none() | st.lists(numbers, max_size=4), st.integers(-2, 2)))


def table(values: list[tuple[int | None, list[int | None] | None, int]]) -> pa.Table:
    columns = list(zip(*values, strict=True)) or [(), (), ()]
    types = (pa.int64(), pa.list_(pa.int64()), pa.int64())
    arrays = [pa.array(list(c), t) for c, t in zip(columns, types, strict=True)]
    return pa.table(arrays, names=["c0", "c1", WEIGHT])


@given(rows)
def test_each_element_is_a_row_with_the_weight_of_its_list(
    values: list[tuple[int | None, list[int | None] | None, int]],
) -> None:
    assert supports_steps(STEPS)
    found = apply_steps(table(values), STEPS, carried=(WEIGHT,))
    assert found.column_names == ["c0", "c1", "c2", WEIGHT]
    expected = [(a, e, w) for a, elements, w in values for e in elements or ()]
    shown = found.select(["c0", "c2", WEIGHT]).to_pydict()
    assert list(zip(*shown.values(), strict=True)) == expected


def test_a_later_step_reads_the_element() -> None:
    present = Column(Type("bool"), 2)
    lists = pa.array([[True, None, False, True]], pa.list_(pa.bool_()))
    rows = pa.table([pa.array([1]), lists], names=["c0", "c1"])
    booleans = Type("list", children=(Type("bool"),))
    steps = (UnnestStep(Column(booleans, 1)), FilterStep(present))
    assert apply_steps(rows, steps).column("c2").to_pylist() == [True, True]


@pytest.mark.spark
def test_spark_makes_the_same_rows(spark: SparkSession) -> None:
    values: list[tuple[int | None, list[int | None] | None, int]] = [
        (1, [1, None, 1], 2),
        (None, [5], -1),
        (2, [], 1),
        (3, None, 1),
        (4, [7, 8], -2),
    ]
    local = apply_steps(table(values), STEPS, carried=(WEIGHT,))
    schema = f"c0 bigint, c1 array<bigint>, {WEIGHT} bigint"
    frame = apply_on_spark(spark.createDataFrame(values, schema), STEPS)
    assert frame.columns == local.column_names
    shown = sorted(map(repr, (tuple(row) for row in frame.collect())))
    assert shown == sorted(repr(tuple(row.values())) for row in local.to_pylist())
