"""Iceberg tables as sources: the rows that a run keeps are those of the table, at every position."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType

from substrait_agg.connect.iceberg.source import connect, group
from substrait_agg.connect.protocol import WEIGHT, TableSource
from substrait_agg.errors import UsageError
from tests.connect.driver import Run, play, refusal
from tests.connect.iceberg_tables import (
    SCHEMA,
    IcebergChanges,
    catalog,
    content,
    create,
    delete_positions,
    expire,
    iceberg_run,
    options,
    write_deletes,
)

pytestmark = pytest.mark.filterwarnings("ignore:Delete operation did not match:UserWarning")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("partition", [None, "p"])
def test_rows_are_those_of_the_table(tmp_path: Path, partition: str | None, seed: int) -> None:
    rng = random.Random(f"{partition} {seed}")
    names = ("shop.orders", "shop.lines")
    tables = [IcebergChanges(create(tmp_path, name, partition), rng) for name in names]
    play(rng, tables, [iceberg_run(tmp_path, name=name) for name in names], "snapshot")


def _table(folder: Path, rows: int = 6, name: str = "shop.orders") -> tuple[Table, Run]:
    table = create(folder, name)
    table.append(pa.table({"k": range(rows), "v": ["a"] * rows, "p": ["x"] * rows}).cast(SCHEMA))
    run = iceberg_run(folder, name=name)
    run.drain()
    return table, run


def _more(table: Table, key: int = 77) -> None:
    table.append(pa.table({"k": [key], "v": ["z"], "p": ["x"]}).cast(SCHEMA))


@pytest.mark.parametrize("most_bytes", [1.0, float("inf")])
def test_deletions_by_position(tmp_path: Path, most_bytes: float) -> None:
    """Two files delete rows of one file, and one of them reaches no rows that came later."""
    table, run = _table(tmp_path)
    (task,) = table.scan().plan_files()
    delete_positions(table, task.file, [0, 3])
    run.drain(most_bytes)
    assert {key for key, _, _ in run.rows} == {1, 2, 4, 5}
    delete_positions(table, task.file, [5])
    _more(table)
    run.drain(most_bytes)
    assert {key for key, _, _ in run.rows} == {1, 2, 4, 77}
    again = iceberg_run(tmp_path)
    again.drain()
    assert again.rows == run.rows
    table.delete("k = 2")
    run.drain(most_bytes)
    assert run.rows == content(table)


@pytest.mark.parametrize("restart", [False, True])
def test_deletions_by_values_are_refused(tmp_path: Path, *, restart: bool) -> None:
    table, run = _table(tmp_path)
    metadata = {"PARQUET:field_id": "1"}
    values = pa.table([[1]], schema=pa.schema([pa.field("k", pa.int32(), metadata=metadata)]))
    write_deletes(table, values, DataFileContent.EQUALITY_DELETES, [1])
    if restart:
        run.restart()
    assert refusal(run).code == "SOURCE_UNREADABLE"


@pytest.mark.parametrize("restart", [False, True])
def test_expired_snapshots(tmp_path: Path, *, restart: bool) -> None:
    """Snapshots between that of the run and the newest may expire, that of the run may not."""
    table, run = _table(tmp_path)
    kept = table.metadata.current_snapshot_id
    _more(table)
    _more(table, 78)
    expire(table, keep=[kept])
    if restart:
        run.restart()
    run.drain(1.0)
    assert run.rows == content(table)
    _more(table, 79)
    expire(table, keep=[])
    if restart:
        run.restart()
    assert refusal(run).code == "SOURCE_POSITION_GONE"


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    table, run = _table(tmp_path)
    (task,) = table.scan().plan_files()
    table.delete("k = 1")
    Path(task.file.file_path.removeprefix("file://")).unlink()
    assert refusal(run).code == "SOURCE_POSITION_GONE"


@pytest.mark.parametrize("restart", [False, True])
def test_another_table_of_the_same_name(tmp_path: Path, *, restart: bool) -> None:
    _, run = _table(tmp_path)
    catalog(tmp_path).drop_table("shop.orders")
    if not restart:
        assert refusal(run).code == "SOURCE_NOT_FOUND"
    _table(tmp_path)
    if restart:
        run.restart()
    assert refusal(run).code == "SOURCE_RECREATED"


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("change", ["type", "name", "again", "gone"])
def test_what_changes_a_column_that_is_read(tmp_path: Path, change: str, *, restart: bool) -> None:
    table, run = _table(tmp_path)
    with table.update_schema(allow_incompatible_changes=True) as update:
        if change == "type":
            update.update_column("k", LongType())
        elif change == "name":
            update.rename_column("k", "key")
        else:
            update.delete_column("k")
    if change == "again":
        with table.update_schema() as update:
            update.add_column("k", IntegerType())
    table.append(pa.table({"p": ["x"]}))
    if restart:
        run.restart()
    assert refusal(run).code == "SOURCE_SCHEMA_CHANGED"


def test_lists_and_maps_without_values(tmp_path: Path) -> None:
    """Null is not empty, whatever the elements are; pyiceberg itself confuses them."""
    item = pa.struct([("a", pa.int32())])
    schema = pa.schema(
        [
            ("l", pa.list_(item)),
            ("m", pa.map_(pa.string(), item)),
            ("n", pa.list_(pa.list_(item))),
            ("v", pa.struct([("l", pa.list_(item))])),
        ]
    )
    table = catalog(tmp_path).create_table("shop.orders", schema)
    rows: list[dict[str, Any]] = [
        {"l": None, "m": None, "n": None, "v": None},
        {"l": [{"a": 1}, None], "m": [("k", None)], "n": [None, [], [{"a": 2}]], "v": {"l": None}},
        {"l": [], "m": [], "n": [], "v": {"l": []}},
    ]
    run = iceberg_run(tmp_path, columns=schema.names)
    connector = run.open()
    table.append(pa.Table.from_pylist([*rows, *rows], schema).slice(1))
    read = connector.read(None, connector.latest(None, float("inf")))["t"].to_pylist()
    assert read == [{**row, WEIGHT: 1} for row in [*rows, *rows][1:]]


def test_a_new_field_of_a_struct_that_is_read(tmp_path: Path) -> None:
    schema = pa.schema([("l", pa.list_(pa.struct([("a", pa.int32())])))])
    table = catalog(tmp_path).create_table("shop.orders", schema)
    table.append(pa.table({"l": [None]}, schema))
    run = iceberg_run(tmp_path, columns=["l"])
    run.drain()
    with table.update_schema() as update:
        update.add_column(("l", "b"), LongType())
    table.append(
        pa.table({"l": pa.nulls(1, pa.list_(pa.struct([("a", pa.int32()), ("b", pa.int64())])))})
    )
    assert refusal(run).code == "SOURCE_SCHEMA_CHANGED"


def test_other_columns_may_change(tmp_path: Path) -> None:
    table, _ = _table(tmp_path, 1)
    run = iceberg_run(tmp_path, columns=("k", "v"))
    run.drain()
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("p")
        update.add_column("q", LongType())
    table.append(pa.table({"k": pa.array([1], pa.int32()), "v": ["b"], "q": [1]}))
    run.drain()
    table.delete("k = 0")
    run.restart()
    run.drain()
    assert run.rows == {(1, "b"): 1}


def test_a_column_that_came_without_rows_can_be_read(tmp_path: Path) -> None:
    """The schema of a position is that by which it was read, not that of its snapshot."""
    table, _ = _table(tmp_path, 1)
    with table.update_schema() as update:
        update.add_column("q", LongType())
    run = iceberg_run(tmp_path, columns=("k", "q"))
    run.drain()
    run.restart()
    table.append(pa.table({"k": pa.array([1], pa.int32()), "q": [7]}))
    run.drain()
    assert run.rows == {(0, None): 1, (1, 7): 1}


def test_a_table_without_rows_and_a_query_without_columns(tmp_path: Path) -> None:
    table = create(tmp_path)
    source = connect({"t": TableSource("t", "shop.orders", options(tmp_path))})
    source.begin({"t": ()}, "checkpoint", None)
    start = source.latest(None, float("inf"))
    assert start is not None
    assert source.read(None, start)["t"].num_rows == 0
    assert source.latest(start, float("inf")) is None
    _more(table)
    _more(table)
    read = source.read(start, source.latest(start, float("inf")) or "")
    assert read["t"].to_pydict() == {WEIGHT: [1, 1]}


def test_options(tmp_path: Path) -> None:
    table, _ = _table(tmp_path)
    first = content(table)
    start = table.metadata.current_snapshot_id
    _more(table)
    early = iceberg_run(tmp_path, {"from": str(start)})
    assert early.advance()
    assert early.rows == first
    early.drain()
    assert early.rows == content(table)
    for given in ({"from": "x"}, {"from": "7"}, {"uri": "nothing://x"}):
        with pytest.raises(UsageError) as wrong:
            iceberg_run(tmp_path, given).drain()
        assert wrong.value.code == "SPEC_OPTION_BAD"
    assert refusal(iceberg_run(tmp_path, name="shop.no")).code == "SOURCE_NOT_FOUND"
    assert refusal(iceberg_run(tmp_path, name="no.orders")).code == "SOURCE_NOT_FOUND"
    empty = {"uri": f"sqlite:///{tmp_path}/other.db"}
    assert refusal(iceberg_run(tmp_path, empty)).code == "SOURCE_NOT_REACHABLE"


def test_one_group_without_a_password() -> None:
    uri = "postgresql+psycopg2://me:geheim@db/lake"
    table = TableSource("t", "shop.orders", {"catalog": "prod", "uri": uri})
    assert group(table) == "shop.orders in prod at postgresql+psycopg2://me:*****@db/lake"
    assert group(TableSource("t", "shop.orders", {})) == "shop.orders in default"


def test_types_keep_their_values(tmp_path: Path) -> None:
    """Rows have plain types; only those of Arrow that Iceberg widens are others."""
    day, at = dt.date(2020, 2, 29), dt.datetime(2020, 1, 2, 3, 4, 5, 6)
    rows = pa.table(
        {
            "flag": pa.array([False, True]),
            "i": pa.array([1, None], pa.int32()),
            "f": pa.array([1.5, float("inf")], pa.float32()),
            "d": pa.array([Decimal("1.10"), None], pa.decimal128(38, 10)),
            "day": pa.array([day, None]),
            "at": pa.array([at, None], pa.timestamp("us")),
            "zoned": pa.array([at, None], pa.timestamp("us", "UTC")),
            "time": pa.array([at.time(), None], pa.time64("us")),
            "bytes": pa.array([b"\x00", None], pa.binary()),
            "list": pa.array([["a", None], []], pa.list_(pa.string())),
            "struct": pa.array([{"x": 1, "y": "b"}, None]),
            "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    table = catalog(tmp_path).create_table("shop.types", rows.schema)
    source = connect({"t": TableSource("t", "shop.types", options(tmp_path))})
    source.begin({"t": rows.column_names}, "c", None)
    start = source.latest(None, float("inf"))
    assert start is not None
    empty = source.read(None, start)["t"]
    table.append(rows)
    read = source.read(start, source.latest(start, float("inf")) or "")["t"]
    assert read.schema.equals(empty.schema)
    assert read.schema.remove(rows.num_columns).equals(source.table("t").schema)
    read = read.drop_columns([WEIGHT])
    assert read.sort_by("flag").to_pylist() == rows.to_pylist()
    assert [f.type for f in read.schema][:10] == [f.type for f in rows.schema][:10]
    source.close()
