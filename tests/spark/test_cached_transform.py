"""Cached columns give every batch the same result as the first one; settings of a job are restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from substrait_agg.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from substrait_agg.spark.types.cached_transform import RecordedTransform

pytestmark = pytest.mark.spark
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def doubled(rows: RecordedTransform) -> RecordedTransform:
    from pyspark.sql import functions as F

    twice = rows.withColumns({"y": F.col("x") * 2}).withColumns({})
    assert twice.columns == ["k", "x", "y"]
    assert twice.schema["y"].dataType == twice.schema["x"].dataType
    grouped = twice.group(("k",), F.sum("y").alias("s"), F.count("x").alias("n"))
    return grouped.repartition(2).coalesce(1).select(F.col("k"), F.col("s"), F.col("n"))


def test_a_recipe_is_made_once_for_the_same_columns(spark: SparkSession) -> None:
    """Other columns, or another purpose, ask for another recipe."""
    from substrait_agg.spark.types.cached_transform import TransformCache

    recipes, made = TransformCache(), []

    def make(rows: RecordedTransform) -> RecordedTransform:
        made.append(rows)
        return doubled(rows)

    def frame(*rows: tuple[int, Any], type_: str = "long") -> DataFrame:
        return spark.createDataFrame(list(rows), f"k long, x {type_}")

    first = recipes.over(frame((1, 2), (1, 3)), "sums", make).collect()
    second = recipes.over(frame((1, 5), (2, None)), "sums", make).collect()
    assert [tuple(row) for row in first] == [(1, 10, 2)]
    assert sorted(tuple(row) for row in second) == [(1, 10, 1), (2, None, 0)]
    assert len(made) == 1
    recipes.over(frame((1, 2.5), type_="double"), "sums", make)
    recipes.over(frame((1, 2)), "other", make)
    assert len(made) == 3


def count(_: int, batches: Iterator[pa.RecordBatch]) -> str:
    return str([batch.num_rows for batch in batches])


def test_a_job_hands_over_as_many_rows_as_it_is_told_and_leaves_no_setting(
    spark: SparkSession,
) -> None:
    """Without a setting, Spark splits by bytes. The caller's session is unchanged, also after a failure."""
    import json

    from substrait_agg.spark.execution.task_runner import run_on_partitions

    spark.conf.set(BYTES, "1000")
    spark.conf.set(ROWS, "777")
    try:
        frame = spark.range(0, 5000, 1, 1)
        assert json.loads(run_on_partitions(frame, count, rows=2000)[0]) == [2000, 2000, 1000]
        assert max(json.loads(run_on_partitions(frame, count)[0])) < 777
        with pytest.raises(RunFailed):
            run_on_partitions(spark.range(1).selectExpr("raise_error('no') as x"), count, rows=2000)
        assert (spark.conf.get(BYTES), spark.conf.get(ROWS)) == ("1000", "777")
    finally:
        spark.conf.unset(BYTES)
        spark.conf.unset(ROWS)


@pytest.mark.parametrize(
    ("message", "tried"),
    [
        ("Memory required for vector is (2147483648), which is overflow", [500, None]),
        ("a task failed", [500]),
    ],
)
def test_rows_too_long_to_be_handed_over_at_once_are_weighed(
    message: str, tried: list[int | None]
) -> None:
    """Rows may be much longer than those of the batch before; other failures stay failures."""
    from substrait_agg.spark.execution import operator_job

    asked: list[int | None] = []

    def on_spark(*_: Any, at_once: int | None = None) -> list[Any]:
        asked.append(at_once)
        if at_once is not None:
            raise RunFailed("BATCH_FAILED", message)
        return []

    nothing: Any = None
    node: Any = type("OperatorJob", (), {"node": None, "join_rows": None})
    with (
        patch.object(operator_job, "_on_spark", on_spark),
        patch.object(operator_job, "_delta", lambda *_: None),
        patch.object(operator_job, "rows_per_arrow_batch", lambda *_: 500),
    ):
        if tried[-1] is None:
            assert operator_job._collect(node, nothing, (), nothing, nothing) == []
        else:
            with pytest.raises(RunFailed):
                operator_job._collect(node, nothing, (), nothing, nothing)
    assert asked == tried
