"""A stream of small files of insertions and deletions, and what the plan over it must show at every version, by DuckDB.

The plan has two chained aggregates: the lower one adds up, keeps a tree that several measures share and one of its own; the upper one
aggregates its changes.
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
    sum(kinds) as kinds, max(middle) as middle
from (
    select a, b, count(*) as n, sum(x) as total, sum(y) as weight, min(x) as least, max(x) as greatest,
        count(distinct x) as kinds, median(y) as middle
    from t group by a, b
) as lower group by a
"""
SCHEMA = pa.schema(
    [("id", pa.int64()), ("a", pa.string()), ("b", pa.int32()), ("x", pa.int64()), ("y", pa.float64())]
)  # fmt: skip
ROWS = 60
"""Rows that are inserted by a file."""

Row = tuple[Any, ...]


@dataclass
class Stream:
    """Files of changes, one per batch, and what must come out.

    Attributes:
        folder: of the files.
        plan: file of the plan.
        views: per version the rows of the view.
    """

    folder: Path
    plan: Path
    views: list[Bag] = field(default_factory=list)

    @property
    def source(self) -> str:
        """The SPEC of the table."""
        return f"t=parquet:{self.folder}?op=op&batch-files=1"

    @property
    def last(self) -> int:
        """The version after the last file."""
        return len(self.views) - 1

    def changes(self, version: int) -> Bag:
        """What a version must have changed: rows and weights."""
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
    alive: list[Row] = []
    files = []
    stream.views.append(_shown(alive))
    for number in range(batches):
        changes = _changes(rng, alive, number, last=number == batches - 1)
        rng.shuffle(changes)
        rows = _table([row for row, _ in changes])
        files.append(rows.append_column("op", pa.array([op for _, op in changes], pa.string())))
        stream.views.append(_shown(alive))
    write_in_order(stream.folder, files)
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


def _maybe(rng: random.Random, value: Any) -> Any:
    return None if rng.random() < 0.1 else value


def _table(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    return pa.table(
        [pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA
    )


def _plan() -> bytes:
    context = SessionContext()
    empty = pa.RecordBatch.from_pylist([], schema=SCHEMA)
    context.register_record_batches("t", [[empty]])
    return bytes(Serde.serialize_bytes(SQL, context))


def _shown(alive: list[Row]) -> Bag:
    with duckdb.connect() as connection:
        connection.register("t", _table(alive))
        return bag(connection.sql(SQL).to_arrow_table())
