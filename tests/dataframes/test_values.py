"""DataFrames whose plans could have other values than Spark: they have the same ones, or are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import substrait_agg as sa
from tests.e2e.rows import bag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Query = Callable[[DataFrame], DataFrame]

ROWS = pa.table({
    "n": [1, 2, 3, 4, 5, 6],
    "s": ["a/%", "a/b", "a\\b", "A%", "a%", None],
    "at": pa.array([0, 86_399_999_999, 1_704_067_200_000_000, None, -1, 10**15], pa.timestamp("us", tz="UTC")),
    "local": pa.array([0, 86_399_999_999, 1_704_067_200_000_000, None, -1, 10**15], pa.timestamp("us")),
})  # fmt: skip


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """Rows in a file."""
    (tmp_path / "rows").mkdir()
    pq.write_table(ROWS, tmp_path / "rows" / "a.parquet")
    return spark.read.parquet(str(tmp_path / "rows"))


@pytest.fixture
def far_zone(spark: SparkSession) -> Iterator[None]:
    """A session in a zone other than UTC."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def refused(frame: DataFrame, code: str) -> str:
    """The message of a DataFrame that is refused with a code and help."""
    with pytest.raises(sa.UsageError) as error:
        sa.from_dataframe(frame)
    assert error.value.code == code
    assert error.value.help
    return error.value.message


def check_equal(frame: DataFrame, folder: Path) -> None:
    """The view of a DataFrame has its rows."""
    sa.run(frame, checkpoint=folder / "view", outputs=["none"]).wait()
    assert bag(sa.open_view(folder / "view").to_arrow()) == bag(frame.toArrow())


def test_patterns_have_the_escape_character_of_the_query(rows: DataFrame, tmp_path: Path) -> None:
    tests = (
        "s LIKE 'a/%' ESCAPE '/'", "s LIKE 'a//%' ESCAPE '/'", "s LIKE '_/%'", "s LIKE 'a\\\\%' ESCAPE '/'",
        "s LIKE 'a\\\\\\\\%'", "s LIKE 'a!%' ESCAPE '!'", "s ILIKE 'a/%' ESCAPE '/'",
    )  # fmt: skip
    check_equal(rows.selectExpr("n", *tests), tmp_path)


IN_ZONE = [
    "CAST(at AS DATE)", "CAST(at AS STRING)", "CAST(at AS TIMESTAMP_NTZ)", "CAST(local AS TIMESTAMP)",
    "CAST(CAST(n AS STRING) AS TIMESTAMP)", "hour(at)", "year(at)", "date_format(at, 'HH')", "date_trunc('DAY', at)",
    "at > local", "at > DATE '2024-01-01' + CAST(n AS INT)", "unix_timestamp(s)", "from_unixtime(n)", "to_json(struct(at))",
    "CAST(array(at) AS ARRAY<STRING>)", "datediff(at, DATE '2024-01-01')", "at + INTERVAL 1 MONTH", "concat(at, s)",
    "unix_micros(coalesce(at, TIMESTAMP '2024-01-01 00:00:00'))",
]  # fmt: skip
"""Expressions whose values depend on the zone of the session."""


def test_values_of_another_time_zone_are_refused(far_zone: None, rows: DataFrame) -> None:
    for text in IN_ZONE:
        assert "Asia/Kolkata" in refused(rows.selectExpr(text), "DATAFRAME_EXPRESSION")
    grouped = rows.groupBy(F.to_date("at").alias("day")).count()
    assert "Asia/Kolkata" in refused(grouped, "DATAFRAME_EXPRESSION")


def test_other_values_do_not_depend_on_the_time_zone(
    far_zone: None, rows: DataFrame, tmp_path: Path
) -> None:
    texts = (
        "CAST(local AS DATE) AS d", "CAST(local AS STRING) AS t", "CAST(n AS STRING) AS n", "CAST(DATE '2024-01-01' AS STRING) AS u",
        "length(concat_ws(',', CAST(n AS STRING))) AS l", "unix_micros(at) AS m",
        "coalesce(at, TIMESTAMP '2024-01-01 00:00:00') = TIMESTAMP '2024-01-01 00:00:00' AS c",
    )  # fmt: skip
    check_equal(rows.selectExpr(*texts), tmp_path)


COLLATED: dict[str, Query] = {
    "key": lambda t: t.groupBy("c").count().select(F.lower("c"), "count"),
    "measure": lambda t: t.agg(F.countDistinct("c"), F.count("c")),
    "least": lambda t: t.agg(F.lower(F.min("c")), F.lower(F.max("c"))),
    "distinct": lambda t: t.select("c").distinct().select(F.lower("c")),
    "duplicates": lambda t: t.dropDuplicates(["c"]).select(F.lower("c")),
    "order": lambda t: t.select("n", "c").orderBy("c").limit(1),
    "join": lambda t: t.alias("a").join(t.alias("b"), F.col("a.c") == F.col("b.c")).select("a.n"),
    "semi": lambda t: t.alias("a").join(t.alias("b"), F.col("a.c") == F.col("b.c"), "leftsemi"),
    "result": lambda t: t.select("c"),
    "condition": lambda t: t.where("c = 'A%'").select("n"),
    "struct": lambda t: t.select(F.struct("c").alias("st")).distinct().selectExpr("lower(st.c)"),
    "array": lambda t: t.groupBy(F.array("c")).count().select("count"),
    "greatest": lambda t: t.agg(F.max_by("n", F.array("c"))),
    "union": lambda t: t.select("c").union(t.select("c")).distinct().select(F.lower("c")),
    "subtract": lambda t: t.select("c").subtract(t.where("n < 3").select("c")),
    "window": lambda t: t.selectExpr("n", "count(*) OVER (PARTITION BY c)", "rank() OVER (ORDER BY c)"),
}  # fmt: skip
"""Clauses that compare texts; the result shows no choice among equal texts."""


@pytest.mark.parametrize("name", COLLATED)
def test_texts_with_a_collation_are_compared_by_it(
    rows: DataFrame, tmp_path: Path, name: str
) -> None:
    check_equal(COLLATED[name](rows.selectExpr("n", "s COLLATE UTF8_LCASE AS c")), tmp_path)


BY_BYTES: dict[str, Query] = {
    "mode": lambda t: t.agg(F.mode("c")),
    "estimate": lambda t: t.agg(F.approx_count_distinct("c")),
    "list": lambda t: t.selectExpr("collect_list(DISTINCT c)"),
    "difference": lambda t: t.select("c").exceptAll(t.select("c")),
    "intersection": lambda t: t.select("c").intersectAll(t.select("c")),
    "pivot": lambda t: t.groupBy("n").pivot("c", ["a%"]).count(),
    "map": lambda t: t.where("c IS NOT NULL").selectExpr("map(c, n) AS m").groupBy("m").count(),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_BYTES)
def test_texts_with_a_collation_are_not_compared_by_their_bytes(rows: DataFrame, name: str) -> None:
    frame = BY_BYTES[name](rows.selectExpr("n", "s COLLATE UTF8_LCASE AS c"))
    assert "UTF8_LCASE" in refused(frame, "DATAFRAME_TYPE")


def test_a_column_of_a_table_has_its_collation(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE collated (n INT, s STRING COLLATE UTF8_LCASE) USING parquet")
    try:
        spark.sql("INSERT INTO collated VALUES (1, 'a'), (1, 'A'), (2, 'b')")
        for number, key in enumerate(("lower(s)", "n", "s = 'A'")):
            frame = spark.table("collated").groupBy("s", "n").count().selectExpr(key, "count")
            check_equal(frame, tmp_path / str(number))
    finally:
        spark.sql("DROP TABLE collated")


CONSTANTS: dict[str, Callable[[SparkSession], DataFrame]] = {
    "range": lambda s: s.sql("SELECT id FROM range(5) AS ev WHERE id > 1"),
    "values": lambda s: s.sql("SELECT i FROM VALUES (1), (2), (NULL) AS v(i)"),
    "alias of range": lambda s: s.range(3).alias("ev").select("ev.id"),
    "local": lambda s: s.createDataFrame(pa.table({"i": [1, 2], "s": ["x", None]})).alias("local"),
    "expressions": lambda s: s.sql("SELECT i, t FROM VALUES (1 + 1, upper('x')) AS v(i, t)"),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_with_an_alias_are_rows(spark: SparkSession, tmp_path: Path, name: str) -> None:
    frame = CONSTANTS[name](spark)
    assert "namedTable" not in sa.from_dataframe(frame).content
    check_equal(frame, tmp_path)


def test_constants_are_no_source_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT id FROM range(5) AS ev")
    with pytest.raises(sa.InputRefused, match="SOURCE_UNKNOWN"):
        sa.run(frame, {"ev": "parquet:nowhere"}, checkpoint=tmp_path / "view")


def test_columns_become_rows(rows: DataFrame, tmp_path: Path) -> None:
    wide = rows.selectExpr("s", "n AS a", "n * 2 AS b")
    check_equal(wide.melt(["s"], ["a", "b"], "name", "value"), tmp_path)


def test_a_list_of_python_is_no_table(spark: SparkSession) -> None:
    message = refused(spark.createDataFrame([(1,)], "n int").alias("sales"), "DATAFRAME_RELATION")
    assert "list of Python" in message


def users(rows: DataFrame) -> dict[str, DataFrame]:
    """DataFrames with functions that users wrote."""
    import pandas as pd
    from pyspark.sql.functions import udtf
    from pyspark.sql.pandas.functions import pandas_udf

    def twice(n: Any) -> Any:
        return n * 2

    twice.__annotations__ = {"n": pd.Series, "return": pd.Series}

    class Both:
        def eval(self, n: int) -> Iterator[tuple[int]]:
            yield (n,)

    def same(part: Any) -> Any:
        return part

    vectorized: Any = pandas_udf
    table: Any = udtf(Both, returnType="m: long")
    grouped = rows.groupBy("s")
    return {
        "lambda": rows.select(F.udf(lambda n: n, "long")("n")),
        "twice": rows.select(vectorized(twice, "long")("n")),
        "mapInPandas": rows.mapInPandas(same, "n long"),
        "mapInArrow": rows.mapInArrow(same, "n long"),
        "applyInPandas": grouped.applyInPandas(same, "n long"),
        "cogroup": grouped.cogroup(grouped).applyInPandas(lambda a, _: a, "n long"),
        "Both": table(F.lit(1)),
    }


def test_functions_of_users_are_refused(rows: DataFrame) -> None:
    pytest.importorskip("pandas")
    for frame in users(rows).values():
        message = refused(frame, "DATAFRAME_EXPRESSION")
        assert "a function that a user wrote" in message


def test_rows_of_an_rdd_are_refused(rows: DataFrame) -> None:
    frame = rows.rdd.map(lambda row: (row.n,)).toDF(["n"])
    assert "RDD" in refused(frame, "DATAFRAME_RELATION")
