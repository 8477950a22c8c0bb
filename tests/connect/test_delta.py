"""Delta tables as sources: the rows that a run keeps are those of the table, at every position."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from substrait_agg.connect.delta.source import connect
from substrait_agg.connect.protocol import WEIGHT, TableSource
from substrait_agg.errors import UsageError
from tests.connect.delta_tables import FEED, DeltaChanges, content, delta_run
from tests.connect.driver import Run, play, refusal


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("feed", ["auto", "files"])
@pytest.mark.parametrize("partition", [None, "p"])
def test_rows_are_those_of_the_table(
    tmp_path: Path, feed: str, partition: str | None, seed: int
) -> None:
    rng = random.Random(f"{seed} {feed} {partition}")
    tables = [DeltaChanges(tmp_path / name, rng) for name in ("a", "b")]
    tables[0].create(FEED, partition)
    tables[1].create({}, partition)
    play(rng, tables, [delta_run(table.path, {"feed": feed}) for table in tables], "version")


def _actions(path: Path, version: int) -> list[dict[str, Any]]:
    lines = (path / f"_delta_log/{version:020d}.json").read_text().splitlines()
    return [json.loads(line) for line in lines]


def _append(path: Path, *actions: dict[str, Any]) -> None:
    """Write the next version of a log by hand."""
    version = DeltaTable(path).version() + 1
    text = "\n".join(json.dumps(action) for action in actions)
    (path / f"_delta_log/{version:020d}.json").write_text(text)


DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _vector(rows: list[int]) -> dict[str, Any]:
    """Return a deletion vector that the log itself contains."""
    body = struct.pack("<IQI", 1681511377, 1, 0) + struct.pack("<II", 12346, 1)
    body += struct.pack("<HHI", 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    padded = body + bytes(-len(body) % 4)
    numbers = struct.unpack(f">{len(padded) // 4}I", padded)
    text = "".join(DIGITS[n // 85**i % 85] for n in numbers for i in (4, 3, 2, 1, 0))
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(body),
        "cardinality": len(rows),
    }


def _delete_rows(path: Path, add: dict[str, Any], rows: list[int]) -> dict[str, Any]:
    """Write a version that deletes rows of a file by a deletion vector; return the new action."""
    old: dict[str, Any] = {
        k: add[k] for k in ("path", "partitionValues", "size", "deletionVector") if k in add
    }
    removed = {**old, "dataChange": True, "deletionTimestamp": 1, "extendedFileMetadata": True}
    new = {
        **add,
        "deletionVector": _vector(rows),
        "stats": '{"numRecords": 10, "tightBounds": false}',
    }
    _append(
        path,
        {"commitInfo": {"operation": "DELETE", "timestamp": 1}},
        {"remove": removed},
        {"add": new},
    )
    return new


@pytest.mark.parametrize("most_bytes", [1.0, float("inf")])
def test_deletion_vectors(tmp_path: Path, most_bytes: float) -> None:
    """A version that deletes rows by a vector has these rows alone, also if a later one adds to it."""
    path = tmp_path / "a table"
    rows = pa.table({"k": range(10), "v": list("abcdefghij"), "p": ["x ü"] * 10})
    write_deltalake(
        path, rows, partition_by="p", configuration={"delta.enableDeletionVectors": "true"}
    )
    run = delta_run(path)
    run.drain()
    (add,) = [action["add"] for action in _actions(path, 0) if "add" in action]
    add = _delete_rows(path, add, [1, 3])
    read = run.open().read(run.position, run.open().latest(run.position, float("inf")) or "")
    assert sorted(read["t"].column("k").to_pylist()) == [1, 3]
    run.drain(most_bytes)
    _delete_rows(path, add, [1, 3, 7])
    write_deltalake(path, rows, mode="append")
    run.drain(most_bytes)
    assert run.rows == content(path)
    again = delta_run(path)
    again.drain()
    assert again.rows == run.rows
    write_deltalake(path, rows.slice(0, 2), mode="overwrite")
    run.drain(most_bytes)
    assert run.rows == content(path)


def _table(path: Path, **options: Any) -> Run:
    write_deltalake(path, pa.table({"k": [1, 2], "v": ["a", "b"], "p": ["x", "y"]}), **options)
    run = delta_run(path)
    run.drain()
    return run


@pytest.mark.parametrize("restart", [False, True])
def test_what_changes_a_column_that_is_read(tmp_path: Path, *, restart: bool) -> None:
    run = _table(tmp_path / "t")
    other = pa.table({"k": ["1"], "v": ["a"], "p": ["x"]})
    write_deltalake(tmp_path / "t", other, mode="overwrite", schema_mode="overwrite")
    if restart:
        run.restart()
    assert refusal(run).code == "SOURCE_SCHEMA_CHANGED"


def test_a_new_field_of_a_struct_that_is_read(tmp_path: Path) -> None:
    for number in (1, 2):
        fields = pa.struct([(name, pa.int64()) for name in "ab"[:number]])
        rows = pa.table({"l": pa.array([None], pa.list_(fields))})
        write_deltalake(tmp_path, rows, mode="append", schema_mode="merge")
        if number == 1:
            run = delta_run(tmp_path, columns=["l"])
            run.drain()
    assert refusal(run).code == "SOURCE_SCHEMA_CHANGED"


def test_other_columns_may_change(tmp_path: Path) -> None:
    _table(tmp_path / "t")
    run = delta_run(tmp_path / "t", columns=("k", "v"))
    run.drain()
    rows = pa.table({"k": [3], "v": ["c"], "p": [1]})
    write_deltalake(tmp_path / "t", rows, mode="overwrite", schema_mode="overwrite")
    run.drain()
    assert run.rows == {(3, "c"): 1}


def test_rows_without_columns_are_counted(tmp_path: Path) -> None:
    _table(tmp_path / "t")
    run = delta_run(tmp_path / "t", columns=())
    run.drain()
    assert run.rows == {(): 2}
    DeltaTable(tmp_path / "t").delete("k = 1")
    run.drain()
    assert run.rows == {(): 1}


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("more", [0, 3])
def test_another_table_in_the_same_place(tmp_path: Path, more: int, *, restart: bool) -> None:
    run = _table(tmp_path / "t")
    write_deltalake(tmp_path / "t", pa.table({"k": [5], "v": ["e"], "p": ["z"]}), mode="append")
    run.drain()
    shutil.rmtree(tmp_path / "t")
    _table(tmp_path / "t")
    for _ in range(more):
        write_deltalake(tmp_path / "t", pa.table({"k": [9]}), mode="append", schema_mode="merge")
    if restart:
        run.restart()
    assert refusal(run).code == "SOURCE_RECREATED"


def test_files_that_are_gone(tmp_path: Path) -> None:
    """The old files of a rewritten table are needed without a feed; with all gone the run stops."""
    run = _table(tmp_path / "t")
    DeltaTable(tmp_path / "t").update({"v": "'n'"})
    DeltaTable(tmp_path / "t").vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert refusal(run).code == "SOURCE_POSITION_GONE"
    (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").unlink()
    run.restart()
    assert refusal(run).code in ("SOURCE_POSITION_GONE", "SOURCE_UNREADABLE", "SOURCE_RECREATED")


def test_unknown_features(tmp_path: Path) -> None:
    run = _table(tmp_path / "t")
    features = ["deletionVectors", "rubbish"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    _append(tmp_path / "t", {"protocol": protocol})
    refused = refusal(run)
    assert refused.code == "SOURCE_UNREADABLE"
    assert "rubbish" in refused.message
    run.restart()
    assert refusal(run).code == "SOURCE_UNREADABLE"


def test_options(tmp_path: Path) -> None:
    path = tmp_path / "t"
    _table(path)
    write_deltalake(path, pa.table({"k": [3], "v": ["c"], "p": ["x"]}), mode="append")
    first = delta_run(path, {"from": "0"})
    assert first.advance()
    assert first.rows == content(path, 0)
    first.drain()
    assert first.rows == content(path)
    assert refusal(delta_run(path, {"feed": "feed"})).code == "CHANGE_FEED_MISSING"
    for options in ({"feed": "x"}, {"from": "x"}, {"from": "7"}):
        with pytest.raises(UsageError) as wrong:
            delta_run(path, options).drain()
        assert wrong.value.code == "SPEC_OPTION_BAD"
    assert refusal(delta_run(tmp_path / "nothing")).code == "SOURCE_NOT_FOUND"


def test_types_keep_their_values(tmp_path: Path) -> None:
    """Rows of a snapshot and of files have the same plain types and values."""
    day, at = dt.date(2020, 2, 29), dt.datetime(2020, 1, 2, 3, 4, 5, 6)
    columns = {
        "i": pa.array([1, None], pa.int8()),
        "f": pa.array([1.5, float("inf")], pa.float32()),
        "d": pa.array([Decimal("1.10"), None], pa.decimal128(38, 10)),
        "day": pa.array([day, None]),
        "at": pa.array([at, None], pa.timestamp("us")),
        "zoned": pa.array([at, None], pa.timestamp("us", "UTC")),
        "bytes": pa.array([b"\x00", None], pa.binary()),
        "list": pa.array([["a", None], []], pa.list_(pa.string())),
        "struct": pa.array([{"x": 1, "y": "b"}, None]),
        "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
        "flag": pa.array([True, None]),
    }
    rows = pa.table(columns)
    for partition in (None, ["i", "day", "at", "zoned", "flag", "d"]):
        path = tmp_path / str(partition is None)
        write_deltalake(path, rows, partition_by=partition, configuration=FEED)
        source = connect({"t": TableSource("t", str(path), {})})
        source.begin({"t": rows.column_names}, "c", None)
        start = source.latest(None, float("inf"))
        assert start is not None
        initial = source.read(None, start)["t"]
        write_deltalake(path, rows, mode="append")
        later = source.read(start, source.latest(start, float("inf")) or "")["t"]
        assert initial.schema.equals(later.schema)
        for read in (initial, later):
            assert (
                read.drop_columns([WEIGHT]).sort_by([("flag", "ascending")]).to_pylist()
                == rows.to_pylist()
            )


def test_columns_that_are_mapped_by_name(tmp_path: Path) -> None:
    """A renamed column is another one; the files have names of their own."""
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"c1": [1, 2], "c2": ["a", "b"], "c3": ["x", "y"]}))
    (meta,) = [action["metaData"] for action in _actions(path, 0) if "metaData" in action]

    def map_to(*names: str) -> dict[str, Any]:
        fields = json.loads(meta["schemaString"])["fields"]
        for number, (field, name) in enumerate(zip(fields, names, strict=True), 1):
            mapping = {
                "delta.columnMapping.id": number,
                "delta.columnMapping.physicalName": field["name"],
            }
            field |= {"name": name, "metadata": mapping}
        text = json.dumps({"type": "struct", "fields": fields})
        settings = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}
        return {"metaData": {**meta, "schemaString": text, "configuration": settings}}

    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    _append(path, protocol, map_to("k", "v", "p"))
    run = delta_run(path)
    run.drain()
    assert run.rows == {(1, "a", "x"): 1, (2, "b", "y"): 1}
    (add,) = [action["add"] for action in _actions(path, 0) if "add" in action]
    removed = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}
    _append(path, {"remove": {**removed, "extendedFileMetadata": True, "partitionValues": {}}})
    run.drain()
    assert run.rows == {}
    _append(path, map_to("k", "other", "p"))
    assert refusal(run).code == "SOURCE_SCHEMA_CHANGED"
