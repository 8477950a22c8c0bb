"""Lists, structs and maps in the tables of every connector, through an insert, an update and a delete."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import substrait_agg as sa
from substrait_agg.connect.kafka import consumer
from tests.connect.delta_tables import FEED
from tests.connect.iceberg_tables import catalog, options
from tests.connect.kafka_topics import Broker
from tests.connect.server import run as execute
from tests.connect.server import running
from tests.e2e.rows import Bag, bag, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Row = dict[str, Any]
ITEM = pa.struct([("x", pa.int32()), ("d", pa.date32())])
SCHEMA = pa.schema([
    ("id", pa.int64()),
    ("v", pa.struct([("a", pa.int64()), ("b", pa.string()), ("i", ITEM)])),
    ("l", pa.list_(ITEM)),
    ("n", pa.list_(pa.int32())),
    ("m", pa.map_(pa.string(), pa.int64())),
    ("c", pa.list_(pa.decimal128(10, 2))),
])  # fmt: skip
COLUMNS = (
    "id bigint, v struct<a: bigint, b: string, i: struct<x: int, d: date>>,"
    " l array<struct<x: int, d: date>>, n array<int>"
)
VIEWS = {
    "parts": "SELECT id, v.a, v.b, v.i.d, get(l, 0).x, n[1] AS n FROM t",
    "items": "SELECT id, e.x, e.d FROM t LATERAL VIEW explode(l) AS e",
    "groups": "SELECT v, count(*) AS n, sum(id) AS s FROM t GROUP BY v",
    "whole": "SELECT id, v, l, n FROM t",
}
LAKE_VIEWS = {**VIEWS, "maps": "SELECT id, m['k'] AS k, m, c FROM t"}
DAY = dt.date(2024, 2, 29)


def item(x: int | None, d: dt.date | None = DAY) -> Row:
    return {"x": x, "d": d}


def row(id_: int, number: int) -> Row:
    """A row; two of them have nothing but nulls and empty lists."""
    if number == 7:
        return {**dict.fromkeys(SCHEMA.names), "id": id_}
    if number == 3:
        return {"id": id_, "v": None, "l": [], "n": None, "m": [], "c": []}
    return {
        "id": id_,
        "v": {"a": number % 2, "b": "é,}", "i": item(None)},
        "l": [item(number), None, item(None, None), item(number)],
        "n": [number, None] if number == 2 else [1, number],
        "m": [("", None), ("k", number)],
        "c": [Decimal("0.10") * number, None],
    }


FIRST = [row(1, 1), row(2, 2), row(3, 3), row(4, 4)]
OLD, NEW, GONE, MORE = FIRST[1], row(2, 5), FIRST[3], row(5, 7)
LAST = [FIRST[0], NEW, FIRST[2], MORE]
CHANGES: list[tuple[Row | None, Row | None]] = [(OLD, NEW), (None, MORE), (GONE, None)]


def expected(rows: Sequence[Row]) -> dict[str, Bag]:
    """The rows of the views."""
    found: dict[str, Bag] = {name: Counter() for name in LAKE_VIEWS}
    for r in rows:
        v, items, n = r["v"] or {"a": None, "b": None, "i": item(None, None)}, r["l"] or [], r["n"]
        first = items[0]["x"] if items else None
        found["parts"][r["id"], v["a"], v["b"], v["i"]["d"], first, n and n[1]] += 1
        found["items"].update((r["id"], *(e or item(None, None)).values()) for e in items)
        found["whole"][tuple(plain(r[name]) for name in ("id", "v", "l", "n"))] += 1
        found["maps"][r["id"], dict(r["m"] or []).get("k"), plain(r["m"]), plain(r["c"])] += 1
    for v in {plain(r["v"]) for r in rows}:
        ids = [r["id"] for r in rows if plain(r["v"]) == v]
        found["groups"][v, len(ids), sum(ids)] += 1
    return found


def check(
    spark: SparkSession,
    folder: Path,
    source: str,
    write: Callable[[int], object],
    views: Mapping[str, str] = VIEWS,
) -> None:
    """Run the views over two states of a source."""
    for step, rows in enumerate((FIRST, LAST)):
        write(step)
        answers = expected(rows)
        assert run(spark, folder, source, views) == {name: answers[name] for name in views}


def run(spark: SparkSession, folder: Path, source: str, views: Mapping[str, str]) -> dict[str, Bag]:
    """The rows of the views."""
    plans = {name: sa.sql(text, {"t": source}) for name, text in views.items()}
    sa.run(plans, {"t": source}, checkpoint=folder / "c", spark=spark).wait()
    return {name: bag(sa.open_view(folder / "c", name).to_arrow()) for name in views}


def table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


@pytest.mark.parametrize("configuration", [FEED, {}])
def test_delta(spark: SparkSession, tmp_path: Path, configuration: dict[str, str]) -> None:
    path = tmp_path / "t"

    def write(step: int) -> None:
        if step == 0:
            write_deltalake(path, table(FIRST), configuration=configuration)
            return
        merge = DeltaTable(path).merge(table([NEW, MORE]), "t.id = s.id", "s", "t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        DeltaTable(path).delete(f"id = {GONE['id']}")

    check(spark, tmp_path, f"delta:{path}", write, LAKE_VIEWS)


def test_iceberg(spark: SparkSession, tmp_path: Path) -> None:
    made = catalog(tmp_path).create_table("shop.t", SCHEMA)

    def write(step: int) -> None:
        if step == 0:
            made.append(table(FIRST))
            return
        made.overwrite(table([NEW]), overwrite_filter="id = 2")
        made.append(table([MORE]))
        made.delete(f"id = {GONE['id']}")

    words = "&".join(f"{k}={v}" for k, v in options(tmp_path).items())
    check(spark, tmp_path, f"iceberg:shop.t?{words}", write, LAKE_VIEWS)


@pytest.mark.parametrize("cdc", ["", "debezium"])
def test_kafka(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cdc: str
) -> None:
    """Rows by key, and events with their old rows."""
    monkeypatch.setattr(consumer, "ID_SECONDS", 0.05)
    broker = Broker()
    topic = broker.topic()

    def put(old: Row | None, new: Row | None) -> None:
        if cdc:
            op = "c" if old is None else "d" if new is None else "u"
            broker.put(topic, None, {"op": op, "before": encode(old), "after": encode(new)})
        else:
            broker.put(topic, {"id": (new or old or {})["id"]}, new and encode(new))

    def encode(value: Any) -> Any:
        """JSON has no dates: they are texts, and in events days."""
        if isinstance(value, dict):
            return {k: encode(v) for k, v in value.items() if k not in ("m", "c")}
        if isinstance(value, list):
            return [encode(v) for v in value]
        if isinstance(value, dt.date):
            return (value - dt.date(1970, 1, 1)).days if cdc else value.isoformat()
        return value

    def write(step: int) -> None:
        for old, new in CHANGES if step else [(None, row) for row in FIRST]:
            put(old, new)
        broker.flush()

    how = "cdc=debezium" if cdc else "key=id"
    spec = f"kafka:{topic}?kafka.bootstrap.servers={broker.servers}&columns={COLUMNS}&{how}"
    check(spark, tmp_path, spec, write)


def test_postgres(spark: SparkSession, tmp_path: Path) -> None:
    """Arrays and JSON, against the answers of PostgreSQL to the same questions."""
    views = {
        "parts": "SELECT id, n[1] AS n, size(s) AS s FROM t",
        "items": "SELECT id, e FROM t LATERAL VIEW explode(s) AS e",
        "groups": "SELECT n, count(*) AS c, sum(id) AS s FROM t GROUP BY n",
        "whole": "SELECT id, n, s, d FROM t",
        "json": "SELECT id, from_json(j, 'a STRING, b ARRAY<INT>').b[1] AS b, j FROM t",
    }
    questions = [
        "SELECT id, n[2], cardinality(s) FROM t",
        "SELECT id, unnest(s) FROM t",
        "SELECT n, count(*), sum(id)::bigint FROM t GROUP BY n",
        "SELECT id, n, s, d FROM t",
        "SELECT id, (j->'b'->1)::int, j::text FROM t",
    ]
    first = (
        "CREATE TABLE t (id bigint PRIMARY KEY, n int4[], s text[], d numeric(8,2)[], j jsonb)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "CREATE PUBLICATION p FOR TABLE t",
        """INSERT INTO t VALUES (1, '{1,2}', '{a,"b,\\"c\\\\",NULL,"NULL",""}', '{1.5,NULL}', '{"b":[1,2]}'),
        (2, NULL, NULL, NULL, NULL), (3, '{1,2}', '{}', '{}', '{"a": "é"}'), (4, '{5,NULL}', '{x}', '{-0.25}', '{}')""",
    )
    then = (
        "UPDATE t SET s = s || 'ü {}'::text WHERE id IN (1, 3)",
        """UPDATE t SET n = '{7,8}', s = '{}', j = '{"b": [4,5,6]}' WHERE id = 2""",
        "DELETE FROM t WHERE id = 4",
        "INSERT INTO t VALUES (5, '{7,8}', '{y,y}', '{2}', NULL)",
    )
    with running(tmp_path / "server") as server:
        dsn = server.database()
        for statements in (first, then):
            execute(dsn, *statements)
            found = run(spark, tmp_path, f"postgres:public.t?dsn={dsn}&publication=p", views)
            for answer, question in zip(found.values(), questions, strict=True):
                assert answer == Counter(tuple(map(plain, r)) for r in execute(dsn, question))
