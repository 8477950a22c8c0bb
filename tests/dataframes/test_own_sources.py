"""A run over a DataFrame without sources reads what the DataFrame reads."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
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

ROWS = pa.table({"n": [1, 2, 3, None], "s": ["a", "b", "a", None]})
TEXT = '1 "a \\" b" 2024-01-01T12:00:00\n2 "" 2024-07-01T12:00:00\n2 x \n'
"""Values between spaces without a header, as CSV of Spark: a backslash escapes a quote."""


def stored(folder: Path, rows: pa.Table = ROWS) -> str:
    """Rows in a Parquet file of a folder."""
    folder.mkdir(parents=True)
    pq.write_table(rows, folder / "a.parquet")
    return str(folder)


def written(folder: Path, name: str, text: str) -> str:
    folder.mkdir()
    (folder / name).write_text(text)
    return str(folder)


def kept(frame: Any, folder: Path, **options: Any) -> pa.Table:
    """The view of a run over a DataFrame."""
    sa.run(frame, checkpoint=folder / "view", outputs=["none"], **options).wait()
    return sa.open_view(folder / "view").to_arrow()


def in_parquet(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.parquet(stored(folder / "sales")).groupBy("s").agg(F.sum("n").alias("t"))


def in_json(spark: SparkSession, folder: Path) -> DataFrame:
    place = written(folder / "j", "a.json", '{"n": 1, "at": "2024-07-01T12:00:00"}\n{"n": 1}\n')
    return (
        spark.read.schema("n int, at timestamp")
        .json(place)
        .groupBy("n")
        .agg(F.max("at").alias("m"))
    )


def in_csv(spark: SparkSession, folder: Path) -> DataFrame:
    place = written(folder / "c", "a.csv", TEXT)
    rows = spark.read.option("sep", " ").schema("n int, s string, at timestamp").csv(place)
    return rows.select("at", "s", "n").distinct()


def in_csv_with_header(spark: SparkSession, folder: Path) -> DataFrame:
    place = written(folder / "h", "a.csv", "n,s\n1,a\n2,b\n")
    return spark.read.csv(place, header=True, inferSchema=True).where("n > 1")


def in_csv_beside_a_column_without_a_type(spark: SparkSession, folder: Path) -> DataFrame:
    place = written(folder / "u", "a.csv", "1,x,10\n2,y,20\n1,z,5\n")
    rows = spark.read.schema("n int, s string collate utf8_lcase, v long").csv(place)
    return rows.groupBy("n").agg(F.sum("v").alias("t"))


def joined_with_itself(spark: SparkSession, folder: Path) -> DataFrame:
    rows = spark.read.parquet(stored(folder / "sales"))
    return rows.alias("a").join(rows.alias("b"), F.col("a.s") == F.col("b.s")).select("a.n", "b.s")


def in_folders_of_one_name(spark: SparkSession, folder: Path) -> DataFrame:
    other = pa.table({"n": [7, 8], "s": ["x", "y"]})
    places = stored(folder / "old" / "sales"), stored(folder / "new" / "sales", other)
    old, new = (spark.read.parquet(place) for place in places)
    return old.union(new).groupBy().agg(F.sum("n").alias("t"))


def in_a_view_with_other_names(spark: SparkSession, folder: Path) -> DataFrame:
    rows = spark.read.parquet(stored(folder / "sales"))
    rows.selectExpr("s AS word", "n AS number").createOrReplaceTempView("renamed")
    return spark.table("renamed").where("number > 1")


def in_files_of_a_glob(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.parquet(f"{stored(folder / 'sales')}/*.parquet").where("n > 1")


MAKERS: list[Callable[[SparkSession, Path], DataFrame]] = [
    in_parquet, in_json, in_csv, in_csv_with_header, in_csv_beside_a_column_without_a_type, joined_with_itself,
    in_folders_of_one_name, in_a_view_with_other_names, in_files_of_a_glob,
]  # fmt: skip


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_the_view_equals_the_dataframe(
    spark: SparkSession, tmp_path: Path, make: Callable[[SparkSession, Path], DataFrame]
) -> None:
    frame = make(spark, tmp_path)
    assert bag(kept(frame, tmp_path)) == bag(frame.toArrow())


@pytest.mark.parametrize("make", [in_json, in_csv], ids=lambda make: make.__name__)
def test_texts_of_times_are_read_in_the_zone_of_the_session(
    spark: SparkSession, tmp_path: Path, make: Callable[[SparkSession, Path], DataFrame]
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = make(spark, tmp_path)
        view, answer = kept(frame, tmp_path), frame.toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    times = [column for column in view.column_names if column in ("at", "m")]
    found = {
        t.replace(tzinfo=dt.UTC) if t.tzinfo is None else t for t in view[times[0]].to_pylist() if t
    }
    expected = {t.astimezone(dt.UTC) for t in answer[times[0]].to_pylist() if t}
    assert found == expected


def test_new_files_are_read_by_the_next_run(spark: SparkSession, tmp_path: Path) -> None:
    place = stored(tmp_path / "sales")
    frame = spark.read.parquet(place).groupBy("s").agg(F.sum("n").alias("t"))
    kept(frame, tmp_path)
    pq.write_table(pa.table({"n": [10], "s": ["a"]}), Path(place) / "b.parquet")
    view = kept(spark.read.parquet(place).groupBy("s").agg(F.sum("n").alias("t")), tmp_path)
    assert {"s": "a", "t": 14} in view.to_pylist()


def test_tables_of_the_catalogue_are_read(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE kept_sales USING parquet AS SELECT 1 AS n UNION ALL SELECT 2")
    try:
        frame = spark.table("kept_sales").agg(F.sum("n").alias("t"))
        assert kept(frame, tmp_path, spark=spark).to_pylist() == [{"t": 3}]
    finally:
        spark.sql("DROP TABLE kept_sales")


def test_several_dataframes_are_views_of_one_run(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.read.parquet(stored(tmp_path / "sales"))
    plans = {"sums": rows.agg(F.sum("n").alias("t")), "rows": rows.select("s")}
    sa.run(plans, checkpoint=tmp_path / "view", outputs=["none"]).wait()
    assert sa.open_view(tmp_path / "view", "sums").to_arrow().to_pylist() == [{"t": 6}]
    assert sa.open_view(tmp_path / "view", "rows").to_arrow().num_rows == 4


def test_given_sources_count_more(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.read.parquet(stored(tmp_path / "sales")).select("n")
    other = stored(tmp_path / "other", pa.table({"n": [9], "s": ["z"]}))
    sources = {"sales": f"parquet:{other}"}
    sa.run(frame, sources, checkpoint=tmp_path / "view", outputs=["none"]).wait()
    assert sa.open_view(tmp_path / "view").to_arrow().to_pylist() == [{"n": 9}]


def without_source(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """DataFrames whose rows have no SPEC -> what the message says."""
    spark.createDataFrame([(1,)], "n int").createOrReplaceTempView("in_memory")
    place = stored(folder / "sales")
    return {
        "in the memory": spark.table("in_memory"),
        "2 paths": spark.read.parquet(place, place),
        "DROPMALFORMED": spark.read.schema("n int").option("mode", "DROPMALFORMED").csv(place),
        "modifiedAfter": spark.read.option("modifiedAfter", "2020-01-01T00:00:00").parquet(place),
        "not read from files": spark.readStream.schema("n long").parquet(place).alias("events"),
    }


def test_a_dataframe_without_a_source_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    for reason, frame in without_source(spark, tmp_path).items():
        with pytest.raises(sa.InputRefused) as refused:
            kept(frame, tmp_path)
        assert refused.value.code == "SOURCE_MISSING"
        assert reason.lower() in refused.value.message.lower()
        assert refused.value.help


def test_two_views_with_other_files_of_one_name_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    places = stored(tmp_path / "old" / "sales"), stored(tmp_path / "new" / "sales")
    views = dict(zip(("a", "b"), map(spark.read.parquet, places), strict=True))
    with pytest.raises(sa.InputRefused, match="SOURCE_AMBIGUOUS"):
        sa.run(views, checkpoint=tmp_path / "view")


def test_a_streaming_dataframe_is_a_source(spark: SparkSession, tmp_path: Path) -> None:
    place = stored(tmp_path / "sales")
    stream = spark.readStream.schema("n long, s string").parquet(place)
    plan = sa.from_dataframe(spark.read.parquet(place).groupBy("s").count())
    sa.run(
        plan, {"sales": stream}, checkpoint=tmp_path / "view", outputs=["none"], spark=spark
    ).wait()
    assert {"s": "a", "count": 2} in sa.open_view(tmp_path / "view").to_arrow().to_pylist()


@pytest.mark.parametrize("use", [sa.load, sa.validate, sa.explain, sa.from_dataframe])
def test_a_dataframe_of_connect_is_refused(use: Callable[[Any], Any]) -> None:
    names = {"__module__": "pyspark.sql.connect.dataframe", "schema": None}
    with pytest.raises(sa.UsageError) as refused:
        use(type("DataFrame", (), names)())
    assert refused.value.code == "CONNECT_NOT_SUPPORTED"
