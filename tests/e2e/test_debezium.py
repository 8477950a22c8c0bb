"""A Debezium stream is aggregated, written as Debezium events and replayed in another database,
which agrees at every step.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import substrait_agg as sa
from substrait_agg.changes import spark_cdc_lines
from tests.e2e.files import age
from tests.e2e.plans import Builder, aggregate, column, read
from tests.e2e.rows import bag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Row = dict[str, Any]


def orders() -> str:
    """SELECT status, count(*), sum(quantity) FROM orders GROUP BY status."""
    build = Builder()
    source = read("orders", {"id": "i64!", "status": "string", "quantity": "i64"})
    measures = [
        build.measure("count", output="i64!"),
        build.measure("sum", (column(2), "i64"), output="i64"),
    ]
    return build.plan(aggregate(source, [column(1)], measures), "status", "n", "total")


def statuses() -> str:
    """SELECT count(*), sum(total) FROM (the view of `orders`)."""
    build = Builder()
    source = read("statuses", {"status": "string", "n": "i64!", "total": "i64"})
    measures = [
        build.measure("count", output="i64!"),
        build.measure("sum", (column(2), "i64"), output="i64"),
    ]
    return build.plan(aggregate(source, [], measures), "groups", "total")


class Table:
    """A table of orders and the events of its changes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: dict[int, Row] = {}

    def event(self) -> Row:
        """One change: a new order, another status or quantity, or a deletion."""
        known = self.random.choice(sorted(self.rows)) if self.rows else None
        kind = self.random.choice("ccuud") if known is not None else "c"
        before = self.rows.get(known) if known is not None and kind != "c" else None
        after: Row | None = None
        if kind != "d":
            number = (
                len(self.rows) + self.random.randrange(10**6) if before is None else before["id"]
            )
            status = self.random.choice(["new", "paid", "sent", None])
            after = {"id": number, "status": status, "quantity": self.random.randrange(100)}
            self.rows[number] = after
        elif known is not None:
            del self.rows[known]
        return {
            "before": before,
            "after": after,
            "op": kind,
            "source": {"table": "orders"},
            "ts_ms": 0,
        }


def write(folder: Path, files: list[list[Any]]) -> None:
    folder.mkdir()
    for number, events in enumerate(files):
        path = folder / f"part-{number}.json"
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
        age(path, number)


def test_events_go_round(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(3)
    files: list[list[Any]] = [[table.event() for _ in range(60)] for _ in range(4)]
    files[1].append(None)  # a tombstone
    files[2] = [{"schema": {"type": "struct"}, "payload": event} for event in files[2]]
    write(tmp_path / "in", files)
    out = tmp_path / "statuses.json"
    source = {"orders": f"json:{tmp_path / 'in'}?cdc=debezium&batch-files=1"}
    sa.run(
        orders(), source, checkpoint=tmp_path / "one", spark=spark, outputs=[f"debezium-json={out}"]
    ).wait()
    view = sa.open_view(tmp_path / "one")
    wanted = expected(table)
    assert bag(view.to_arrow()) == wanted
    assert replayed(out) == wanted
    assert view.version == len(files)

    # What came out is a source again, and so is the change feed.
    feed = tmp_path / "feed.json"
    feed.write_text("".join(spark_cdc_lines(view.changes())))
    for number, spec in enumerate((f"json:{out}?cdc=debezium", f"json:{feed}?op=_change_type")):
        checkpoint = tmp_path / f"again-{number}"
        sa.run(statuses(), {"statuses": spec}, checkpoint=checkpoint, spark=spark).wait()
        total = sum(row["quantity"] for row in table.rows.values())
        assert bag(sa.open_view(checkpoint).to_arrow()) == Counter({(len(wanted), total): 1})


def expected(table: Table) -> Counter[tuple[Any, ...]]:
    quantities: dict[Any, list[int]] = defaultdict(list)
    for row in table.rows.values():
        quantities[row["status"]].append(row["quantity"])
    return Counter((status, len(q), sum(q)) for status, q in quantities.items())


def replayed(events: Path) -> Counter[tuple[Any, ...]]:
    """The table that an outside database has after applying the events one by one; each must find its row."""
    database = duckdb.connect()
    database.execute("create table v (status varchar, n bigint, total bigint)")
    found = Counter(json.loads(line)["op"] for line in events.read_text().splitlines())
    assert found["u"] > found["d"] + found["c"], "updates are one event"
    for line in events.read_text().splitlines():
        event = json.loads(line)
        if event["before"] is not None:
            where = " and ".join(f"{name} is not distinct from ?" for name in event["before"])
            values = [*event["before"].values()]
            gone = database.execute(f"delete from v where {where} returning 1", values).fetchall()
            assert len(gone) == 1
        if event["after"] is not None:
            database.execute("insert into v values (?, ?, ?)", [*event["after"].values()])
    return Counter(database.execute("from v").fetchall())


def test_an_update_without_the_row_before_commits_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    after = {"id": 1, "status": "new", "quantity": 1}
    events = [{"before": None, "after": after, "op": op, "ts_ms": 0} for op in "cu"]
    write(tmp_path / "in", [events[:1], events])
    source = {"orders": f"json:{tmp_path / 'in'}?cdc=debezium&batch-files=1"}
    started = sa.run(orders(), source, checkpoint=tmp_path / "ck", spark=spark)
    with pytest.raises(sa.RunFailed) as failed:
        started.wait()
    assert failed.value.code == "ROW_BEFORE_MISSING"
    assert str(tmp_path / "in" / "part-1.json") in failed.value.message
    assert '"op": "u"' in failed.value.message
    assert "REPLICA IDENTITY FULL" in failed.value.help
    assert sa.open_view(tmp_path / "ck").version == 1
