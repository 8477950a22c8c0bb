"""Plans of DataFrames: their views equal what Spark computes from the DataFrames themselves."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

import substrait_agg as sa
from tests.conformance.evaluating import interpreted
from tests.e2e.rows import bag
from tests.local.run import run
from tests.sampling import sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession, WindowSpec

    Query = Callable[[DataFrame, DataFrame], DataFrame]

DAY = dt.date(2024, 1, 31)
SALES = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5, None, 2], pa.int32()),
        "name": pa.array(["a", "b", "Ab", None, "a", "b", "c_"], pa.string()),
        "x": pa.array([2.5, -0.0, float("nan"), None, 1.0, 0.0, 7.25], pa.float64()),
        "price": pa.array(
            [Decimal(v) for v in ("1.25", "-3.10", "99.99", "0.00", "5.05")] + [None, Decimal("2.00")],
            pa.decimal128(10, 2),
        ),
        "day": pa.array([DAY, dt.date(2023, 2, 3), DAY, None, DAY, DAY, dt.date(1969, 12, 31)], pa.date32()),
        "at": pa.array([dt.datetime(2024, 1, 2, 3, 4, 5, 6)] * 6 + [None], pa.timestamp("us")),
        "ok": pa.array([True, False, None, True, True, False, True], pa.bool_()),
        "n": pa.array([7, -8, 9, None, 11, 12, 13], pa.int64()),
    }
)  # fmt: skip
LABELS = pa.table(
    {
        "id": pa.array([1, 2, 2, 9, None], pa.int32()),
        "label": pa.array(["one", "two", "zwei", "nine", None], pa.string()),
    }
)

TABLES = {"sales": SALES, "labels": LABELS}


def written(folder: Path, rows: pa.Table) -> str:
    """The rows in two files, as a source of a batch per file."""
    folder.mkdir()
    pq.write_table(rows.slice(0, 3), folder / "a.parquet")
    pq.write_table(rows.slice(3), folder / "b.parquet")
    return f"parquet:{folder}?batch-files=1"


def in_order() -> WindowSpec:
    """A partition per name, in an order without ties."""
    return Window.partitionBy("name").orderBy(F.desc("x"), "id", "n")


QUERIES: dict[str, Query] = {
    "measures": lambda t, _: t.groupBy("name").agg(
        F.count("*").alias("c"), F.count("x"), F.sum("id").alias("s"), F.avg("n"), F.min("day"), F.max("at"),
        F.sum("price").alias("p"), F.countDistinct("id"), F.sum("x"), F.max("price"), F.min("name"),
    ),
    "no key": lambda t, _: t.where("n > 0").agg(F.sum("n").alias("s"), F.count("*").alias("c")),
    "no row": lambda t, _: t.where("n > 100").agg(F.sum("n").alias("s"), F.count("*").alias("c")),
    "filter": lambda t, _: t.where(
        (F.col("x") > 1) & (F.col("name") != "b") & F.col("day").between("2024-01-01", "2024-12-31")
    ),
    "arithmetic": lambda t, _: t.select(
        "id", (F.col("id") * 2 + F.col("n")).alias("e"), (F.col("id") / 2).alias("half"), (F.col("n") % 3).alias("r"),
        (F.col("price") * F.col("price")).alias("square"), (F.col("price") - 1).alias("less"), -F.col("n"), F.abs("price"),
    ),
    "conditions": lambda t, _: t.select(
        F.when(F.col("ok"), "y").when(F.col("id") > 2, "large").otherwise("n").alias("w"),
        F.when(F.col("ok"), 1).alias("one"), F.coalesce("name", F.lit("?")).alias("c"),
        F.col("id").cast("double").alias("d"),
        F.col("name").eqNullSafe("a").alias("same"), F.isnan("x"), F.col("n").isNull(),
    ),
    "texts": lambda t, _: t.select(
        F.upper("name").alias("a"), F.lower("name").alias("b"), F.substring("name", 1, 1).alias("c"),
        F.concat("name", F.lit("z")).alias("d"), F.length("name").alias("e"), F.col("name").like("%b").alias("f"),
        F.col("name").startswith("a"), F.col("name").endswith("_"), F.col("name").contains("b"),
        F.col("n").cast("string").alias("s"),
    ),
    "dates": lambda t, _: t.groupBy(F.year("day").alias("year"), F.month("day").alias("month")).agg(F.sum("n"), F.max(F.dayofmonth("day"))),
    "in": lambda t, _: t.where(F.col("id").isin(1, 2, 3) | F.col("name").isNull()).select("id", "n"),
    "in floats": lambda t, _: t.select(
        "id", F.col("x").isin(2.5, 0.0, float("nan")).alias("a"), F.col("x").isin(F.col("n").cast("double"), F.lit(2.5)).alias("b"),
        F.col("x").eqNullSafe(F.lit(None).cast("double")).alias("c"), F.col("x").eqNullSafe(float("nan")).alias("d"),
        F.col("x").eqNullSafe(F.col("id").cast("double")).alias("e"), F.col("x").eqNullSafe(0.0).alias("f"),
    ),
    "rollup": lambda t, _: t.rollup("name", "ok").agg(F.sum("n").alias("s"), F.grouping_id().alias("g"), F.count("*").alias("c")),
    "cube": lambda t, _: t.cube("ok", (F.col("id") % 2).alias("odd")).agg(F.max("price").alias("m"), F.grouping("ok").alias("g")),
    "distinct": lambda t, _: t.select("name", "ok").distinct(),
    "having": lambda t, _: t.groupBy("name").count().where("count > 1"),
    "expression of measures": lambda t, _: t.groupBy((F.col("id") % 2).alias("odd")).agg(
        (F.sum("n") + F.count("*")).alias("both"), (F.max("n") - F.min("n")).alias("span")
    ),
    "measure with filter": lambda t, _: t.groupBy("name").agg(F.expr("count(*) FILTER (WHERE ok)"), F.expr("sum(DISTINCT n) FILTER (WHERE n > 0)")),
    "join": lambda t, u: t.join(u, "id").groupBy("label").agg(F.sum("n")),
    "left join": lambda t, u: t.alias("a").join(u.alias("b"), F.col("a.id") == F.col("b.id"), "left").select("name", "label"),
    "full join": lambda t, u: t.join(u, t.id == u.id, "full").select(t.id, "label", "n"),
    "semi join": lambda t, u: t.join(u, "id", "left_semi").select("id", "n"),
    "anti join": lambda t, u: t.join(u, "id", "left_anti").select("id", "n"),
    "self join": lambda t, _: t.alias("a").join(t.alias("b"), F.col("a.n") == F.col("b.n")).select("a.id", "b.name"),
    "top": lambda t, _: t.groupBy("name").agg(F.sum("n").alias("s")).orderBy(F.desc("s"), "name").limit(3),
    "union": lambda t, u: t.select("id").union(u.select("id")),
    "average of decimals": lambda t, _: t.groupBy("name").agg(
        F.avg("price").alias("a"), F.avg(F.col("price").cast("decimal(38,20)") / 3).alias("b"), F.expr("avg(DISTINCT price)"),
        (F.sum("price") / F.count("price")).alias("c"), (F.sum("price") / F.sum("n")).alias("d"), F.avg(F.col("price") * F.col("price")).alias("e"),
    ),
    "division": lambda t, _: t.where("coalesce(n, 1) <> 0").select(
        "id", (F.col("id") / F.col("n")).alias("a"), (F.col("x") / F.col("n")).alias("b"), (F.col("price") / F.col("n")).alias("c"),
        (F.col("price") / F.lit(Decimal("0.03"))).alias("d"), (F.col("x") / F.col("id")).alias("e"), (F.lit(1) / F.col("n")).alias("f"),
        (F.lit(Decimal("1.0")) / F.col("n").cast("decimal(18,2)")).alias("h"), (F.lit(None).cast("double") / F.lit(0.0)).alias("i"),
        (F.lit(None).cast("decimal(4,1)") / F.lit(Decimal("0.0"))).alias("j"),
    ),
    "long decimals": lambda t, _: t.select(
        (F.col("price").cast("decimal(30,2)") * F.col("price")).alias("a"), (F.col("price").cast("decimal(38,4)") + F.col("price")).alias("b"),
        (F.col("price").cast("decimal(38,10)") + F.lit(Decimal("0.00000000005"))).alias("c"),
        (F.col("price").cast("decimal(38,10)") - F.lit(Decimal("0.00000000015"))).alias("d"),
    ),
    "round": lambda t, _: t.select(
        F.round("price", 1).alias("a"), F.round("price").alias("b"), F.round("price", -1).alias("c"), F.round("x", 1).alias("d"), F.round("x").alias("e"),
        F.round("n", -1).alias("f"), F.round("n", 2).alias("g"), F.round("price", 5).alias("h"), F.bround("price", 1).alias("i"),
        F.bround(F.col("x") + 0.5, 0).alias("j"), F.round(F.col("price").cast("decimal(38,2)"), 0).alias("k"), F.round("id", -2).alias("l"),
    ),
    "scalar subquery": lambda t, _: t.sparkSession.sql("SELECT id, n, (SELECT max(id) FROM labels) AS m FROM sales WHERE n > (SELECT avg(n) FROM sales)"),
    "correlated subquery": lambda t, _: t.sparkSession.sql(
        "SELECT id, (SELECT count(*) FROM labels l WHERE l.id = s.id) AS c, (SELECT max(label) FROM labels l WHERE l.id = s.id) AS m FROM sales s"
    ),
    "exists": lambda t, _: t.sparkSession.sql(
        "SELECT id, n FROM sales s WHERE EXISTS (SELECT * FROM labels l WHERE l.id = s.id) OR id > 4"
    ),
    "not exists": lambda t, _: t.sparkSession.sql("SELECT id, n FROM sales s WHERE NOT EXISTS (SELECT 1 FROM labels l WHERE l.id = s.id AND l.label > 'tw')"),
    "in a subquery": lambda t, _: t.sparkSession.sql("SELECT id, id IN (SELECT id FROM labels) AS f FROM sales WHERE n IN (SELECT max(n) FROM sales GROUP BY name)"),
    "predicates in expressions": lambda t, _: t.sparkSession.sql(
        "SELECT id, NOT id IN (SELECT id FROM labels) AS a, EXISTS (SELECT 1 FROM labels l WHERE l.id = s.id) AS b,"
        " NOT EXISTS (SELECT 1 FROM labels l WHERE l.id = s.id) AS c FROM sales s WHERE NOT (id IN (SELECT id FROM labels)) OR n > 8"
    ),
    "not in a subquery": lambda t, _: t.sparkSession.sql("SELECT id FROM sales WHERE id NOT IN (SELECT id FROM labels WHERE id IS NOT NULL)"),
    "not in beside nulls": lambda t, _: t.sparkSession.sql("SELECT id FROM sales WHERE id NOT IN (SELECT id FROM labels)"),
    "first rows of partitions": lambda t, _: t.withColumn("r", F.row_number().over(in_order())).where("r <= 2").select("name", "id", "x", "r"),
    "positions": lambda t, _: t.select(
        "id", F.rank().over(Window.partitionBy("ok").orderBy(F.desc_nulls_last("day"))).alias("r"), F.dense_rank().over(Window.orderBy("day")).alias("d"),
        (F.row_number().over(in_order()) * 2 - 1).alias("odd"),
    ),
    "aggregates of partitions": lambda t, _: t.select(
        "id", F.sum("n").over(Window.partitionBy("name")).alias("s"), (F.avg("price").over(Window.partitionBy("ok")) - F.col("price")).alias("off"),
        F.count("*").over(Window.partitionBy()).alias("c"), F.max("x").over(Window.partitionBy(F.col("id") % 2)).alias("m"),
        F.min("id").over(in_order().rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)).alias("least"),
    ),
    "running aggregates": lambda t, _: t.select(
        "id", F.sum("n").over(in_order()).alias("s"), F.count("*").over(Window.orderBy("day")).alias("c"),
        F.max("n").over(in_order().rowsBetween(Window.unboundedPreceding, 0)).alias("m"),
        F.avg("price").over(Window.partitionBy("ok").orderBy("day").rangeBetween(Window.currentRow, Window.unboundedFollowing)).alias("rest"),
    ),
    "rows at a distance": lambda t, _: t.select(
        "id", F.lag("name").over(in_order()).alias("p"), F.lag("n", -2, 0).over(Window.orderBy("id", "n")).alias("q"),
        F.lead("price", 2, Decimal("1.5")).over(Window.orderBy("id", "n")).alias("r"), F.lag("id", 0).over(in_order()).alias("own"),
    ),
    "parts and places": lambda t, _: t.select(
        "id", F.ntile(3).over(Window.orderBy("id", "n")).alias("part"), F.percent_rank().over(Window.orderBy("day")).alias("p"),
        F.cume_dist().over(Window.partitionBy("name").orderBy("day")).alias("c"), F.first("n").over(in_order()).alias("f"),
        F.last("x").over(Window.orderBy("id", "n").rowsBetween(-1, 1)).alias("l"), F.nth_value("day", 2).over(in_order()).alias("second"),
    ),
    "moving frames": lambda t, _: t.select(
        "id", F.sum("n").over(Window.orderBy("id", "n").rowsBetween(-2, 1)).alias("s"),
        F.count("*").over(Window.orderBy("n").rangeBetween(-2, 1)).alias("c"), F.max("price").over(Window.orderBy(F.desc("id")).rangeBetween(-1, 0)).alias("m"),
        F.expr("count(*) OVER (ORDER BY day RANGE 400 PRECEDING)").alias("d"), F.expr("sum(n) OVER (ORDER BY price RANGE BETWEEN 1.25BD PRECEDING AND 3.1BD FOLLOWING)").alias("near"),
        F.expr("min(n) OVER (ORDER BY at RANGE BETWEEN INTERVAL 20 HOURS PRECEDING AND INTERVAL 1 HOUR FOLLOWING)").alias("i"),
        F.expr("sum(id) OVER (ORDER BY CAST(day AS TIMESTAMP_NTZ) DESC NULLS LAST RANGE BETWEEN CURRENT ROW AND INTERVAL '400 02:00:00' DAY TO SECOND FOLLOWING)").alias("j"),
    ),
    "positions of groups": lambda t, _: t.groupBy("name").agg(F.sum("n").alias("s")).withColumn("r", F.row_number().over(Window.orderBy(F.desc("s"), "name"))),
    "without a native function": lambda t, _: t.select(
        F.round(F.col("x").cast("float"), 1).alias("a"), F.expr("price * CAST(price AS DECIMAL(38,10))").alias("b"), F.array("n", "id").alias("c"),
        F.expr("price / CAST(abs(n) + 1 AS DECIMAL(38,2))").alias("d"), F.col("name").try_cast("int").alias("e"),
    ),
    "one row per name": lambda t, _: t.select("name", F.length("name").alias("n")).dropDuplicates(["name"]),
    "lists": lambda t, _: t.groupBy("name").agg(F.sort_array(F.collect_list("n")).alias("l")),
    "range": lambda t, _: t.sparkSession.range(3),
    "long range": lambda t, _: t.sparkSession.range(40_000, 5, -3),
    "literals": lambda t, _: t.select(
        F.lit(1).alias("i"), F.lit(2**40).alias("l"), F.lit(1.5).alias("x"), F.lit("a").alias("s"), F.lit(True).alias("b"),
        F.lit(Decimal("12.345")).alias("d"), F.lit(DAY).alias("day"), F.lit(None).cast("int").alias("none"), "n",
    ),
}  # fmt: skip


ALLOWED = {"measures": {"SIGNATURE_UNKNOWN"}, "correlated subquery": {"SIGNATURE_UNKNOWN"}}
"""Warnings of a plan: the standard declares no least and greatest text."""


PRECISION_LOSS = "spark.sql.decimalOperations.allowPrecisionLoss"
KEEPING_PLACES = ("arithmetic", "average of decimals", "division", "long decimals")
"""Queries with other types where Spark does not give up decimal places."""


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[tuple[DataFrame, DataFrame]]:
    """The named tables; a test session has the settings of plans, and users have those of Spark."""
    for name, rows in TABLES.items():
        spark.createDataFrame(rows).createOrReplaceTempView(name)
    before = str(spark.conf.get(PRECISION_LOSS))
    spark.conf.set(PRECISION_LOSS, "true")
    yield spark.table("sales"), spark.table("labels")
    spark.conf.set(PRECISION_LOSS, before)


@pytest.fixture(autouse=True)
def setting_of_users(tables: tuple[DataFrame, DataFrame], spark: SparkSession) -> Iterator[None]:
    """A query that keeps its decimal places leaves the setting to no other test."""
    yield
    spark.conf.set(PRECISION_LOSS, "true")


def computed(spark: SparkSession, plan: sa.Plan, read: dict[str, str], folder: Path) -> pa.Table:
    """The view of a run without Spark, or on Spark if an expression has no kernel on Arrow."""
    try:
        run(plan, read, checkpoint=folder / "local", outputs=["none"]).wait()
    except (TypeError, pa.ArrowInvalid):
        sa.run(plan, read, checkpoint=folder / "spark", outputs=["none"], spark=spark).wait()
        return sa.open_view(folder / "spark").to_arrow()
    return sa.open_view(folder / "local").to_arrow()


CASES = [*((name, "true") for name in QUERIES), *((name, "false") for name in KEEPING_PLACES)]
"""Names of queries, and whether Spark gives up decimal places."""

QUICK = (
    "measures", "no row", "conditions", "texts", "dates", "in floats", "rollup", "having", "measure with filter",
    "full join", "anti join", "top", "union", "average of decimals", "division", "round", "correlated subquery",
    "predicates in expressions", "not in beside nulls", "first rows of partitions", "aggregates of partitions",
    "parts and places", "moving frames", "without a native function", "one row per name", "literals",
)  # fmt: skip
"""Every relation and kind of expression; the other queries combine these otherwise."""


def planned(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], name: str, loses: str
) -> tuple[DataFrame, sa.Plan]:
    """The query and its plan, with the setting of Spark for its decimals."""
    spark.conf.set(PRECISION_LOSS, loses)
    frame = QUERIES[name](*tables)
    return frame, sa.from_dataframe(frame)


def test_every_query_is_a_plan_without_problems(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame]
) -> None:
    problems: dict[Any, set[str]] = {}
    for name, loses in CASES:
        _, plan = planned(spark, tables, name, loses)
        codes = {p.code for p in sa.validate(plan).problems if p.level != "info"}
        problems[name, loses] = codes - ALLOWED.get(name, set())
    assert not {case: codes for case, codes in problems.items() if codes}


@pytest.mark.parametrize(
    ("name", "loses"),
    sample(CASES, *((name, "true") for name in QUICK), ("long decimals", "false")),
)
def test_views_equal_the_answers_of_spark(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], tmp_path: Path, name: str, loses: str
) -> None:
    sources = {table: written(tmp_path / table, rows) for table, rows in TABLES.items()}
    frame, plan = planned(spark, tables, name, loses)
    read = {t: spec for t, spec in sources.items() if f'"{t}"' in plan.content}
    view = computed(spark, plan, read, tmp_path)
    with interpreted(spark):
        answer = frame.toArrow()
    assert view.column_names == answer.column_names
    assert bag(view) == bag(answer), (view.schema, answer.schema)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (lambda t, _: t.sparkSession.createDataFrame([(1,)], "a int").alias("sales"), "DATAFRAME_RELATION"),
        (lambda t, _: t.select(F.rand()), "DATAFRAME_EXPRESSION"),
        (lambda t, _: t.agg(F.histogram_numeric("n", F.lit(3))), "DATAFRAME_EXPRESSION"),
        (lambda t, _: t.agg(F.avg(F.col("price").cast("decimal(38,21)"))), "DATAFRAME_EXPRESSION"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_plan_is_refused_with_its_code(
    tables: tuple[DataFrame, DataFrame], query: Query, code: str
) -> None:
    with pytest.raises(sa.UsageError) as refused:
        sa.from_dataframe(query(*tables))
    assert refused.value.code == code
    assert refused.value.help


def test_a_session_without_ansi_mode_is_refused(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame]
) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(sa.UsageError, match="DATAFRAME_SETTING"):
            sa.from_dataframe(tables[0])
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")
