"""Approximate aggregates of SQL: values equal those of Spark over the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from tests.spark_plans import plan_query
from tests.sql.results import changed, chosen, kept, of_spark, ordered, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")

SIZES = (1, 7, 60, 400, 900, 1500, 2600, 6000, 20000)
"""Rows per group: estimates by empty registers, corrected by the table, and raw."""


def numbers(seed: int) -> pa.Table:
    """Give groups of SIZES rows with values of many types, some of them twice or null."""
    random = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(SIZES)), SIZES)
    rows = len(groups)
    longs = random.integers(-(2**62), 2**62, rows)
    empty = random.random(rows) < 0.1
    texts = [("x" * (v % 70)) + str(v) for v in longs.tolist()]
    doubles = np.where(longs % 11 == 0, np.nan, np.where(longs % 7 == 0, -0.0, longs / 3))
    columns: dict[str, Any] = {
        "g": pa.array(groups),
        "l": pa.array(longs, mask=empty),
        "i": pa.array((longs % 5000).astype(np.int32)),
        "h": pa.array((longs % 300).astype(np.int16)),
        "x": pa.array(doubles),
        "y": pa.array(doubles.astype(np.float32)),
        "s": pa.array(texts, mask=empty),
        "b": pa.array([text.encode() for text in texts], pa.binary()),
        "f": pa.array(longs % 2 == 0),
        "p": pa.array((longs % 10**9).tolist()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(38, 2)),
        "q": pa.array((longs % 10**5).tolist()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(10, 2)),
        "d": pa.array((longs % 20000).astype(np.int32)).cast(pa.date32()),
        "t": pa.array(longs % 2**50).cast(pa.timestamp("us")),
    }  # fmt: skip
    return pa.table(columns)


def test_distinct_estimates_of_every_type_are_those_of_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = numbers(1)
    items = ", ".join(f"approx_count_distinct({c})" for c in rows.column_names[1:])
    query = f"SELECT g, {items} FROM t GROUP BY g"
    half = len(rows) // 2
    found = kept(query, [{"t": rows[:half]}, {"t": rows[half:]}], tmp_path)
    assert found == of_spark(spark, query, {"t": rows})


def test_distinct_estimates_of_other_precisions_are_those_of_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    deviations = (0.39, 0.25, 0.17, 0.1, 0.07, 0.03)
    items = ", ".join(
        f"approx_count_distinct(l, {d}) AS c{place}" for place, d in enumerate(deviations)
    )
    query = f"SELECT g, {items} FROM t GROUP BY g"
    rows = numbers(2)
    assert kept(query, [{"t": rows}], tmp_path) == of_spark(spark, query, {"t": rows})


def test_distinct_estimates_follow_deletions(spark: SparkSession, tmp_path: Path) -> None:
    query = """SELECT g, approx_count_distinct(i) AS n, approx_count_distinct(s) FILTER (WHERE f) AS m
        FROM t GROUP BY g"""
    rows = numbers(3)
    run = started(query, {"t": rows.schema}, tmp_path)
    random = np.random.default_rng(4)
    before: set[int] = set()
    for share in (0.5, 0.9, 0.2, 0.6):
        after = set(np.flatnonzero(random.random(len(rows)) < share).tolist())
        run.batch({"t": changed(rows, before, after)})
        found = ordered(list(run.view.elements()))
        assert found == of_spark(spark, query, {"t": chosen(rows, after)})
        before = after


def test_values_without_a_hash_are_refused() -> None:
    schema = pa.schema({"a": pa.list_(pa.int64())})
    with pytest.raises(Exception, match="count\\(DISTINCT"):
        plan_query("SELECT approx_count_distinct(a) FROM t", {"t": schema})
