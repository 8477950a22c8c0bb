"""Outputs that Spark writes, and failing outputs, in real runs: no version is lost, and copies are recognizable."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

import substrait_agg as sa
from substrait_agg.changes.delivery import output_cursor
from substrait_agg.changes.records import Record
from tests.e2e.feeds import Change, Feed
from tests.e2e.plans import Builder, aggregate, column, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = {"k": "string", "x": "i64"}
BATCHES: list[list[Change]] = [
    [(("a", 1), 1), (("b", 2), 1), ((None, 7), 1)],
    [(("a", 4), 1)],
    [(("b", 2), -1), (("a", 1), -1)],
    [(("c", 1), 1)],
]


def plan() -> str:
    """SELECT k, count(*), sum(x) FROM t GROUP BY k."""
    build = Builder()
    measures = [
        build.measure("count", output="i64!"),
        build.measure("sum", (column(1), "i64"), output="i64"),
    ]
    return build.plan(aggregate(read("t", COLUMNS), [column(0)], measures), "k", "n", "s um")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_cursor, "FIRST_RETRY", 0.01)
    monkeypatch.setattr(output_cursor, "LONGEST_RETRY", 0.05)


def run(spark: SparkSession, folder: Path, batches: int, *outputs: Any, **options: Any) -> Any:
    """A run to the end of the first files, with everything in one folder."""
    spec = Feed("t", COLUMNS, "op", BATCHES[:batches]).write(folder / "in")
    started = sa.run(
        plan(), {"t": spec}, checkpoint=folder / "ck", spark=spark, outputs=outputs, **options
    )
    started.wait()
    return started


def bag(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter((r["k"], r["n"], r["s um"], r["__version"], r["__weight"]) for r in rows)


def wanted(folder: Path) -> Counter[tuple[Any, ...]]:
    return bag(sa.open_view(folder / "ck").changes().to_pylist())


def written(folder: Path, format: str) -> list[dict[str, Any]]:
    """The rows in a folder, read without Spark."""
    if format == "json":
        lines = [line for p in folder.glob("*.json") for line in p.read_text().splitlines()]
        found = [json.loads(line) for line in lines]
        return [{"k": None, "s um": None, **row} for row in found]
    rows: list[dict[str, Any]] = ds.dataset(folder, format=format).to_table().to_pylist()
    return rows


def test_every_change_is_written_with_its_version_over_two_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    formats = ("parquet", "orc", "json")
    outputs = [f"spark={name}:{tmp_path / name}" for name in formats]
    table = "spark=table:changes_written"
    run(spark, tmp_path, 2, *outputs)
    last = run(spark, tmp_path, 4, *outputs, table).progress
    for name in formats:
        rows = written(tmp_path / name, name)
        assert bag(rows) == wanted(tmp_path), name
        keys = [(row["__version"], row["__row"]) for row in rows]
        assert len(set(keys)) == len(keys)
    assert {sink.sink: (sink.version, sink.lag) for sink in last.sinks} == dict.fromkeys(
        (*outputs, table), (last.version, 0)
    )
    collected = spark.table("changes_written").collect()
    spark.sql("DROP TABLE changes_written")
    assert bag([row.asDict() for row in collected]) == wanted(tmp_path)


def test_a_version_that_comes_twice_can_be_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies can be recognized after the worst case: a version is written, and the run ends before
    recording it.
    """
    write = Record.write

    def dying(record: Record, version: int | None, size: int = 0) -> None:
        if version == 2:
            raise OSError("gone")
        write(record, version, size)

    output = f"spark=parquet:{tmp_path / 'out'}"
    with monkeypatch.context() as broken:
        broken.setattr(Record, "write", dying)
        broken.setattr(output_cursor, "FIRST_RETRY", 1000.0)
        with pytest.raises(sa.RunFailed) as failed:
            run(spark, tmp_path, 3, output)
    assert failed.value.code == "OUTPUT_NOT_DELIVERED"
    assert "has version 1 of 3: OSError: gone" in failed.value.message
    run(spark, tmp_path, 4, output)
    rows = written(tmp_path / "out", "parquet")
    assert len(rows) > wanted(tmp_path).total(), "version 2 was written more than once"
    once = {(row["__version"], row["__row"]): row for row in rows}
    assert bag(list(once.values())) == wanted(tmp_path)


def test_a_function_gets_every_version_again_until_it_returns(
    spark: SparkSession, tmp_path: Path
) -> None:
    taken: list[tuple[int, list[int]]] = []
    failures = [2, 2, 3]

    def write(frame: Any, version: int) -> None:
        assert frame.columns == ["k", "n", "s um", "__version", "__weight"]
        if version in failures:
            failures.remove(version)
            raise ValueError("not now")
        rows = frame.collect()
        assert {row["__version"] for row in rows} == {version}
        taken.append((version, [row["__weight"] for row in rows]))

    last = run(spark, tmp_path, 4, sa.SparkSink(write)).progress
    assert [version for version, _ in taken] == [1, 2, 3, 4]
    assert taken[1:3] == [(2, [-1, 1]), (3, [-1, -1, 1])]
    (sink,) = last.sinks
    assert (sink.sink, sink.failures, sink.lag) == ("spark-sink", 3, 0)
    run(spark, tmp_path, 4, sa.SparkSink(write))
    assert len(taken) == 4


def test_any_format_that_spark_knows_is_written(spark: SparkSession, tmp_path: Path) -> None:
    """A user-defined data source with options. Its errors are reported without its password."""
    from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

    class Lines(DataSourceWriter):
        def __init__(self, options: dict[str, str]) -> None:
            self._options = options

        def write(self, iterator: Any) -> WriterCommitMessage:
            if "fail" in self._options:
                raise ValueError(f"cannot log in with {self._options['password']}")
            with Path(self._options["path"]).open("a") as file:
                file.writelines(f"{row['__version']} {row['__row']}\n" for row in iterator)
            return WriterCommitMessage()

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "lines"

        def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
            assert not overwrite
            return Lines(dict(self.options))

    spark.dataSource.register(Source)
    output = f"spark=lines:{tmp_path / 'out.txt'}?password=geheim"
    run(spark, tmp_path, 4, output)
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert lines == ["1 0", "1 1", "1 2", "2 0", "2 1", "3 0", "3 1", "3 2", "4 0"]
    failing = f"spark=lines:{tmp_path / 'other.txt'}?password=geheim&fail=1"
    with pytest.raises(sa.RunFailed) as failed:
        run(spark, tmp_path, 4, failing)
    assert "geheim" not in str(failed.value)
    assert "password=*****" in failed.value.message


@pytest.mark.parametrize("output", ["spark=kafka:topic", "spark=nosuch:place"])
def test_a_format_that_spark_does_not_have_is_refused_first(
    output: str, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(sa.UsageError) as refused:
        run(spark, tmp_path, 1, output)
    assert refused.value.code == "OUTPUT_FORMAT_UNKNOWN"
    assert not (tmp_path / "ck").exists()


def test_two_outputs_of_one_name_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Two outputs with the same name are refused: they would share a position, and each would skip
    versions of the other.
    """
    sinks = [sa.SparkSink(lambda _frame, _version: None) for _ in range(2)]
    with pytest.raises(sa.UsageError) as refused:
        run(spark, tmp_path, 1, *sinks)
    assert refused.value.code == "OPTION_CONFLICT"


def test_messages_of_a_log_are_json_with_the_key_of_the_row(spark: SparkSession) -> None:
    from substrait_agg.spark.query.sinks import _messages

    changes = pa.table({"a `b`": ["x", None], "n": [1, 2], "__version": [3, 3]})
    rows = spark.createDataFrame(changes).selectExpr(*_messages(["a `b`"])).collect()
    assert [json.loads(row["key"]) for row in rows] == [{"a `b`": "x"}, {"a `b`": None}]
    assert [json.loads(row["value"]) for row in rows] == changes.to_pylist()
    assert spark.createDataFrame(changes).selectExpr(*_messages([])).columns == ["value"]


def test_values_are_the_same_in_a_frame_whatever_the_session(spark: SparkSession) -> None:
    """A timestamp without a zone keeps its text; a timestamp with a zone keeps its instant."""
    from substrait_agg.spark.query.sinks import frame_of

    at = datetime(2026, 1, 31, 12, 30, 0, 5)
    table = pa.table(
        {
            "plain": pa.array([at], pa.timestamp("us")),
            "zoned": pa.array([at], pa.timestamp("us", "UTC")),
            "amount": pa.array([Decimal("1.50")], pa.decimal128(38, 2)),
            "day": pa.array([at.date()], pa.date32()),
            "time": pa.array([1_500_000_000], pa.time64("ns")),
            "span": pa.array([2_500_000], pa.duration("us")),
            "many": pa.array([[1, None]], pa.list_(pa.int64())),
            "raw": pa.array([b"\0\xff"], pa.binary()),
        }
    )
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    frame = frame_of(session, table)
    assert frame.toArrow().cast(table.schema).to_pylist() == table.to_pylist()
    (row,) = frame.selectExpr(
        "CAST(plain AS STRING) AS plain", "CAST(zoned AS STRING) AS zoned"
    ).collect()
    assert (row["plain"], row["zoned"]) == (
        "2026-01-31 12:30:00.000005",
        "2026-01-31 21:30:00.000005",
    )


def test_an_output_that_never_works_leaves_everything_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The run continues to its end, then raises the error of the output; the next run delivers all
    versions.
    """

    def full(_changes: Any, _version: int) -> None:
        raise OSError("no space left")

    out = tmp_path / "out.jsonl"
    with pytest.raises(sa.RunFailed) as failed:
        run(spark, tmp_path, 4, f"stream-json={out}", on_changes=full)
    assert failed.value.code == "OUTPUT_NOT_DELIVERED"
    assert failed.value.message.startswith("output on_changes has version 0 of 4: ")
    assert sa.open_view(tmp_path / "ck").version == 4
    assert out.read_text().count("\n") == wanted(tmp_path).total()
    seen: list[int] = []
    run(spark, tmp_path, 4, on_changes=lambda _changes, version: seen.append(version))
    assert seen == [1, 2, 3, 4]


def test_the_command_says_which_output_failed_and_that_all_is_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert spark is not None
    from substrait_agg_cli.main import main

    (tmp_path / "plan.json").write_text(plan())
    spec = Feed("t", COLUMNS, "op", BATCHES[:2]).write(tmp_path / "in")
    arguments = [
        "run", str(tmp_path / "plan.json"), "--source", f"t={spec}", "--checkpoint", str(tmp_path / "ck"),
        "--output", "stream-json=/dev/full", "--output", "batch-csv", "--no-progress",
        "--metrics", str(tmp_path / "m.prom"),
    ]  # fmt: skip
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert sorted(result.stdout.splitlines()) == [",1,7", "a,2,5", "b,1,2", "k,n,s um"]
    assert "warning[OUTPUT_FAILING]: output stream-json=/dev/full failed" in result.stderr
    assert "error[OUTPUT_NOT_DELIVERED]: output stream-json=/dev/full has " in result.stderr
    assert "all versions are committed" in result.stderr
    assert "substrait_agg_output_lag_versions" in (tmp_path / "m.prom").read_text()


def test_relative_paths_are_those_of_the_call(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working folder changes before the first batch, and differs from that of the JVM."""
    Feed("t", COLUMNS, "op", BATCHES).write(tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    outputs = ["spark=parquet:out", "live-csv=view.csv", "stream-json=changes.json"]
    started = sa.run(
        plan(), {"t": "parquet:in/t?batch-files=1&op=change"}, checkpoint="ck", spark=spark, refresh="full",
        outputs=outputs, metrics="m.prom", progress=lambda _: os.chdir("/"),
    )  # fmt: skip
    started.wait()
    assert bag(written(tmp_path / "out", "parquet")) == wanted(tmp_path)
    assert {"view.csv", "changes.json", "m.prom"} <= {path.name for path in tmp_path.iterdir()}
    assert "parquet:out" in str(started.progress.sinks[0])
