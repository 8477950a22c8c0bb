"""Pipelines: SQL files of several views, planned and run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from substrait_agg.errors import SqlRefused
from substrait_agg.scripts.pipeline import PlanSet, is_pipeline, plan_pipeline, scripts_in
from substrait_agg.spark.catalyst.sql import SparkSqlPlanner
from tests.local.run import run
from tests.sampling import seeds
from tests.views.brokerage import PIPELINE, TABLES, Brokerage, expected, sources, write

SALES = pa.schema([("region", pa.string()), ("amount", pa.int64())])


def planned(spark: SparkSession, *scripts: str) -> PlanSet:
    files = {f"{i}.sql": script for i, script in enumerate(scripts)}
    return plan_pipeline(files, lambda _: {"sales": SALES}, SparkSqlPlanner(spark))


def brokerage(spark: SparkSession) -> PlanSet:
    return plan_pipeline(scripts_in(PIPELINE), lambda _: TABLES, SparkSqlPlanner(spark))


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_every_view_equals_duckdb_at_every_version(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    world, plans = Brokerage(seed), brokerage(spark)
    wanted = []
    for number in range(6):
        write(tmp_path, number, world.batch(40))
        wanted.append(expected(world.rows))
    run(plans, sources(tmp_path), checkpoint=tmp_path / "ckpt", outputs=["none"]).wait()
    assert plans.temporary == {"customer_totals"}
    assert len(plans) == 9
    for name in plans.keys() - plans.temporary:
        view = sa.open_view(tmp_path / "ckpt", name)
        assert view.names == tuple(plans[name].bind().names)
        for version, want in enumerate(wanted, 1):
            rows = [tuple(row.values()) for row in view.to_arrow(version).to_pylist()]
            assert sorted(rows, key=repr) == want[name], (name, version)
    assert sa.open_state(tmp_path / "ckpt").verify().ok


def test_statements_may_come_in_any_order_and_from_several_files(spark: SparkSession) -> None:
    plans = planned(
        spark,
        "CREATE MATERIALIZED VIEW great AS SELECT region FROM totals WHERE total > 10;",
        "-- below\nCREATE OR REPLACE MATERIALIZED VIEW totals PARTITIONED BY (region) COMMENT 'x' AS\n"
        "WITH part AS (SELECT * FROM STREAM(sales)) SELECT region, sum(amount) AS total FROM part GROUP BY region",
    )
    assert [*plans] == ["totals", "great"]
    assert plans["totals"].bind().names == ("region", "total")


def test_clauses_and_quoted_names_are_those_of_spark(spark: SparkSession) -> None:
    plans = planned(
        spark,
        "CREATE STREAMING TABLE `big sales` (region, `the amount`) USING parquet\n"
        "COMMENT 'AS SELECT' CLUSTER BY (region)\n"
        "AS SELECT `region`, s.`amount` FROM STREAM(`sales`) AS s WHERE s.amount > 10;\n"
        "CREATE MATERIALIZED VIEW regions AS\n"
        "SELECT b.region, `the amount` FROM `big sales` b JOIN `sales` USING (region)",
    )
    assert plans["big sales"].bind().names == ("region", "the amount")
    assert plans["regions"].bind().names == ("region", "the amount")


def test_an_error_has_the_file_the_line_and_the_column(spark: SparkSession) -> None:
    with pytest.raises(SqlRefused) as refused:
        planned(spark, "CREATE VIEW v AS SELECT 1 AS one;\n\nCREATE VIEW w AS\n  SELECT no FROM v")
    assert (refused.value.path, refused.value.code) == ("0.sql:4:10", "SQL_COLUMN_UNKNOWN")


def test_create_table_gives_the_columns_of_a_source(spark: SparkSession) -> None:
    plans = plan_pipeline(
        {
            "a.sql": "CREATE TABLE t (k string, n bigint); CREATE STREAMING TABLE s AS SELECT * FROM STREAM t;"
        },
        lambda _: {},
        SparkSqlPlanner(spark),
    )
    assert plans["s"].bind().names == ("k", "n")


@pytest.mark.parametrize(
    ("script", "code", "line"),
    [
        ("CREATE STREAMING TABLE a (CONSTRAINT c EXPECT (amount > 0)) AS SELECT * FROM sales", "SQL_NOT_MAINTAINED", 2),
        ("CREATE FLOW f AS INSERT INTO a BY NAME SELECT * FROM sales", "SQL_NOT_MAINTAINED", 2),
        ("CREATE FLOW f AS APPLY CHANGES INTO a FROM STREAM sales KEYS (region)", "SQL_NOT_MAINTAINED", 2),
        ("INSERT INTO a SELECT * FROM sales", "SQL_NOT_MAINTAINED", 2),
        ("SET spark.sql.ansi.enabled = false", "SQL_NOT_MAINTAINED", 2),
        ("SELECT * FROM sales", "SQL_NOT_MAINTAINED", 2),
        ("CREATE STREAMING TABLE a", "SQL_NOT_MAINTAINED", 2),
        ("CREATE VIEW a", "SQL_SYNTAX", 2),
        ("CREATE VIEW b AS SELECT * FROM B", "SQL_VIEW_CYCLE", 2),
        ("CREATE VIEW v AS SELECT * FROM sales", "SQL_VIEW_TWICE", 2),
        ("CREATE VIEW b AS SELECT x FROM v", "SQL_COLUMN_UNKNOWN", 2),
        ("CREATE VIEW b AS SELECT * FROM nothing", "SQL_TABLE_UNKNOWN", 2),
    ],
)  # fmt: skip
def test_what_cannot_be_maintained_is_refused_with_its_line(
    spark: SparkSession, script: str, code: str, line: int
) -> None:
    with pytest.raises(SqlRefused) as refused:
        planned(spark, f"CREATE VIEW v AS SELECT region FROM sales;\n{script}")
    assert (refused.value.code, refused.value.line) == (code, line)
    assert refused.value.path.startswith("0.sql:2:")


def test_the_first_of_two_views_of_one_name_is_named(spark: SparkSession) -> None:
    with pytest.raises(SqlRefused) as refused:
        sa.sql_views("CREATE VIEW v AS SELECT 1;\nCREATE VIEW V AS SELECT 2", spark=spark)
    assert refused.value.message == "the view v is created twice, first at line 1"


def test_one_view_in_a_script_is_no_pipeline() -> None:
    assert not is_pipeline("CREATE TABLE t (a int); CREATE VIEW v AS SELECT a FROM t")
    assert is_pipeline("CREATE VIEW v AS SELECT 1; CREATE VIEW w AS SELECT * FROM v")
    assert is_pipeline("CREATE STREAMING TABLE v AS SELECT 1")
