"""Lists, structs and maps in the tables of every connector, through an insert, an update and a delete."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
from tests.e2e.rows import Bag, bag, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Row = dict[str, Any]
ITEM = pa.struct([("x", pa.int32()), ("d", pa.date32())])
SCHEMA = pa.schema([
    ("id", pa.int64()),
    ("v", pa.struct([("a", pa.int64()), ("b", pa.decimal128(10, 2)), ("i", ITEM)])),
    ("l", pa.list_(ITEM)),
    ("n", pa.list_(pa.int32())),
    ("m", pa.map_(pa.string(), pa.int64())),
])  # fmt: skip
VIEWS = {
    "parts": "SELECT id, v.a, v.b, v.i.d, get(l, 0).x, n[1] AS n, m['k'] AS k FROM t",
    "items": "SELECT id, e.x, e.d FROM t LATERAL VIEW explode(l) AS e",
    "groups": "SELECT v, count(*) AS n, sum(id) AS s FROM t GROUP BY v",
    "whole": "SELECT id, v, l, n, m FROM t",
}
DAY = dt.date(2024, 2, 29)


def item(x: int | None, d: dt.date | None = DAY) -> Row:
    return {"x": x, "d": d}


def row(id_: int, number: int) -> Row:
    """A row; the third has nothing but nulls and empty lists."""
    if number == 3:
        return {"id": id_, "v": None, "l": [], "n": None, "m": []}
    return {
        "id": id_,
        "v": {"a": number % 2, "b": Decimal("0.10") * (number % 2), "i": item(None)},
        "l": [item(number), None, item(None, None), item(number)],
        "n": [number, None] if number == 2 else [1, number],
        "m": [("k", number), ("", None)],
    }


FIRST = [row(1, 1), row(2, 2), row(3, 3), row(4, 4)]
OLD, NEW, GONE, MORE = FIRST[1], row(2, 5), FIRST[3], row(5, 7)
LAST = [FIRST[0], NEW, FIRST[2], MORE]


def expected(rows: Sequence[Row]) -> dict[str, Bag]:
    """The rows of the views."""
    parts, items, groups = [], [], Counter[Any]()
    sums = Counter[Any]()
    for r in rows:
        v, l, n = r["v"] or {}, r["l"], r["n"]
        i = (v.get("i") or {}).get("d")
        parts.append(
            (r["id"], v.get("a"), v.get("b"), i, l[0]["x"] if l else None, n[1] if n else None, dict(r["m"]).get("k"))
        )
        items += [(r["id"], *(e.values() if e else (None, None))) for e in l]
        groups[plain(r["v"])] += 1
        sums[plain(r["v"])] += r["id"]
    whole = [tuple(plain(r[name]) for name in SCHEMA.names) for r in rows]
    return {
        "parts": Counter(parts),
        "items": Counter(items),
        "groups": Counter((v, count, sums[v]) for v, count in groups.items()),
        "whole": Counter(whole),
    }


def check(
    spark: SparkSession, folder: Path, source: str, write: Callable[[int], None], columns: str = ""
) -> None:
    """Run the views over two states of a source."""
    given = {"t": source}
    write(0)
    for step, rows in enumerate((FIRST, LAST)):
        if step:
            write(1)
        plans = {name: sa.sql(text, columns or given) for name, text in VIEWS.items()}
        sa.run(plans, given, checkpoint=folder / "c", spark=spark).wait()
        found = {n: bag(sa.open_view(folder / "c", n).to_arrow()) for n in VIEWS}
        for name, answer in expected(rows).items():
            assert found[name] == answer, name


def table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


@pytest.mark.parametrize("configuration", [FEED, {}])
def test_delta(spark: SparkSession, tmp_path: Path, configuration: dict[str, str]) -> None:
    path = tmp_path / "t"

    def write(step: int) -> None:
        if not step:
            return write_deltalake(path, table(FIRST), configuration=configuration)
        merge = DeltaTable(path).merge(table([NEW, MORE]), "t.id = s.id", "s", "t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        DeltaTable(path).delete(f"id = {GONE['id']}")

    check(spark, tmp_path, f"delta:{path}", write)


def test_iceberg(spark: SparkSession, tmp_path: Path) -> None:
    made = catalog(tmp_path).create_table("shop.t", SCHEMA)

    def write(step: int) -> None:
        if not step:
            return made.append(table(FIRST))
        made.overwrite(table([NEW]), overwrite_filter="id = 2")
        made.append(table([MORE]))
        made.delete(f"id = {GONE['id']}")

    words = "&".join(f"{k}={v}" for k, v in options(tmp_path).items())
    check(spark, tmp_path, f"iceberg:shop.t?{words}", write)
