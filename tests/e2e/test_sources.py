"""Sources of changes, their outputs, and batches that cannot be computed."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.runtime.batch.microbatch import MicroBatches
from tests.e2e.files import age, write_in_order
from tests.e2e.plans import Builder, aggregate, column, read, union_all
from tests.e2e.rows import changes_by_version, view_rows
from tests.e2e.running import check_versions, maintain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = {"k": "string", "x": "i64"}


def sums(*tables: str, keys: bool = True) -> str:
    """SELECT k, sum(x), count(*) FROM tables GROUP BY k, or without k."""
    builder = Builder()
    reads = [read(table, COLUMNS) for table in tables]
    measures = [
        builder.measure("sum", (column(1), "i64"), output="i64"),
        builder.measure("count", output="i64!"),
    ]
    source = reads[0] if len(reads) == 1 else union_all(*reads)
    names = ["k", "s", "n"] if keys else ["s", "n"]
    return builder.plan(aggregate(source, [column(0)] if keys else [], measures), *names)


def rows(*pairs: tuple[str | None, int | None], **more: Any) -> pa.Table:
    """A source file of (k, x) rows."""
    k, x = zip(*pairs, strict=True) if pairs else ((), ())
    return pa.table({"k": pa.array(k, pa.string()), "x": pa.array(x, pa.int64()), **more})


def test_an_empty_folder_shows_one_global_row(spark: SparkSession, tmp_path: Path) -> None:
    """Version 0 of a global aggregate: a null sum and a count of 0; rows that come later change it."""
    (tmp_path / "in").mkdir()
    source = {"t": f"parquet:{tmp_path / 'in'}?batch-files=1"}
    plan, checkpoint = sums("t", keys=False), tmp_path / "checkpoint"
    views = maintain(spark, plan, source, checkpoint)
    write_in_order(tmp_path / "in", [rows(("a", 3), ("b", None))])
    views |= maintain(spark, plan, source, checkpoint)
    check_versions(checkpoint, views, [Counter([(None, 0)]), Counter([(3, 2)])])


def test_a_static_dataframe_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    """A static DataFrame, with or without weights, makes version 0, and a second run adds nothing."""
    frame = spark.createDataFrame(
        [("a", 1, 2), ("a", 5, 1), ("b", 7, -1)], "k string, x bigint, __weight bigint"
    )
    for _ in range(2):
        maintain(spark, sums("t"), {"t": frame}, tmp_path / "checkpoint")
        assert sa.open_view(tmp_path / "checkpoint").versions() == [0]
        assert view_rows(tmp_path / "checkpoint") == Counter([("a", 7, 3)])


def test_a_stream_beside_a_static_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    """A streaming DataFrame made by the caller, whose settings and whose columns' order are left alone."""
    write_in_order(tmp_path / "in", [rows(("a", 1)), rows(("b", 2), ("a", -1))])
    reader = spark.readStream.schema("x bigint, k string").option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(tmp_path / "in"))
    static = spark.createDataFrame([("a", 10), ("c", None)], "k string, x bigint")
    before = spark.conf.get("spark.sql.shuffle.partitions")
    checkpoint = tmp_path / "checkpoint"
    views = maintain(spark, sums("t", "u"), {"t": stream, "u": static}, checkpoint, partitions=1)
    wanted = [
        Counter([("a", 10, 1), ("c", None, 1)]),
        Counter([("a", 11, 2), ("c", None, 1)]),
        Counter([("a", 10, 3), ("b", 2, 1), ("c", None, 1)]),
    ]
    check_versions(checkpoint, views, wanted)
    assert spark.conf.get("spark.sql.shuffle.partitions") == before


def test_csv_json_and_table_sources_together(spark: SparkSession, tmp_path: Path) -> None:
    """Three formats in one plan; CSV with operations, JSON with weights, a table of the catalogue."""
    for name in ("csv", "json"):
        (tmp_path / name).mkdir()
    (tmp_path / "csv" / "1.csv").write_text("op,x,k\n+I,5,a\n+I,,b\n-D,2,a\n")
    lines = [{"k": "a", "x": 1, "w": 3}, {"k": "c", "x": -4, "w": 1}, {"k": None, "w": 1}]
    (tmp_path / "json" / "1.json").write_text("\n".join(map(json.dumps, lines)))
    spark.sql("DROP TABLE IF EXISTS e2e_sums")
    spark.sql("CREATE TABLE e2e_sums (k STRING, x BIGINT) USING parquet")
    spark.sql("INSERT INTO e2e_sums VALUES ('a', 100), ('d', 1)")
    sources = {
        "t": f"csv:{tmp_path / 'csv'}?header=true&op=op",
        "u": f"json:{tmp_path / 'json'}?weight=w",
        "v": "table:e2e_sums",
    }
    try:
        maintain(spark, sums("t", "u", "v"), sources, tmp_path / "checkpoint")
    finally:
        spark.sql("DROP TABLE e2e_sums")
    assert view_rows(tmp_path / "checkpoint") == Counter(
        [("a", 106, 4), ("b", None, 1), ("c", -4, 1), ("d", 1, 1), (None, None, 1)]
    )


def test_on_changes_gets_every_version_once(spark: SparkSession, tmp_path: Path) -> None:
    """The tables that the callback gets are the changes of the view, over two runs."""
    seen: list[tuple[int, pa.Table]] = []
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    files = [rows(("a", 1), ("b", 1)), rows(("a", 1)), rows(), rows(("c", None))]
    for start, count in ((0, 2), (2, 2)):
        write_in_order(folder, files[start : start + count], start)
        maintain(
            spark,
            sums("t"),
            {"t": f"parquet:{folder}?batch-files=1"},
            checkpoint,
            on_changes=lambda table, version: seen.append((version, table)),
        )
    whole = sa.open_view(checkpoint).changes()
    assert [version for version, _ in seen] == [1, 2, 4]
    assert all(table.schema == whole.schema for _, table in seen)
    assert changes_by_version(pa.concat_tables(t for _, t in seen)) == changes_by_version(whole)


def test_a_run_without_end_takes_what_comes(spark: SparkSession, tmp_path: Path) -> None:
    """Files that arrive during the run become versions, and a restarted run continues."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source = {"t": f"parquet:{folder}?batch-files=1"}
    write_in_order(folder, [rows(("a", 1))])
    run = sa.run(sums("t"), source, checkpoint=checkpoint, spark=spark, until="100ms")
    try:
        for version in (1, 2):
            deadline = time.monotonic() + 60
            while run.progress.version < version:
                assert time.monotonic() < deadline, f"version {version} does not come"
                time.sleep(0.02)
            write_in_order(folder, [rows(("a", version))], version)
    finally:
        run.stop()
    maintain(spark, sums("t"), source, checkpoint)
    assert sa.open_view(checkpoint).versions() == [0, 1, 2, 3]
    assert view_rows(checkpoint) == Counter([("a", 4, 3)])


def test_a_thread_that_waits_gets_no_error_from_stop(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch in progress is interrupted, which is no failure of the run; the next run computes it."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    source = {"t": f"json:{folder}"}
    run = sa.run(sums("t"), source, checkpoint=checkpoint, spark=spark, until="100ms")
    in_batch, errors = threading.Event(), list[BaseException]()

    def sleep(*_: object) -> None:
        in_batch.set()
        spark.sql("SELECT reflect('java.lang.Thread', 'sleep', 600000L) FROM range(1)").collect()

    def wait() -> None:
        try:
            run.wait()
        except BaseException as error:  # noqa: BLE001 - the test has none
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    with monkeypatch.context() as patched:
        patched.setattr(MicroBatches, "run", sleep)
        (folder / "a.json").write_text('{"k": "a", "x": 1}')
        assert in_batch.wait(60)
        run.stop()
        waiting.join(60)
    assert not errors
    maintain(spark, sums("t"), source, checkpoint)
    assert view_rows(checkpoint) == Counter([("a", 1, 1)])


def test_the_view_is_a_dataframe_too(spark: SparkSession, tmp_path: Path) -> None:
    """Its rows at any version, with the plan's names."""
    write_in_order(tmp_path / "in", [rows(("a", 1), (None, 2)), rows(("a", 5))])
    source = {"t": f"parquet:{tmp_path / 'in'}?batch-files=1"}
    maintain(spark, sums("t"), source, tmp_path / "checkpoint")
    view = sa.open_view(tmp_path / "checkpoint")
    for version, wanted in ((None, {("a", 6, 2), (None, 2, 1)}), (1, {("a", 1, 1), (None, 2, 1)})):
        frame = view.to_spark(spark, version)
        assert frame.columns == ["k", "s", "n"]
        assert {tuple(row) for row in frame.collect()} == wanted


def test_a_result_that_overflows_commits_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """RESULT_OVERFLOW leaves the version before; with the file corrected, the same run continues."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    most = 2**63 - 1
    write_in_order(folder, [rows(("a", most), ("b", 1)), rows(("a", 1), ("b", 1)), rows(("c", 2))])
    source = {"t": f"parquet:{folder}?batch-files=1"}
    for _ in range(2):
        with pytest.raises(sa.RunFailed, match="does not fit its type i64") as caught:
            maintain(spark, sums("t"), source, checkpoint)
        assert caught.value.code == "RESULT_OVERFLOW"
        assert sa.open_view(checkpoint).versions() == [0, 1]
        assert view_rows(checkpoint) == Counter([("a", most, 1), ("b", 1, 1)])
    write_in_order(folder, [rows(("a", -1), ("b", 1))], 1)
    age(folder / "part-0001.parquet", 1)
    maintain(spark, sums("t"), source, checkpoint)
    assert sa.open_view(checkpoint).versions() == [0, 1, 2, 3]
    assert view_rows(checkpoint, 2) == Counter([("a", most - 1, 2), ("b", 2, 2)])
    assert view_rows(checkpoint) == Counter([("a", most - 1, 2), ("b", 2, 2), ("c", 2, 1)])
