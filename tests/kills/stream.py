"""A stream of small files of insertions and deletions, and what the plan over it must show at every version, by DuckDB.

The plan has two chained aggregates, and two joins between them: the lower aggregate adds up, keeps a tree that several measures share
and one of its own; its groups are joined with the rows of two more tables, an outer and an inner join; the upper one aggregates the changes
of the joins.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from datafusion import SessionContext
from datafusion.substrait import Serde

from tests.e2e.files import write_in_order
from tests.e2e.rows import Bag, bag

SQL = """
select a, count(*) as groups, sum(n) as n, sum(total) as total, sum(weight) as weight, min(least) as least, max(greatest) as greatest,
    sum(kinds) as kinds, max(middle) as middle, count(label) as labels, max(rate) as rate
from (
    select a, b, count(*) as n, sum(x) as total, sum(y) as weight, min(x) as least, max(x) as greatest,
        count(distinct x) as kinds, median(y) as middle
    from t group by a, b
) as lower left join u on lower.a = u.ua join v on lower.b = v.vb group by a
"""
SCHEMA = pa.schema(
    [("id", pa.int64()), ("a", pa.string()), ("b", pa.int32()), ("x", pa.int64()), ("y", pa.float64())]
)  # fmt: skip
SMALL = {
    "u": pa.schema([("ua", pa.string()), ("label", pa.int64())]),
    "v": pa.schema([("vb", pa.int32()), ("rate", pa.int64())]),
}
"""The tables that are joined: rows of some keys, several or none per key."""
ROWS = 60
"""Rows that are inserted by a file."""

Row = tuple[Any, ...]


@dataclass
class Stream:
    """Files of changes, one per batch, and what must come out.

    Attributes:
        folder: of the files, with one folder per table.
        plan: file of the plan.
        views: per version the rows of the view.
    """

    folder: Path
    plan: Path
    views: list[Bag] = field(default_factory=list)

    @property
    def sources(self) -> list[str]:
        """The SPEC of each table."""
        tables = ("t", *SMALL)
        return [f"{name}=parquet:{self.folder / name}?op=op&batch-files=1" for name in tables]

    @property
    def last(self) -> int:
        """The version after the last file."""
        return len(self.views) - 1

    def changes(self, version: int) -> Bag:
        """The expected changes of a version: rows and weights."""
        before = self.views[version - 1] if version else Counter()
        changed = self.views[version].copy()
        changed.subtract(before)
        return Counter({row: weight for row, weight in changed.items() if weight})


def make_stream(folder: Path, seed: int, batches: int) -> Stream:
    """Write the plan and the files."""
    folder.mkdir(parents=True)
    rng = random.Random(seed)
    stream = Stream(folder / "in", folder / "plan.bin")
    stream.plan.write_bytes(_plan())
    alive: dict[str, list[Row]] = {name: [] for name in ("t", *SMALL)}
    files: dict[str, list[pa.Table]] = {name: [] for name in alive}
    stream.views.append(_shown(alive))
    for number in range(batches):
        changed = {"t": _changes(rng, alive["t"], number, last=number == batches - 1)}
        changed |= {name: _small_changes(rng, name, alive[name]) for name in SMALL}
        for name, changes in changed.items():
            rng.shuffle(changes)
            rows = _table(name, [row for row, _ in changes])
            ops = pa.array([op for _, op in changes], pa.string())
            files[name].append(rows.append_column("op", ops))
        stream.views.append(_shown(alive))
    for name, tables in files.items():
        write_in_order(stream.folder / name, tables)
    return stream


def _changes(
    rng: random.Random, alive: list[Row], number: int, *, last: bool
) -> list[tuple[Row, str]]:
    """Some rows go, others come; now and then nearly all go, so that groups end and ends of trees die."""
    share = 0.95 if number % 7 == 6 and not last else 0.3
    rng.shuffle(alive)
    gone = [alive.pop() for _ in range(int(len(alive) * share))]
    new = [
        (number * ROWS + i, rng.choice("abcdefghijkl"), rng.randrange(4), _maybe(rng, rng.randrange(-50, 50)), _maybe(rng, rng.randrange(-80, 80) / 4))
        for i in range(ROWS)
    ]  # fmt: skip
    alive += new
    return [*((row, "delete") for row in gone), *((row, "insert") for row in new)]


def _small_changes(rng: random.Random, name: str, alive: list[Row]) -> list[tuple[Row, str]]:
    """Some rows of a joined table go, others come."""
    rng.shuffle(alive)
    gone = [alive.pop() for _ in range(len(alive) // 3)]
    keys: list[Any] = list("abcdefghijkl") if name == "u" else [0, 1, 2, 3]
    new = [(_maybe(rng, rng.choice(keys)), rng.randrange(1000)) for _ in range(3)]
    alive += new
    return [*((row, "delete") for row in gone), *((row, "insert") for row in new)]


def _maybe(rng: random.Random, value: Any) -> Any:
    return None if rng.random() < 0.1 else value


def _schema(name: str) -> pa.Schema:
    return SMALL.get(name, SCHEMA)


def _table(name: str, rows: list[Row]) -> pa.Table:
    schema = _schema(name)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)], schema=schema
    )


def _plan() -> bytes:
    context = SessionContext()
    for name in ("t", *SMALL):
        empty = pa.RecordBatch.from_pylist([], schema=_schema(name))
        context.register_record_batches(name, [[empty]])
    return bytes(Serde.serialize_bytes(SQL, context))


def _shown(alive: dict[str, list[Row]]) -> Bag:
    with duckdb.connect() as connection:
        for name, rows in alive.items():
            connection.register(name, _table(name, rows))
        return bag(connection.sql(SQL).to_arrow_table())
