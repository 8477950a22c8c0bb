"""Sources with new rows only: maintained, emitted and replayed elsewhere, with equal results at every version.

The events follow the examples of Debezium's documentation for PostgreSQL tables with the default replica identity: updates
without the row before, or with its key alone, and deletes that tell the key alone.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from tests import windowed
from tests.e2e.files import age, write_in_order
from tests.e2e.plans import Builder, aggregate, column, read, union_all
from tests.e2e.rows import Bag, bag
from tests.e2e.running import check_versions, maintain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Row = dict[str, Any]
Table = dict[int, Row]

COLUMNS = {"id": "i64!", "region": "string", "score": "i64", "name": "string!"}
QUERY = """
    select region, count(*), sum(score)::bigint, min(score), max(score), count(distinct name)
    from customers group by region
"""


def by_region() -> str:
    """`QUERY` as a plan."""
    build = Builder()
    score = (column(2), "i64")
    names = build.measure("count", (column(3), "string"), output="i64!")
    names["measure"]["invocation"] = "AGGREGATION_INVOCATION_DISTINCT"
    measures = [
        build.measure("count", output="i64!"),
        *(build.measure(name, score, output="i64") for name in ("sum", "min", "max")),
        names,
    ]
    source = read("customers", COLUMNS)
    return build.plan(
        aggregate(source, [column(1)], measures), "region", "n", "total", "least", "most", "names"
    )


def wanted(table: Table) -> Bag:
    """Return the result of DuckDB over the remaining rows."""
    database = duckdb.connect()
    database.execute(
        "create table customers (id bigint, region varchar, score bigint, name varchar)"
    )
    for row in table.values():
        database.execute("insert into customers values (?, ?, ?, ?)", [row[n] for n in COLUMNS])
    return Counter(database.execute(QUERY).fetchall())


UNAVAILABLE = "__debezium_unavailable_value"


class Customers:
    """A table and the events of its changes, as a connector writes them that does not know rows before.

    With `large`, updates leave names out that did not change, as PostgreSQL does where they are long.
    """

    def __init__(self, seed: int, *, large: bool = False) -> None:
        self.random = random.Random(seed)
        self.large = large
        self.rows: Table = {}
        self.lsn = 24023128

    def file(self, changes: int) -> list[Any]:
        """The events of some changes, now and then with a schema part, or written twice."""
        events = [event for _ in range(changes) for event in self.change()]
        return [e for event in events for e in self._written(event)]

    def _written(self, event: Any) -> list[Any]:
        if event is not None and self.random.random() < 0.2:
            event = {"schema": {"type": "struct", "optional": False}, "payload": event}
        return [event] * (2 if self.random.random() < 0.1 else 1)

    def change(self) -> list[Any]:
        """One change: a new row, other values, another key, or a deletion with its tombstone."""
        kind = self.random.choice("ccccuuuuddkk") if self.rows else "c"
        known = self.random.choice(sorted(self.rows)) if self.rows else 0
        if kind == "u":
            old, new = self.rows[known], self.draw(known)
            left_out = self.large and self.random.random() < 0.5
            self.rows[known] = {**new, "name": old["name"]} if left_out else new
            after = {**new, "name": UNAVAILABLE} if left_out else new
            before = self.random.choice(
                [None, {"id": known}, {"id": known, "region": None, "score": None}]
            )
            return [self.event("u", before, after)]
        gone = [self.event("d", {"id": known}), None] if kind in "dk" else []
        if gone:
            del self.rows[known]
        if kind in "ck":
            number = self.random.randrange(10**6)
            self.rows[number] = self.draw(number)
            gone.append(self.event(self.random.choice("cr"), None, self.rows[number]))
        return gone

    def draw(self, number: int) -> Row:
        return {
            "id": number,
            "region": self.random.choice(["north", "south", "east", "west", "centre", None]),
            "score": self.random.choice([None, *range(20)]),
            "name": self.random.choice(["Anne", "Sally", "George"]),
        }

    def event(self, op: str, before: Row | None, after: Row | None = None) -> Row:
        self.lsn += 56
        source = {
            "connector": "postgresql",
            "schema": "public",
            "table": "customers",
            "lsn": self.lsn,
        }
        return {
            "before": before,
            "after": after,
            "source": source,
            "op": op,
            "ts_ms": 1559033904863,
        }


def write(folder: Path, files: Sequence[Sequence[Any]], start: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    for number, events in enumerate(files, start):
        path = folder / f"part-{number}.json"
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
        age(path, number)


def test_events_without_rows_before_go_round(spark: SparkSession, tmp_path: Path) -> None:
    """In, aggregated, failed, stopped, continued over other partitions, out as events, replayed: equal at every version."""
    table = Customers(5, large=True)
    files, bags = [], [wanted({})]
    for _ in range(6):
        files.append(table.file(12))
        bags.append(wanted(table.rows))
    out, checkpoint = tmp_path / "out.json", tmp_path / "checkpoint"
    source = {"customers": f"json:{tmp_path / 'in'}?cdc=debezium&key=id&batch-files=1"}
    options: dict[str, Any] = {"outputs": [f"debezium-json={out}"]}
    write(tmp_path / "in", [*files[:2], [*files[2], {"op": "u"}]])
    failing = sa.run(
        by_region(), source, checkpoint=checkpoint, spark=spark, partitions=2, **options
    )
    with pytest.raises(sa.RunFailed, match="ROW_AFTER_MISSING"):
        failing.wait()
    view = sa.open_view(checkpoint)
    views = {version: bag(view.to_arrow(version)) for version in view.versions()}
    assert sorted(views) == [0, 1, 2], "nothing of the batch that failed is committed"
    write(tmp_path / "in", files[:3])
    views |= maintain(spark, by_region(), source, checkpoint, partitions=2, **options)
    write(tmp_path / "in", files[3:], 3)
    views |= maintain(spark, by_region(), source, checkpoint, partitions=4, **options)
    check_versions(checkpoint, views, bags)
    replayed(out, bags)


def replayed(events: Path, bags: Sequence[Bag]) -> None:
    """Apply the events one by one in DuckDB, each of which must find its row; check the table at every version."""
    database = duckdb.connect()
    database.execute(
        "create table v (region varchar, n bigint, total bigint, least bigint, most bigint, names bigint)"
    )
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    assert {line["op"] for line in lines} == {"c", "u", "d"}
    for version, rows in enumerate(bags):
        for event in (e for e in lines if e["source"]["sequence"] == str(version)):
            if event["before"] is not None:
                where = " and ".join(f"{name} is not distinct from ?" for name in event["before"])
                values = [*event["before"].values()]
                gone = database.execute(f"delete from v where {where} returning 1", values)
                assert len(gone.fetchall()) == 1
            if event["after"] is not None:
                values = [*event["after"].values()]
                database.execute("insert into v values (?, ?, ?, ?, ?, ?)", values)
        assert Counter(database.execute("from v").fetchall()) == rows, version


def test_events_in_disorder_are_put_in_order_by_their_position_in_the_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Several files in one batch, mixed, and all of it once more in a later one: the greatest lsn of a row counts."""
    table = Customers(6)
    events = [e for e in table.file(120) if e is not None]
    mixed = table.random.sample(events, len(events))
    write(tmp_path / "in", [mixed[:70], mixed[70:130], mixed[130:]])
    source = {"customers": f"json:{tmp_path / 'in'}?cdc=debezium&key=id&order=source.lsn"}
    checkpoint = tmp_path / "checkpoint"
    views = maintain(spark, by_region(), source, checkpoint)
    write(tmp_path / "in", [mixed[::-1]], 3)
    views |= maintain(spark, by_region(), source, checkpoint)
    check_versions(checkpoint, views, [wanted({}), *[wanted(table.rows)] * 2])


def parquet(rows: Sequence[Row]) -> pa.Table:
    types = {"id": pa.int64(), "region": pa.string(), "score": pa.int64(), "name": pa.string()}
    types |= {"op": pa.string(), "seq": pa.int64()}
    return pa.table({n: pa.array([row.get(n) for row in rows], t) for n, t in types.items()})


def test_a_column_of_operations_with_a_key(tmp_path: Path) -> None:
    """Updates have the new row only; old rows, and columns of a deletion besides its key, are ignored."""
    draw = Customers(7)
    rows: Table = {}
    tables, bags = [], [wanted({})]
    for _ in range(3):
        batch: list[Row] = []
        for _ in range(60):
            number = draw.random.randrange(25)
            if draw.random.random() < 0.3:
                rows.pop(number, None)
                batch.append({"id": number, "op": "-D"})
                continue
            rows[number] = draw.draw(number)
            batch.append({**draw.draw(number), "op": "-U"})
            batch.append({**rows[number], "op": draw.random.choice(["+I", "+U"])})
        tables.append(parquet(batch))
        bags.append(wanted(rows))
    write_in_order(tmp_path / "in", tables)
    source = {"customers": f"parquet:{tmp_path / 'in'}?op=op&key=id&batch-files=1"}
    views = maintain(None, by_region(), source, tmp_path / "checkpoint")
    check_versions(tmp_path / "checkpoint", views, bags)
    # The rows of the table are never held back: what is emitted in the end is what they come to.
    last = maintain(None, by_region(), source, tmp_path / "waited", emit="end")
    assert last[max(last)] == bags[-1]


def test_a_csv_file_of_rows_that_replace_one_another(spark: SparkSession, tmp_path: Path) -> None:
    """Without an operation every row is an upsert; the plan shows the rows themselves, of two reads of the table."""
    files = [["1,a,5.50", "2,b,1.00", "1,c,2.00"], ["2,b,1.00", "3,,", "1,d,0.25"], ["3,e,9.99"]]
    (tmp_path / "in").mkdir()
    for number, lines in enumerate(files):
        path = tmp_path / "in" / f"part-{number}.csv"
        path.write_text("\n".join(["id,name,price", *lines]) + "\n")
        age(path, number)
    source = read("items", {"id": "i64!", "name": "string", "price": "decimal<10,2>"})
    plan = Builder().plan(union_all(source, source), "id", "name", "price")
    spec = {"items": f"csv:{tmp_path / 'in'}?header=true&key=id&batch-files=1"}
    views = maintain(spark, plan, spec, tmp_path / "checkpoint")
    rows: dict[str, str] = {}
    bags: list[Bag] = [Counter()]
    for lines in files:
        rows |= {line[0]: line for line in lines}
        cells = [line.split(",") for line in rows.values()]
        bags.append(
            Counter({(int(i), n or None, Decimal(p) if p else None): 2 for i, n, p in cells})
        )
    check_versions(tmp_path / "checkpoint", views, bags)


def test_a_table_with_a_key_beside_one_of_changes(tmp_path: Path) -> None:
    """Both stream into one plan, which reads the keyed table twice: each row goes where it belongs, in its order."""
    build = Builder()
    items = read("items", {"id": "i64!", "x": "i64"})
    other = read("other", {"id": "i64!", "x": "i64"})
    measures = [
        build.measure("count", output="i64!"),
        build.measure("sum", (column(1), "i64"), output="i64"),
    ]
    twice = aggregate(union_all(items, other, items), [], measures)
    changed = [([1, 1, 2], [5, 6, 7]), ([2, 3], [1, 1])]
    weighted = [([9, 9], [100, 10], [3, -1]), ([9], [100], [-2])]
    write_in_order(tmp_path / "items", [pa.table({"id": i, "x": x}) for i, x in changed])
    write_in_order(
        tmp_path / "other", [pa.table({"id": i, "x": x, "w": w}) for i, x, w in weighted]
    )
    sources = {
        "items": f"parquet:{tmp_path / 'items'}?key=id&batch-files=1",
        "other": f"parquet:{tmp_path / 'other'}?weight=w&batch-files=1",
    }
    options = {"early_retraction": "quarantine"}
    views = maintain(
        None, build.plan(twice, "n", "total"), sources, tmp_path / "checkpoint", **options
    )
    # The row of 10 waits for its insertion.
    bags: list[Bag] = [Counter({(0, None): 1}), Counter({(7, 326): 1}), Counter({(7, 116): 1})]
    check_versions(tmp_path / "checkpoint", views, bags)
    waiting = sa.open_view(tmp_path / "checkpoint").quarantined()
    assert waiting.to_pylist() == [{"x": 10, "__weight": -1}]


def test_values_of_every_type_pass_through_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    """Rows are stored in Arrow and written to Parquet without loss for every type."""
    types = {
        "i8": "i8", "i16": "i16", "i32": "i32", "fp32": "fp32", "fp64": "fp64", "bool": "bool", "date": "date",
        "money": "decimal<38,10>", "text": "string", "bytes": "binary",
    }  # fmt: skip
    nested = {
        "stamp": {"precisionTimestamp": {"precision": 6, "nullability": "NULLABILITY_NULLABLE"}},
        "zoned": {"precisionTimestampTz": {"precision": 6, "nullability": "NULLABILITY_NULLABLE"}},
        "time": {"precisionTime": {"precision": 6, "nullability": "NULLABILITY_NULLABLE"}},
        "list": {"list": {"type": {"i64": {"nullability": "NULLABILITY_NULLABLE"}}, "nullability": "NULLABILITY_NULLABLE"}},
        "map": {"map": {"key": {"string": {"nullability": "NULLABILITY_REQUIRED"}}, "value": {"i64": {"nullability": "NULLABILITY_NULLABLE"}}, "nullability": "NULLABILITY_NULLABLE"}},
    }  # fmt: skip
    values = {
        "id": pa.array([1, 2, 3, 2], pa.int64()),
        "i8": pa.array([-128, None, 127, 1], pa.int8()),
        "i16": pa.array([-5, None, 5, 1], pa.int16()),
        "i32": pa.array([-7, None, 7, 1], pa.int32()),
        "fp32": pa.array([0.1, None, float("inf"), 1], pa.float32()),
        "fp64": pa.array([0.1, None, float("nan"), 1], pa.float64()),
        "bool": pa.array([True, None, False, True]),
        "date": pa.array([0, None, 20484, 1], pa.int32()).cast(pa.date32()),
        "money": pa.array(
            [Decimal("1.0000000001"), None, Decimal(-5), Decimal(1)], pa.decimal128(38, 10)
        ),
        "text": pa.array(["", None, "ä", "x"]),
        "bytes": pa.array([b"", None, b"\x00\xff", b"x"]),
        "stamp": pa.array([1, None, -1, 0], pa.timestamp("us")),
        "zoned": pa.array([1, None, -1, 0], pa.timestamp("us", "UTC")),
        "time": pa.array([1, None, 86_399_999_999, 0], pa.time64("us")),
        "list": pa.array([[], None, [1, None], [1]], pa.list_(pa.int64())),
        "map": pa.array([[], None, [("a", 1)], [("b", None)]], pa.map_(pa.string(), pa.int64())),
    }
    table = pa.table(values)
    plan = json.loads(Builder().plan(read("t", {"id": "i64!", **types}), *values))
    schema = plan["relations"][0]["root"]["input"]["read"]["baseSchema"]
    schema["names"] += list(nested)
    schema["struct"]["types"] += list(nested.values())
    write_in_order(tmp_path / "in", [table.slice(0, 3), table.slice(3), table.slice(1, 1)])
    source = {"t": f"parquet:{tmp_path / 'in'}?key=id&batch-files=1"}
    views = maintain(spark, json.dumps(plan), source, tmp_path / "checkpoint")
    first = bag(table.slice(0, 3))
    second = bag(table.take(pa.array([0, 2, 3])))
    assert [views[v] for v in range(4)] == [Counter(), first, second, first]


def test_a_checkpoint_keeps_its_keys(spark: SparkSession, tmp_path: Path) -> None:
    """State is made for a key and an order; another one is refused before anything is read."""
    write(tmp_path / "in", [Customers(8).file(5)])
    place = f"json:{tmp_path / 'in'}?cdc=debezium&batch-files=1"
    checkpoint = tmp_path / "checkpoint"
    maintain(spark, by_region(), {"customers": f"{place}&key=id"}, checkpoint)
    for other in ("", "&key=name", "&key=id&order=ts_ms"):
        with pytest.raises(sa.StateRefused) as refused:
            sa.run(by_region(), {"customers": place + other}, checkpoint=checkpoint, spark=spark)
        assert refused.value.code == "KEYS_DIFFER"
        assert "customers: key=id" in refused.value.message
    assert sa.open_view(checkpoint).version == 1


def test_without_a_key_the_error_tells_of_it(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", [[Customers(9).event("u", None, Customers(9).draw(1))]])
    source = {"customers": f"json:{tmp_path / 'in'}?cdc=debezium"}
    started = sa.run(by_region(), source, checkpoint=tmp_path / "checkpoint", spark=spark)
    with pytest.raises(sa.RunFailed) as failed:
        started.wait()
    assert failed.value.code == "ROW_BEFORE_MISSING"
    assert "key=" in failed.value.help


def goal(op: str, n: int, second: int, team: str = "a") -> dict[str, Any]:
    """A change event of a goal; a deletion contains only the key."""
    row = {"team": team, "t": second * 1_000_000, "n": n}
    return {"op": op, "before": None, "after": row}


def test_upserts_are_judged_late_by_what_they_change(spark: SparkSession, tmp_path: Path) -> None:
    """The old row stays counted in its closed window, the new row counts in its own window; both are reported."""
    windows = windowed.Windows()
    keys = [windowed.column(0), windows.call("tumble_end", windowed.interval(60))]
    plan = windows.plan(
        windowed.aggregate(windows.read(), keys, [windowed.COUNT]), "team", "minute", "n"
    )
    unavailable = "__debezium_unavailable_value"
    write(
        tmp_path / "in",
        [
            [goal("c", 1, 10), goal("c", 2, 70, "b")],
            [goal("u", 1, 80, unavailable), goal("c", 3, 5)],
            [goal("u", 2, 130, "b")],
        ],
    )
    run = sa.run(
        plan,
        {"goals": f"json:{tmp_path / 'in'}?cdc=debezium&key=n&times=us&batch-files=1"},
        checkpoint=tmp_path / "ck",
        spark=spark,
        watermark={"goals.t": "max-diff:0s"},
        outputs=[f"late-parquet={tmp_path / 'late'}"],
    )
    run.wait()
    assert run.progress.late_rows == 2
    view = sa.open_view(tmp_path / "ck")
    rows = {(r["team"], r["minute"].minute): r["n"] for r in view.to_arrow().to_pylist()}
    assert rows == {("a", 1): 1, ("a", 2): 1, ("b", 3): 1}
    (late,) = view.late().values()
    assert sorted(zip(*(late.column(c).to_pylist() for c in ("n", "__weight")), strict=True)) == [
        (1, -1),
        (3, 1),
    ]
    (file,) = (tmp_path / "late" / "goals").glob("late-*.parquet")
    assert pq.read_table(file).equals(late)
