"""The error of a batch says which view and which expression failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from substrait_agg.bind.plan.views import bound_views
from substrait_agg.errors import RunFailed
from substrait_agg.explanation.failures import with_place
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.passes.lower import lower
from substrait_agg.spark.execution.driver import Driver
from tests.executors import drivers

pytestmark = pytest.mark.usefixtures("spark")

SQL = """
CREATE TABLE sales (shop string, paid bigint, pieces bigint);
CREATE VIEW prices AS SELECT shop, sum(paid DIV pieces) AS price FROM sales GROUP BY shop;
CREATE VIEW rates AS SELECT shop, max(pieces % paid) AS rate, sum(paid) AS paid FROM sales GROUP BY shop;
CREATE VIEW rows AS SELECT count(*) AS n FROM sales
"""

DIVIDED = "Spark could not compute the batch: [DIVIDE_BY_ZERO] Division by zero."


def flow() -> Flow:
    plans = sa.sql_views(SQL)
    return lower(
        bound_views({name: p.bind() for name, p in plans.items()}), {("sales",): "changelog"}
    )


def explanation(error: RunFailed, view: str | None = None) -> RunFailed:
    found = flow()
    nodes = {v.name: found.operators[v.operator] for v in found.views}
    return with_place(found, None if view is None else nodes[view], error)


def test_the_operator_tells_the_view_and_the_cause_tells_the_expression() -> None:
    error = explanation(RunFailed("BATCH_FAILED", DIVIDED, help="again"), "prices")
    assert error.message == f"{DIVIDED[:-1]}, in view prices, in the expression (paid div pieces)"
    assert (error.code, error.help) == ("BATCH_FAILED", "again")
    assert error.path.startswith("prices: relations[0].")


def test_without_an_operator_every_expression_is_listed_that_can_have_failed() -> None:
    error = explanation(RunFailed("BATCH_FAILED", DIVIDED))
    listed = "in one of the expressions (paid div pieces); pieces % paid"
    assert error.message == f"{DIVIDED[:-1]}, in views prices, rates, {listed}"


def test_a_cause_without_a_function_names_the_view_alone() -> None:
    error = explanation(
        RunFailed("BATCH_FAILED", "Spark could not compute the batch: lost"), "rows"
    )
    assert error.message == "Spark could not compute the batch: lost, in view rows"


@pytest.mark.parametrize("code", ["CHECKPOINT_NOT_WRITTEN", "SPARK_LOST", "ROW_UNREADABLE"])
def test_an_error_that_is_not_about_a_value_stays(code: str) -> None:
    error = RunFailed(code, DIVIDED)
    assert explanation(error, "prices") is error


def failed_run(spark: SparkSession, folder: Path, sql: str, **options: Any) -> sa.SubstraitAggError:
    rows = pa.table({"shop": ["a", "b"], "paid": [6, 7], "pieces": [2, 0]})
    (folder / "in").mkdir()
    pq.write_table(rows, folder / "in" / "sales.parquet")
    given = {"sales": f"parquet:{folder / 'in'}"}
    plans = sa.sql_views(sql)
    with pytest.raises(sa.SubstraitAggError) as failed:
        sa.run(
            plans, given, checkpoint=folder / "c", spark=spark, outputs=["none"], **options
        ).wait()
    return failed.value


def test_a_run_names_the_view_and_the_expression(spark: SparkSession, tmp_path: Path) -> None:
    """The driver reads the file itself, so the expression is known although others divide too."""
    twice = SQL.replace("sum(paid DIV pieces)", "sum(paid % pieces), sum(pieces % paid)")
    with drivers(Driver()):
        error = failed_run(spark, tmp_path, twice.replace("AS price", "AS other"))
    assert error.code == "BATCH_FAILED"
    assert "REMAINDER_BY_ZERO" in error.message
    assert error.message.endswith("in view prices, in the expression paid % pieces")


def test_a_run_on_spark_names_them_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from substrait_agg.spark.query.spark_executor import SparkExecutor

    monkeypatch.setattr(SparkExecutor, "_arrow_rows", lambda *_: None)
    error = failed_run(spark, tmp_path, SQL)
    assert error.code == "BATCH_FAILED"
    assert "DIVIDE_BY_ZERO" in error.message
    assert error.message.endswith("in view prices, in the expression (paid div pieces)")
