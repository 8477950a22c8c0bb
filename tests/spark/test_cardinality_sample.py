"""The keys of its first rows decide how the first large batch is exchanged, without reading all
rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrait_agg.functions.aggregates.accumulators import Accumulator
from substrait_agg.operator.common.spec import OperatorSpec
from tests.sampling import examples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = Accumulator("count", 0, 0, 2)


def spec(**changed: Any) -> OperatorSpec:
    given = {"weight": "append_only", "is_global": False, **changed}
    return OperatorSpec((pa.int64(),), (COUNT,), (), **given)


def rows(spark: SparkSession, count: int, keys: int, parts: int = 500) -> DataFrame:
    from pyspark.sql import functions as F

    return spark.range(0, count, 1, parts).select((F.col("id") % keys).alias("k0"))


def sampled_strategy(frame: DataFrame, told: OperatorSpec | None = None, **care: Any) -> bool:
    from substrait_agg.spark.execution.strategy import (
        LARGE_BYTES,
        BatchStrategy,
        sample_cardinality,
    )

    return sample_cardinality(
        told or spec(), frame, BatchStrategy(**{"size": 8 * LARGE_BYTES, **care})
    ).skip_preaggregation


@pytest.mark.spark
def test_rows_of_keys_that_hardly_repeat_are_exchanged_as_they_are(spark: SparkSession) -> None:
    """Of rows that would take days to read, only the first are looked at."""
    many = 10**13
    assert sampled_strategy(rows(spark, many, many))
    assert not sampled_strategy(rows(spark, many, 1_000))
    assert not sampled_strategy(rows(spark, 0, 1))


@pytest.mark.spark
@pytest.mark.parametrize(
    "what",
    [
        {"size": 1 << 20},
        {"size": (1 << 63) - 1},
        {"row_bytes": 1},
        {"told": spec(is_global=True)},
    ],
    ids=["small", "of no known size", "not the first", "one group"],
)
def test_of_other_batches_nothing_is_looked_at(what: dict[str, Any], spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    unread = rows(spark, 10, 10).select(F.raise_error(F.lit("read")).cast("long").alias("k0"))
    assert not sampled_strategy(unread, **what)


@pytest.mark.spark
def test_rows_that_are_observed_are_not_looked_at(spark: SparkSession) -> None:
    """Event times are noted as rows are read for the first time: a look would be taken for the whole batch."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    noted = Observation()
    observed = rows(spark, 1_000_000, 1_000_000, 2).observe(noted, F.count(F.lit(1)).alias("n"))
    prepared = observed.select((F.col("k0") + 1).alias("k0")).unionAll(rows(spark, 5, 5, 2))
    assert not sampled_strategy(prepared)
    assert prepared.count() == 1_000_005
    assert noted.get == {"n": 1_000_000}


@pytest.mark.spark
def test_what_cannot_be_read_is_told_as_of_any_batch(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    from substrait_agg.errors import RunFailed

    broken = F.raise_error(F.lit("[NULL_IN_REQUIRED_COLUMN] column k of table t is null"))
    with pytest.raises(RunFailed) as failed:
        sampled_strategy(rows(spark, 10, 10).select(broken.cast("long").alias("k0")))
    assert failed.value.code == "NULL_IN_REQUIRED_COLUMN"


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 10**7), st.integers(1, 10**9), st.integers(0, 2**32))
def test_so_many_groups_as_there_will_be_are_expected(keys: int, more: int, seed: int) -> None:
    """The number of random keys is estimated from the first rows within a factor of two."""
    from substrait_agg.spark.execution.strategy import LOOKED_AT, expected_groups

    drawn = np.random.default_rng(seed).integers(0, keys, LOOKED_AT)
    distinct = len(np.unique(drawn))
    count = LOOKED_AT + more
    expected = expected_groups(count, LOOKED_AT, distinct)
    there = -keys * np.expm1(-count / keys)
    assert there / 2 <= expected <= there * 2 + 1


@settings(deadline=None)
@given(st.integers(0, 10**12), st.integers(0, 10**6), st.data())
def test_what_is_expected_is_possible(more: int, drawn: int, data: st.DataObject) -> None:
    """At least as many groups as were seen, at most as many as there are rows."""
    from substrait_agg.spark.execution.strategy import expected_groups

    distinct = data.draw(st.integers(min(drawn, 1), drawn))
    expected = expected_groups(drawn + more, drawn, distinct)
    assert distinct * 0.99 - 1 <= expected <= (drawn + more) * 1.01 + 1
