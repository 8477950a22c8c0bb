"""Runs over Delta tables, and back into Delta tables; also runs that are killed and started again."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from tests.changes.lakes import DeltaLake
from tests.connect.delta_tables import FEED, DeltaChanges
from tests.connect.driver import LAKE_COLUMNS, Rows
from tests.e2e.killing import Command, newest
from tests.e2e.rows import Bag, bag, running_sums
from tests.sampling import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERY = """
SELECT o.region, count(*) AS n, sum(l.amount) AS total
FROM lines l JOIN orders o ON l.order_id = o.id GROUP BY o.region
"""


def expected(lines: Path, orders: Path) -> Counter[tuple[object, ...]]:
    regions = {row["id"]: row["region"] for row in rows_of(orders)}
    totals: dict[str, list[int]] = {}
    for row in rows_of(lines):
        if row["order_id"] in regions:
            totals.setdefault(regions[row["order_id"]], []).append(row["amount"])
    return Counter((region, len(found), sum(found)) for region, found in totals.items())


def rows_of(table: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(table).to_pyarrow_table().to_pylist()
    return rows


@pytest.mark.parametrize("seed", range(2))
def test_a_join_of_delta_tables_kept_in_a_delta_table(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """The columns come from the tables. Appends, updates, deletions and compactions, runs that go on."""
    random = Random(seed)
    lines, orders, answer = (tmp_path / name for name in ("lines", "orders", "answer"))
    feed = {"delta.enableChangeDataFeed": "true"} if seed else None
    write_deltalake(
        orders, pa.table({"id": list(range(9)), "region": [f"r{i % 3}" for i in range(9)]})
    )
    write_deltalake(lines, drawn(random), configuration=feed)
    sources = {"lines": f"delta:{lines}", "orders": f"delta:{orders}"}
    for _ in range(4):
        run = sa.run(
            sa.sql(QUERY, sources), sources, checkpoint=tmp_path / "c", spark=spark,
            outputs=[f"delta={answer}?mode=view"],
        )  # fmt: skip
        run.wait()
        view = bag(sa.open_view(tmp_path / "c").to_arrow())
        assert view == expected(lines, orders)
        assert bag(DeltaTable(answer).to_pyarrow_table().select(["region", "n", "total"])) == view
        for _ in range(random.randrange(1, 4)):
            change(random, lines, orders)
    assert len(sa.open_view(tmp_path / "c").versions()) >= 4


def drawn(random: Random) -> pa.Table:
    count = random.randrange(1, 9)
    return pa.table(
        {
            "order_id": [random.randrange(12) for _ in range(count)],
            "amount": [random.randrange(100) for _ in range(count)],
        }
    )


def change(random: Random, lines: Path, orders: Path) -> None:
    match random.randrange(5):
        case 0:
            DeltaTable(lines).update(
                predicate=f"order_id < {random.randrange(9)}", updates={"amount": "amount + 1"}
            )
        case 1:
            DeltaTable(lines).delete(f"order_id = {random.randrange(9)}")
        case 2:
            DeltaTable(lines).optimize.compact()
        case 3:
            DeltaTable(orders).update(
                predicate=f"id = {random.randrange(9)}", updates={"region": "'r9'"}
            )
        case _:
            write_deltalake(lines, drawn(random), mode="append")


TABLES = """
CREATE TABLE lines (k INT, v STRING, p STRING);
CREATE TABLE orders (k INT, v STRING, p STRING);
"""
"""With its columns declared, a plan stays the same when its tables get other columns."""
VIEWS = """
CREATE VIEW matches AS
SELECT l.k, l.v, o.p FROM lines AS l JOIN orders AS o ON l.k = o.k;

CREATE VIEW totals AS
SELECT p, count(*) AS n, count(v) AS texts, sum(k) AS keys FROM matches GROUP BY p;
"""
NAMES = ("matches", "totals")
MOMENTS = ("start", "first", "version", "write")
"""When a run is killed: before it has read, in its first batches, after a version, after a write to an output."""


class KilledRun:
    """The command over two Delta tables that change, with four Delta tables as outputs.

    Args:
        folder: for everything.
        rng: decides what happens to the tables, and when the command is killed.
    """

    def __init__(self, folder: Path, rng: Random) -> None:
        self.rng, self.checkpoint = rng, folder / "checkpoint"
        self.tables = {name: DeltaChanges(folder / name, rng) for name in ("lines", "orders")}
        self.tables["lines"].create(FEED, rng.choice([None, "p"]))
        self.tables["orders"].create({}, rng.choice([None, "p"]))
        for name, table in self.tables.items():
            table.keep = lambda name=name: self.needed(name)  # type: ignore[misc]
        self.outputs = [
            (name, DeltaLake(folder / f"{name}-{mode}", mode))
            for name in NAMES
            for mode in ("view", "changes")
        ]
        sql = folder / "views.sql"
        sql.write_text(TABLES + VIEWS)
        words = ["--sql", str(sql), "--no-progress", "--master", "local[2]"]
        words += ["--keep-versions", "1000"]
        words += [f"--source={name}=delta:{table.path}" for name, table in self.tables.items()]
        words += [f"--output={name}={lake.output}" for name, lake in self.outputs]
        self.command = Command(tuple(words), self.checkpoint, folder / "log")
        self._runs = False

    def positions(self, version: int) -> dict[str, int]:
        """Return the version of each table that a version of the views has read, if it has read one."""
        connected = Checkpoint(self.checkpoint).snapshot(version).positions.connected
        read = {key: json.loads(position)["version"] for key, position in connected.items()}
        keys = {name: f"delta:{table.path}" for name, table in self.tables.items()}
        return {name: read[key] for name, key in keys.items() if key in read}

    def needed(self, name: str) -> list[int]:
        """Return the versions of a table that vacuum must keep.

        They are all that were read. A run at work may need any later one; a run that is killed needs
        only the newest.
        """
        last = newest(self.checkpoint)
        positions = [self.positions(version) for version in range(last + 1)]
        read = [position[name] for position in positions if name in position]
        later = range(read[-1] if read else 0, DeltaTable(self.tables[name].path).version() + 1)
        return sorted({*read, *(later if self._runs else ())})

    def expected(self, version: int) -> dict[str, Bag]:
        """Return the rows of the views, computed by DuckDB from the tables at the positions of a version."""
        with duckdb.connect() as connection:
            positions = self.positions(version)
            for name, table in self.tables.items():
                read = table.history[positions[name]] if name in positions else Counter()
                connection.register(name, table_of(read))
            connection.execute(VIEWS)
            return {name: Counter(connection.sql(f"FROM {name}").fetchall()) for name in NAMES}

    def change(self, count: int) -> None:
        """Do random operations on the tables."""
        for _ in range(count):
            self.rng.choice(list(self.tables.values())).step()

    def has_all(self) -> bool:
        """Whether the newest version has read both tables, and the outputs have that version."""
        last = newest(self.checkpoint)
        if last < 0:
            return False
        new = {name: DeltaTable(table.path).version() for name, table in self.tables.items()}
        return self.positions(last) == new and all(
            self.written(name, lake)[-1:] == self.changed(name)[-1:] for name, lake in self.outputs
        )

    def changed(self, name: str) -> list[int]:
        """Return the versions that change a view."""
        changes = sa.open_view(self.checkpoint, name).changes()
        return sorted(set(changes.column("__version").to_pylist()))

    def written(self, name: str, lake: DeltaLake) -> list[int]:
        """Return the versions of a view in the log of an output.

        Version 0 has no rows. An output writes it only if it delivers it before there are others.
        """
        changed = self.changed(name)
        return [v for v, _ in lake.transactions() if v or 0 in changed]

    def work(self, operations: int, moment: str) -> None:
        """Change the tables while the command runs, and kill it."""
        before = self.rng.randrange(operations + 1)
        self.change(before)
        self._runs = True
        with self.command.running("--every", "0") as process:
            if moment in ("version", "write"):
                self.command.wait(process, self.has_all)
                self.check()
            for _ in range(operations - before):
                self.change(1)
                if self.rng.random() < 0.3 and moment in ("version", "write"):
                    self.command.wait(process, self.has_all)
            self.wait_for(moment, process)
            assert process.poll() is None, self.command.log.read_text()[-3000:]
        self._runs = False
        self.check_views()

    def wait_for(self, moment: str, process: subprocess.Popen[bytes]) -> None:
        """Wait until the moment of a kill."""
        last, logs = newest(self.checkpoint), self.logs()
        if moment == "start":
            time.sleep(self.rng.uniform(0, 15))
            return
        self.tables["lines"].append()
        self.tables["lines"].note()
        if moment == "write":
            self.command.wait(process, lambda: self.logs() != logs or self.has_all())
        else:
            self.command.wait(process, lambda: newest(self.checkpoint) > last)
        time.sleep(self.rng.choice([0, self.rng.uniform(0, 0.02), self.rng.uniform(0, 0.5)]))

    def logs(self) -> int:
        """Return how many versions the outputs have together."""
        return sum(1 for _, lake in self.outputs for _ in lake.path.glob("_delta_log/*.json"))

    def check_views(self) -> None:
        """The newest version is right, whether the outputs have it or not."""
        last = newest(self.checkpoint)
        if last >= 0:
            for name, rows in self.expected(last).items():
                assert bag(sa.open_view(self.checkpoint, name).to_arrow(last)) == rows, (name, last)

    def check(self) -> None:
        """The outputs have the newest version."""
        last = self.expected(newest(self.checkpoint))
        for name, lake in self.outputs:
            assert lake.rows() == last[name], lake
            assert self.written(name, lake) == self.changed(name), lake

    def check_all(self) -> None:
        """Every version is right in the views and the outputs, and each output has it once."""
        self.check()
        versions = list(range(newest(self.checkpoint) + 1))
        expected = [self.expected(version) for version in versions]
        for name in NAMES:
            changes = sa.open_view(self.checkpoint, name).changes()
            sums = running_sums(changes, versions)
            assert sums == {version: expected[version][name] for version in versions}
        for name, lake in self.outputs:
            assert lake.commits() == lake.transactions()
            for version, commit in lake.commits():
                assert lake.rows(commit) == expected[version][name], (lake, version)


def table_of(rows: Rows) -> pa.Table:
    """Return rows of a table of a lake."""
    kinds = (pa.int32(), pa.string(), pa.string())
    schema = pa.schema(list(zip(LAKE_COLUMNS, kinds, strict=True)))
    listed = [dict(zip(LAKE_COLUMNS, row, strict=True)) for row in rows.elements()]
    return pa.Table.from_pylist(listed, schema)


def kill_and_resume(folder: Path, rng: Random, moments: Iterable[tuple[int, str]]) -> None:
    """Operations on the tables and kills, then a run to the end and the check of everything."""
    run = KilledRun(folder, rng)
    for operations, moment in moments:
        run.work(operations, moment)
    run.command.finish()
    assert run.has_all()
    run.check_all()


def test_two_kills_between_delta_tables(tmp_path: Path) -> None:
    """Six operations. Every version of two views, and of four outputs, is that of versions of the tables."""
    kill_and_resume(tmp_path, Random(0), [(3, "write"), (3, "version")])


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(0, 5))
def test_many_kills_between_delta_tables(tmp_path: Path, seed: int) -> None:
    """Forty operations, and kills at any moment."""
    rng = Random(seed)
    counts: list[int] = []
    while sum(counts) < 40:
        counts.append(min(rng.randrange(1, 6), 40 - sum(counts)))
    kill_and_resume(tmp_path, rng, [(count, rng.choice(MOMENTS)) for count in counts])
