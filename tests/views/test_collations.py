"""Texts of tables and views with a collation."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from substrait_agg.scripts.pipeline import plan_pipeline
from substrait_agg.spark.catalyst.sql import SparkSqlPlanner

PEOPLE = "CREATE TABLE people (name STRING COLLATE UTF8_LCASE, n INT);"


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A source with names that differ in case."""
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "a.csv").write_text("name,n\nada,1\nAda,2\nBOB,3\nbob,4\neve,5\n")
    return f"csv:{tmp_path / 'people'}"


def rows(folder: Path, view: str) -> list[tuple[object, ...]]:
    table = sa.open_view(folder, view).to_arrow()
    assert pa.string() in table.schema.types
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_a_view_has_the_collation_of_the_query_that_it_reads(
    spark: SparkSession, source: str, tmp_path: Path
) -> None:
    script = (
        f"{PEOPLE}"
        "CREATE MATERIALIZED VIEW totals AS SELECT name, sum(n) AS total FROM people GROUP BY name;"
        "CREATE MATERIALIZED VIEW found (who, total) AS SELECT * FROM totals WHERE name = 'ADA';"
        "CREATE MATERIALIZED VIEW again AS SELECT lower(who) AS w FROM found WHERE who IN ('aDa');"
        "CREATE MATERIALIZED VIEW plain AS SELECT name COLLATE UTF8_BINARY AS name, n FROM people;"
        "CREATE MATERIALIZED VIEW none AS SELECT name FROM plain WHERE name = 'ada';"
    )
    plans = plan_pipeline({"a.sql": script}, lambda _: {}, SparkSqlPlanner(spark))
    checkpoint = tmp_path / "ckpt"
    sa.run(plans, {"people": source}, checkpoint=checkpoint, outputs=["none"], spark=spark).wait()
    views = {name: rows(checkpoint, name) for name in plans}
    assert views["totals"] == [("Ada", 3), ("BOB", 7), ("eve", 5)]
    assert views["found"] == [("Ada", 3)]
    assert views["again"] == [("ada",)]
    assert views["none"] == [("ada",)]


def test_a_source_of_spark_has_its_collations(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'a' COLLATE UTF8_LCASE AS s")
    text = "SELECT count(*) AS c FROM t WHERE s = 'A'"
    assert "UTF8_LCASE" in str(sa.sql(text, {"t": frame}, spark=spark).content)


def test_a_flow_has_the_collations_that_its_table_declares(spark: SparkSession) -> None:
    script = (
        f"{PEOPLE} CREATE STREAMING TABLE newest (name STRING, n INT);"
        "CREATE FLOW f AS AUTO CDC INTO newest FROM STREAM people KEYS (name) SEQUENCE BY n;"
    )
    with pytest.raises(sa.SqlRefused) as refused:
        plan_pipeline({"a.sql": script}, lambda _: {}, SparkSqlPlanner(spark))
    assert refused.value.code == "SQL_NOT_MAINTAINED"
    assert "UTF8_LCASE" in refused.value.message
    script = script.replace("newest (name STRING", "newest (name STRING COLLATE UTF8_LCASE")
    assert "newest" in plan_pipeline({"a.sql": script}, lambda _: {}, SparkSqlPlanner(spark))


DEFAULTS = [
    "CREATE TABLE people (name STRING) DEFAULT COLLATION UTF8_LCASE; SELECT name FROM people",
    f"{PEOPLE} CREATE VIEW v DEFAULT COLLATION UTF8_LCASE AS SELECT 'a' = 'A' AS x FROM people",
]


@pytest.mark.parametrize("script", DEFAULTS)
def test_a_default_collation_is_refused(spark: SparkSession, script: str) -> None:
    with pytest.raises(sa.SqlRefused) as refused:
        sa.sql(script, spark=spark)
    assert refused.value.code == "SQL_NOT_MAINTAINED"
    assert "COLLATE" in refused.value.help
