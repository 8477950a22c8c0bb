"""The data source in Spark itself: found by its name, read by workers, in SQL and as a stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.errors.exceptions.captured import StreamingQueryException

import substrait_agg as sa
from tests.checkpoint.local_checkpoint import filled, some_rows
from tests.e2e.rows import bag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


def rows(frame: DataFrame) -> Any:
    return bag(frame.toArrow())


def test_a_view_is_read_by_name_and_in_sql(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(filled(tmp_path / "ckpt", 5).folder)
    view = sa.open_view(folder)
    reader = spark.read.format("substrait_agg")
    assert rows(reader.option("numPartitions", 4).load(folder)) == rows(view.to_spark(spark))
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW older USING substrait_agg OPTIONS (path '{folder}', version 3)"
    )
    assert rows(spark.table("older")) == rows(view.to_spark(spark, 3))
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW newer USING substrait_agg OPTIONS (path '{folder}', changes 3)"
    )
    weights = spark.sql("SELECT sum(__weight), count(*) FROM newer").collect()[0]
    changes = view.changes(3)
    assert tuple(weights) == (sum(changes.column("__weight").to_pylist()), changes.num_rows)
    with pytest.raises(AnalysisException, match=r"error\[VERSION_UNKNOWN\]: [^\n]*\nhelp: "):
        spark.read.format("substrait_agg").option("version", 99).load(folder)


def test_wrong_calls_have_a_code_and_no_traceback(spark: SparkSession, tmp_path: Path) -> None:
    """Spark shows the text of the exception of its worker."""
    folder = str(filled(tmp_path / "ckpt", 2).folder)

    def read() -> DataFrameReader:
        return spark.read.format("substrait_agg")

    wrong: dict[str, Callable[[], Any]] = {
        "VERSION_UNKNOWN": lambda: read().option("version", 99).load(folder),
        "OPTION_INVALID": lambda: read().option("verison", 1).load(folder),
        "NOT_A_CHECKPOINT": lambda: read().load(f"{folder}-missing"),
        "OPTION_INVALID: the schema": lambda: read().schema("x binary").load(folder).collect(),
        "VIEW_READ_ONLY": lambda: (
            spark.range(1).write.format("substrait_agg").mode("append").save(folder)
        ),
    }
    for code, call in wrong.items():
        with pytest.raises(PySparkException) as refused:
            call()
        text = str(refused.value)
        assert f"error[{code.partition(':')[0]}]: " in text
        assert "\nhelp: " in text
        assert "Traceback" not in text


def test_a_stream_follows_a_view(spark: SparkSession, tmp_path: Path) -> None:
    """A restarted query continues after the version at which it stopped."""
    made = filled(tmp_path / "ckpt", 3)
    folder, target = str(made.folder), tmp_path / "out"

    def follow() -> None:
        stream = spark.readStream.format("substrait_agg").option("changes", "rows").load(folder)
        query = (
            stream.writeStream.trigger(availableNow=True)
            .format("parquet")
            .start(str(target), checkpointLocation=str(tmp_path / "stream"))
        )
        query.awaitTermination(120)

    follow()
    view, random = sa.open_view(folder), Random(7)
    before = view.to_arrow().num_rows
    for _ in range(2):
        made.batch(some_rows(random, 20))
    follow()
    found = spark.read.parquet(str(target)).groupBy("__version").sum("__weight").toArrow()
    counts = dict(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert counts[3] == before
    assert sum(counts.values()) == view.to_arrow().num_rows
    for _ in range(2):
        made.batch(some_rows(random, 20))
    sa.open_state(folder).vacuum(keep=1, changes=True)
    with pytest.raises(StreamingQueryException, match="CHANGES_EXPIRED"):
        follow()


def test_a_relative_path_is_in_the_working_folder_of_the_program(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark was started in another folder."""
    view = sa.open_view(str(filled(tmp_path / "ckpt", 3).folder))
    monkeypatch.chdir(tmp_path)
    frame = spark.read.format("substrait_agg").load("ckpt")
    stream = spark.readStream.format("substrait_agg").option("changes", "rows").load("ckpt")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW near USING substrait_agg OPTIONS (path 'ckpt', version 2)"
    )
    assert rows(spark.table("near")) == rows(view.to_spark(spark, 2))
    monkeypatch.chdir("/")
    assert rows(frame) == rows(view.to_spark(spark))
    query = stream.writeStream.trigger(availableNow=True).format("memory").queryName("near_rows")
    query.start().awaitTermination(120)
    assert spark.table("near_rows").count() == view.to_arrow().num_rows
