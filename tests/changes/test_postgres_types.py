"""A table of PostgreSQL keeps the values of every type. After a rollback, a run writes it again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.changes import Delivery
from substrait_agg.changes.outputs.postgres_sink import PostgresSink
from substrait_agg.changes.outputs.sinks import SinkContext
from substrait_agg.changes.targets.postgres import parse_postgres
from substrait_agg.commit.documents.change_metadata import ChangesOrigin
from substrait_agg.errors import StateRefused
from substrait_agg.plan.arrow import field
from substrait_agg.plan.types import Type
from tests.changes.test_postgres_sink import output_to
from tests.checkpoint.local_checkpoint import filled
from tests.connect.server import Server, run, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("pg") / "server") as server:
        yield server


def of(kind: str, *params: int, children: tuple[Type, ...] = ()) -> Type:
    return Type(kind, True, params=params, children=children)


LIST = of("list", children=(of("fp64"),))
STRUCT = of("struct", children=(of("i32"), of("string"), of("decimal", 5, 2)))
MAP = of("map", children=(of("string"), of("binary")))
INSTANT = datetime(2026, 1, 31, 23, 59, 59, 123456)

CASES: tuple[tuple[Type, str, list[Any], list[Any]], ...] = (
    (of("bool"), "boolean", [True, False], [True, False]),
    (of("i8"), "smallint", [-128, 127], [-128, 127]),
    (of("i16"), "smallint", [-(2**15), 2**15 - 1], [-(2**15), 2**15 - 1]),
    (of("i32"), "integer", [-(2**31), 2**31 - 1], [-(2**31), 2**31 - 1]),
    (of("i64"), "bigint", [-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1]),
    (of("u64"), "numeric(20,0)", [Decimal(2**64 - 1)], [Decimal(2**64 - 1)]),
    (of("fp32"), "real", [1.5, -inf, 1e-45, 3.4028234663852886e38], [1.5, -inf, 1e-45, 3.4028235e38]),
    (of("fp64"), "double precision", [0.1, inf, 5e-324, 1.7976931348623157e308], [0.1, inf, 5e-324, 1.7976931348623157e308]),
    (of("decimal", 38, 10), "numeric(38,10)", [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0.0000000001")],
     [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0.0000000001")]),
    (of("string"), "text", ["", 'a,b\n"c"', "\\.", "\\N", "NULL", "ü😀"], ["", 'a,b\n"c"', "\\.", "\\N", "NULL", "ü😀"]),
    (of("varchar", 9), "text", [" a "], [" a "]),
    (of("binary"), "bytea", [b"", b"\x00\xff\\x"], [b"", b"\x00\xff\\x"]),
    (of("uuid"), "uuid", [UUID(int=7).bytes], [str(UUID(int=7))]),
    (of("date"), "date", [date(1, 1, 1), date(9999, 12, 31)], [date(1, 1, 1), date(9999, 12, 31)]),
    (of("precision_time", 6), "time without time zone", [time(23, 59, 59, 999999)], [time(23, 59, 59, 999999)]),
    (of("precision_timestamp", 6), "timestamp without time zone", [INSTANT, datetime(1, 1, 1)], [INSTANT, datetime(1, 1, 1)]),
    (of("precision_timestamp_tz", 6), "timestamp with time zone", [INSTANT.replace(tzinfo=UTC)], [INSTANT.replace(tzinfo=UTC)]),
    (of("interval_day", 6), "interval", [timedelta(days=-3, microseconds=7), timedelta(days=40)], [timedelta(days=-3, microseconds=7), timedelta(days=40)]),
    (LIST, "jsonb", [[], [1.5, None, inf]], [[], [1.5, None, "Infinity"]]),
    (STRUCT, "jsonb", [{"f0": 1, "f1": 'a"\n', "f2": Decimal("1.50")}], [{"f0": 1, "f1": 'a"\n', "f2": "1.50"}]),
    (MAP, "jsonb", [[("k", b"\x01")]], [[{"key": "k", "value": "AQ=="}]]),
)  # fmt: skip
"""Type, type in the table, values, and values as psycopg2 reads them."""


def changes_of(fields: list[pa.Field], values: list[list[Any]]) -> pa.Table:
    """Changes that insert rows, with their numbers as key."""
    schema = pa.schema(
        [
            pa.field("n", pa.int64(), nullable=False),
            *fields,
            pa.field("__version", pa.int64()),
            pa.field("__weight", pa.int64()),
        ],
        ChangesOrigin((0,), "plan", {}).metadata(),
    )
    rows = len(values[0])
    columns = [list(range(rows)), *values, [0] * rows, [1] * rows]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


def write(dsn: str, folder: Path, changes: pa.Table) -> None:
    with closing(PostgresSink(parse_postgres(output_to(dsn).partition("=")[2]))) as sink:
        sink.begin(SinkContext(folder, sys.stdout))
        sink.deliver(changes, 0)


@pytest.mark.parametrize(
    ("type_", "name", "values", "read"), CASES, ids=[str(case[0]) for case in CASES]
)
def test_values_come_back(
    type_: Type, name: str, values: list[Any], read: list[Any], server: Server, tmp_path: Path
) -> None:
    dsn = server.database()
    run(dsn, f"ALTER DATABASE {dsn.rpartition('/')[2]} SET timezone = 'Asia/Tokyo'")
    run(dsn, f"ALTER DATABASE {dsn.rpartition('/')[2]} SET datestyle = 'SQL, DMY'")
    changes = changes_of([field("x", type_)], [[*values, None]])
    write(dsn, tmp_path, changes)
    found = [x for (x,) in run(dsn, "SET datestyle = ISO", "SELECT x FROM totals ORDER BY n")]
    found = [bytes(x) if isinstance(x, memoryview) else x for x in found]
    assert found == [*read, None]
    kinds = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'totals'::regclass AND attname = 'x'"
    assert run(dsn, kinds) == [(name,)]


def test_a_nested_key_finds_its_rows(server: Server, tmp_path: Path) -> None:
    """Also one with nulls inside, and one that is null."""
    fields = [("k", pa.struct([("a", pa.int32())])), ("v", pa.list_(pa.int32()))]
    schema = pa.schema([*fields, ("__version", pa.int64()), ("__weight", pa.int64())])
    schema = schema.with_metadata(ChangesOrigin((0,), "plan", {}).metadata())
    versions: list[list[tuple[Any, ...]]] = [
        [({"a": 1}, [1], 0, 1), ({"a": None}, None, 0, 1), (None, [], 0, 1)],
        [({"a": 1}, [1], 1, -1), ({"a": 1}, [2, None], 1, 1), ({"a": None}, None, 1, -1)],
    ]
    dsn = server.database()
    with closing(PostgresSink(parse_postgres(output_to(dsn).partition("=")[2]))) as sink:
        sink.begin(SinkContext(tmp_path, sys.stdout))
        for number, rows in enumerate(versions):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
            sink.deliver(pa.table(arrays, schema), number)
    assert run(dsn, "SELECT k, v FROM public.totals ORDER BY k") == [
        ({"a": 1}, [2, None]),
        (None, []),
    ]


def test_not_a_number_comes_back(server: Server, tmp_path: Path) -> None:
    dsn = server.database()
    fields = [field("x", of("fp64")), field("y", of("fp32"))]
    write(dsn, tmp_path, changes_of(fields, [[nan], [nan]]))
    assert run(dsn, "SELECT x = 'NaN', y = 'NaN' FROM totals") == [(True, True)]


@pytest.mark.parametrize(
    "type_",
    [of("precision_timestamp", 9), of("precision_timestamp_tz", 7), of("interval_day", 9)],
    ids=str,
)
def test_nanoseconds_are_refused(type_: Type, server: Server, tmp_path: Path) -> None:
    """PostgreSQL would round them without a word."""
    with pytest.raises(StateRefused) as refused:
        write(server.database(), tmp_path, changes_of([field("x", type_)], [[None]]))
    assert refused.value.code == "OUTPUT_TYPE_REFUSED"


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["x", "x"], "OUTPUT_COLUMN_REFUSED"),
        (["x" * 64, "y"], "OUTPUT_COLUMN_REFUSED"),
        (["", "y"], "OUTPUT_COLUMN_REFUSED"),
        (["ctid", "y"], "OUTPUT_NOT_WRITTEN"),
    ],
)
def test_names_that_a_table_cannot_have_are_refused(
    names: list[str], code: str, server: Server, tmp_path: Path
) -> None:
    changes = changes_of([field(name, of("i64")) for name in names], [[1], [2]])
    with pytest.raises(StateRefused) as refused:
        write(server.database(), tmp_path, changes)
    assert refused.value.code == code


# --- rollback -----------------------------------------------------------------------------------


def test_a_rollback_makes_the_next_run_write_the_table_anew(server: Server, tmp_path: Path) -> None:
    """The table has rows of versions that are gone; the versions that follow would not mend them."""
    dsn, folder = server.database(), tmp_path / "ckpt"
    made = filled(folder, 9)
    _deliver(dsn, folder)
    assert _table(dsn) == _view(folder)
    with pytest.raises(StateRefused, match=r"postgres=public\.totals") as refused:
        sa.open_state(folder).rollback(5)
    assert refused.value.code == "OUTPUT_AHEAD"
    (ahead,) = sa.open_state(folder).rollback(5, force=True).outputs
    assert (ahead.way, ahead.version) == ("write again", 9)
    _deliver(dsn, folder)
    assert _table(dsn) == _view(folder)
    assert run(dsn, "SELECT version, history FROM substrait_agg_versions") == [(5, 1)]
    assert made.folder == folder


def test_a_rollback_to_the_version_of_the_record_is_none(server: Server, tmp_path: Path) -> None:
    """A run may have been killed after it wrote the next version and before the record."""
    dsn, folder = server.database(), tmp_path / "ckpt"
    filled(folder, 6)
    _deliver(dsn, folder)
    (record,) = (folder / "outputs").glob("*[0-9a-f].json")
    saved = record.read_bytes()
    assert json.loads(saved)["version"] == 6
    sa.open_state(folder).rollback(5, force=True)
    _deliver(dsn, folder)
    (ahead,) = sa.open_state(folder).rollback(4, force=True).outputs
    assert ahead.version == 5
    _deliver(dsn, folder)
    assert _table(dsn) == _view(folder)


def test_an_older_copy_of_the_checkpoint_is_refused(server: Server, tmp_path: Path) -> None:
    dsn, folder = server.database(), tmp_path / "ckpt"
    made = filled(folder, 3)
    _deliver(dsn, folder)
    run(dsn, "UPDATE substrait_agg_versions SET version = 8")
    with pytest.raises(StateRefused) as refused:
        _deliver(dsn, folder)
    assert refused.value.code == "OUTPUT_AHEAD"
    assert made.folder == folder


def _deliver(dsn: str, folder: Path) -> None:
    with closing(Delivery([output_to(dsn)], checkpoint=folder)) as delivery:
        delivery.deliver(sa.open_view(folder))


def _table(dsn: str) -> list[Any]:
    return sorted(run(dsn, "SELECT c0, c1, c2, c3, c4, c6, c7, c8, c9 FROM totals"), key=str)


def _view(folder: Path) -> list[Any]:
    view = sa.open_view(folder).to_arrow().drop_columns(["c5"])  # a list, in no order
    return sorted((tuple(row.values()) for row in view.to_pylist()), key=str)
