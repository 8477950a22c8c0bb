"""Unions and intersections of sketches that Spark has made and stored."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa

pytestmark = pytest.mark.spark

MADE = """
SELECT id % 8 % 3 AS g, hll_sketch_agg(id * id, 10) AS h, theta_sketch_agg(id % 700) AS t
FROM range(9000) GROUP BY id % 8, id % 2
"""
MERGED = """
SELECT g, hll_sketch_estimate(hll_union_agg(h)) AS a, hll_sketch_estimate(hll_union_agg(h, true)) AS b,
  hll_union_agg(h) FILTER (WHERE g < 0) AS c, theta_sketch_estimate(theta_union_agg(t)) AS d,
  theta_sketch_estimate(theta_union_agg(t, 5)) AS e, theta_union_agg(t) FILTER (WHERE g < 0) AS f,
  theta_sketch_estimate(theta_intersection_agg(t)) AS i,
  theta_intersection_agg(t) FILTER (WHERE g < 0) AS j
FROM s GROUP BY g
"""


def test_merged_sketches_have_the_estimates_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    made = session.sql(MADE).toArrow()
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(made[:3], folder / "0.parquet")
    pq.write_table(made[3:], folder / "1.parquet")
    session.createDataFrame(made).createOrReplaceTempView("s")
    plan = sa.sql(MERGED, {"s": made.schema}, spark=spark)
    sa.run(plan, {"s": f"parquet:{folder}"}, checkpoint=tmp_path / "checkpoint", spark=spark).wait()
    found = sa.open_view(tmp_path / "checkpoint").to_arrow().to_pylist()
    wanted = session.sql(MERGED).toArrow().to_pylist()
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
