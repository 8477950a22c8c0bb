"""Small tables that change batch by batch, and plans over them that are checked at every version."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from tests.e2e.files import write_in_order
from tests.e2e.plans import Builder, Json, aggregate, column, read
from tests.e2e.random_rows import arrow_type
from tests.e2e.rows import Bag, bag, net, plain
from tests.e2e.running import check_versions, maintain
from tests.operator.measures_reference import measured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Change = tuple[tuple[Any, ...], int]
"""A row and its weight."""

Measure = tuple[str, int | None, str]
"""A kind, the column of the argument (None: rows are counted), and the type of the result."""

OPERATIONS = {1: "insert", -1: "delete"}


@dataclass(frozen=True)
class Feed:
    """A table and its changes.

    Attributes:
        table: its name in the plan.
        columns: name -> type as in `plans.type_`.
        how: ``one`` (weights are all 1), ``op`` or ``weight``.
        batches: per file its changes.
    """

    table: str
    columns: dict[str, str]
    how: str
    batches: Sequence[Sequence[Change]]

    def tables(self) -> list[pa.Table]:
        """The content of the files."""
        return [self._table(batch) for batch in self.batches]

    def _table(self, batch: Sequence[Change]) -> pa.Table:
        cells = {
            name: pa.array([row[i] for row, _ in batch], arrow_type(type_))
            for i, (name, type_) in enumerate(self.columns.items())
        }
        weights = [weight for _, weight in batch]
        if self.how == "op":
            cells["change"] = pa.array([OPERATIONS[w] for w in weights], pa.string())
        if self.how == "weight":
            cells["change"] = pa.array(weights, pa.int64())
        return pa.table(cells)

    def write(self, folder: Path) -> str:
        """Write the files; the SPEC that reads them one per batch."""
        write_in_order(folder / self.table, self.tables())
        change = "" if self.how == "one" else f"&{self.how}=change"
        return f"parquet:{folder / self.table}?batch-files=1{change}"

    def after(self, version: int) -> Bag:
        """Net weights of all rows at a version, zeros left out."""
        total = net(self.batches[:version])
        return Counter({row: weight for row, weight in total.items() if weight})


@dataclass(frozen=True)
class Grouping:
    """An aggregate over a table t, as a plan and as a model.

    Attributes:
        columns: the columns of the table.
        keys: ordinals of columns.
        measures: measures of the columns.
        sets: ordinals of the keys of each grouping set; several add the number of the set.
    """

    columns: dict[str, str]
    keys: tuple[int, ...]
    measures: tuple[Measure, ...]
    sets: tuple[tuple[int, ...], ...] = ()

    @property
    def width(self) -> int:
        """How many columns it has."""
        return len(self.keys) + len(self.measures) + (len(self.sets) > 1)

    def relation(self, builder: Builder, source: Json | None = None) -> Json:
        """The aggregate over a source, which is the table if it is not given."""
        types = list(self.columns.values())
        measures = [
            builder.measure(kind, None if at is None else (column(at), types[at]), output=output)
            for kind, at, output in self.measures
        ]
        found = source or read("t", self.columns)
        made: Json = aggregate(found, [column(k) for k in self.keys], measures)
        if len(self.sets) > 1:
            groupings = [{"expressionReferences": list(s)} for s in self.sets]
            made["aggregate"]["groupings"] = groupings
        return made

    def plan(self) -> str:
        """The plan as JSON."""
        builder = Builder()
        return builder.plan(self.relation(builder), *(f"c{i}" for i in range(self.width)))

    def wanted(self, rows: Bag) -> Bag:
        """The view over net rows."""
        every = tuple(range(len(self.keys)))
        view: Bag = Counter()
        for index, chosen in enumerate(self.sets or (every,)):
            groups: dict[tuple[Any, ...], Bag] = {} if chosen else {(None,) * len(every): Counter()}
            for row, weight in rows.items():
                key = tuple(plain(row[k]) if i in chosen else None for i, k in enumerate(self.keys))
                groups.setdefault(key, Counter())[row] += weight
            number = (index,) if len(self.sets) > 1 else ()
            for key, members in groups.items():
                if not chosen or sum(members.values()) > 0:
                    view[(*key, *self._values(members), *number)] += 1
        return view

    def _values(self, rows: Bag) -> Iterator[Any]:
        for kind, at, output in self.measures:
            pairs = [(1 if at is None else row[at], weight) for row, weight in rows.items()]
            yield measured(kind, pairs, output)


def check(
    spark: SparkSession | None,
    folder: Path,
    plan: str,
    feeds: Sequence[Feed],
    wanted: Callable[..., Bag],
    bucket: str = "",
    **options: Any,
) -> Path:
    """Run the plan, without `spark` on the local executor; every version must be `wanted` of the tables' net rows then. Returns the checkpoint, or where it would be.

    With a `bucket`, the URL of one, the checkpoint is in there.
    """
    sources = {feed.table: feed.write(folder) for feed in feeds}
    path = folder / "checkpoint"
    checkpoint = f"{bucket}/checkpoint" if bucket else path
    views = maintain(spark, plan, sources, checkpoint, **options)
    last = max(len(feed.batches) for feed in feeds)
    every = [wanted(*(feed.after(v) for feed in feeds)) for v in range(last + 1)]
    check_versions(checkpoint, views, every)
    return path


def churn(
    rng: random.Random, make: Callable[[], tuple[Any, ...]], batches: int, size: int
) -> list[list[Change]]:
    """Batches that insert and delete; the last but one deletes all rows, and some rows are
    retracted a batch too early.
    """
    made: list[list[Change]] = []
    alive: list[tuple[Any, ...]] = []
    early: list[tuple[Any, ...]] = []
    for number in range(batches):
        if number == batches - 2:
            made.append([(row, -1) for row in alive] + [(row, 1) for row in early])
            alive, early = [], []
            continue
        doomed = [alive.pop(rng.randrange(len(alive))) for _ in range(len(alive) // 2)]
        new = [make() for _ in range(size)]
        changes = [*((row, -1) for row in doomed), *((row, 1) for row in [*new, *early])]
        early = [make()] if number < batches - 3 else []
        changes += [(row, -1) for row in early]
        alive += new
        rng.shuffle(changes)
        made.append(changes)
    return made


def duck(query: str, feeds: Sequence[Feed]) -> Callable[..., Bag]:
    """Return the function from the rows of the tables to those of a query."""

    database = duckdb.connect()  # to begin one takes longer than the query

    def wanted(*bags: Bag) -> Bag:
        with database.cursor() as connection:
            for feed, rows in zip(feeds, bags, strict=True):
                assert min(rows.values(), default=1) > 0, "DuckDB has no negative weights"
                each = list(rows.elements())
                cells = {
                    name: pa.array([row[i] for row in each], arrow_type(type_))
                    for i, (name, type_) in enumerate(feed.columns.items())
                }
                connection.register(f"in_{feed.table}", pa.table(cells))
                connection.execute(f"CREATE OR REPLACE TABLE {feed.table} AS FROM in_{feed.table}")
            return bag(connection.sql(query).to_arrow_table())

    return wanted
