"""The calls of a DataFrameWriter per format, also for formats whose packages are not installed."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from substrait_agg.changes.outputs.sinks import SinkContext
from substrait_agg.changes.targets.spark import parse_target
from substrait_agg.commit.documents.change_metadata import ChangesOrigin
from substrait_agg.spark.query.sinks import ROW, SparkWriter


class Frame:
    """A replacement of a DataFrame and its writer, which records the calls."""

    def __init__(self, table: pa.Table, calls: list[tuple[Any, ...]]) -> None:
        self.table = table
        self._calls = calls

    @property
    def write(self) -> Frame:
        return self

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any, **options: Any) -> Frame:
            self._calls.append((name, *arguments, *([options] if options else [])))
            return self

        return called


def written(target: str, tmp_path: Path, rows: int = 3, version: int = 7) -> list[tuple[Any, ...]]:
    """The calls for one version of changes whose first column is the key."""
    calls: list[tuple[Any, ...]] = []
    tables: list[pa.Table] = []

    def frame(table: pa.Table) -> Frame:
        tables.append(table)
        return Frame(table, calls)

    sink = SparkWriter(parse_target(target))
    sink.begin(SinkContext(tmp_path, io.StringIO(), frame))
    changes = pa.table({"k": range(rows), "__version": [version] * rows, "__weight": [1] * rows})
    metadata = ChangesOrigin((0,), "plan", {}).metadata()
    sink.deliver(changes.replace_schema_metadata(metadata), version)
    assert [table.column(ROW).to_pylist() for table in tables] == (
        [list(range(rows))] if rows else []
    )
    again = SparkWriter(parse_target(target))
    again.begin(SinkContext(tmp_path, io.StringIO(), frame))
    assert again.position == version
    return calls


def test_files_are_appended_to_a_path(tmp_path: Path) -> None:
    assert written("csv:/out?header=true", tmp_path) == [
        ("coalesce", 1),
        ("mode", "append"),
        ("options", {"header": "true"}),
        ("format", "csv"),
        ("save", "/out"),
    ]


def test_a_table_of_the_catalogue_is_appended_to_by_name(tmp_path: Path) -> None:
    assert written("table:sales.totals", tmp_path)[-2:] == [
        ("options",),
        ("saveAsTable", "sales.totals"),
    ]


def test_a_transaction_of_delta_names_the_version(tmp_path: Path) -> None:
    """Delta skips a transaction that it has seen: a version that comes twice is there once."""
    target = "delta:/lake/t?mergeSchema=true"
    (_, _, (_, options), *rest) = written(target, tmp_path)
    application = options.pop("txnAppId")
    assert options == {"txnVersion": "7", "mergeSchema": "true"}
    assert rest == [("format", "delta"), ("save", "/lake/t")]
    (_, _, (_, later), *_) = written(target, tmp_path, version=8)
    assert later["txnAppId"] == application
    # A new checkpoint in the same folder starts with version 0: Delta must not know its versions.
    shutil.rmtree(tmp_path / "outputs")
    (_, _, (_, restarted), *_) = written(target, tmp_path, version=0)
    assert restarted["txnAppId"] != application


def test_messages_go_to_a_topic_in_order(tmp_path: Path) -> None:
    """One task writes any number of messages in order, with a key that sends all changes of a row
    to one partition.
    """
    calls = written("kafka:totals?kafka.bootstrap.servers=h:1", tmp_path, rows=5)
    assert calls == [
        ("coalesce", 1),
        (
            "selectExpr",
            "to_json(struct(`k`), map('ignoreNullFields', 'false')) AS key",
            "to_json(struct(*), map('ignoreNullFields', 'false')) AS value",
        ),
        ("mode", "append"),
        ("options", {"topic": "totals", "kafka.bootstrap.servers": "h:1"}),
        ("format", "kafka"),
        ("save",),
    ]


def test_a_version_without_changes_is_not_written(tmp_path: Path) -> None:
    assert written("parquet:/out", tmp_path, rows=0) == []


@pytest.mark.parametrize("target", ["jdbc:?url=u&dbtable=t", "noop:"])
def test_formats_without_a_place_are_saved_without_one(target: str, tmp_path: Path) -> None:
    assert written(target, tmp_path)[-1] == ("save",)
