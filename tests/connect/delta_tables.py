"""Delta tables that tests change at random, and a run that plays the loop of versions."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, Field, QueryBuilder, write_deltalake
from deltalake.schema import PrimitiveType

from substrait_agg.connect.delta.source import connect
from substrait_agg.connect.protocol import WEIGHT, Connector, TableSource

COLUMNS = ("k", "v", "p")
FEED = {"delta.enableChangeDataFeed": "true"}

Rows = Counter[tuple[object, ...]]


def rows_of(rng: random.Random, count: int) -> pa.Table:
    """Return some rows; a few are equal."""
    keys = [rng.randrange(30) for _ in range(count)]
    texts = [rng.choice(["a", "ä b", None, "x" * 40]) for _ in keys]
    places = [rng.choice(["north", "süd/1", "a=b c", None]) for _ in keys]
    return pa.table({"k": pa.array(keys, pa.int32()), "v": pa.array(texts), "p": pa.array(places)})


def content(path: Path, version: int | None = None, columns: Sequence[str] = COLUMNS) -> Rows:
    """Return the rows of a table as the engine of deltalake reads them."""
    table = DeltaTable(path, version=version)
    names = ", ".join(f'"{name}"' for name in columns)
    reader = QueryBuilder().register("t", table).execute(f"SELECT {names} FROM t")
    return counted(pa.table(reader.read_all()), columns)


def counted(rows: pa.Table, columns: Sequence[str] = COLUMNS) -> Rows:
    """Return rows with how often they are there."""
    values = [rows.column(name).to_pylist() for name in columns]
    weights = rows.column(WEIGHT).to_pylist() if WEIGHT in rows.column_names else [1] * len(rows)
    sums: Rows = Counter()
    for row, weight in zip(zip(*values, strict=True), weights, strict=True):
        sums[row] += weight
    return Counter({row: weight for row, weight in sums.items() if weight})


class Changes:
    """Random operations on one table."""

    def __init__(self, path: Path, rng: random.Random) -> None:
        self.path, self._rng = path, rng
        self._added = 0
        self.history: dict[int, Rows] = {}
        self.keep: Callable[[], list[int]] = list

    def create(self, configuration: Mapping[str, str], partition: str | None = None) -> None:
        """Create the table with some rows."""
        write_deltalake(
            self.path, rows_of(self._rng, 20), partition_by=partition, configuration=configuration
        )
        self._note()

    def step(self) -> str:
        """Do one operation and return its name."""
        name = self._rng.choice(
            ["append", "append", "update", "delete", "merge", "merge", "overwrite", "part",
             "optimize", "order", "vacuum", "column", "restore", "delete_all", "checkpoint"]
        )  # fmt: skip
        getattr(self, name)()
        self._note()
        return name

    def _note(self) -> None:
        """Note the rows of new versions, as long as their files are there."""
        for version in range(len(self.history), self._table().version() + 1):
            self.history[version] = content(self.path, version)

    def _table(self) -> DeltaTable:
        return DeltaTable(self.path)

    def append(self) -> None:
        """Append some rows; later columns are null."""
        rows = rows_of(self._rng, self._rng.randrange(1, 6))
        write_deltalake(self.path, rows, mode="append", schema_mode="merge")

    def update(self) -> None:
        """Update the rows of a few keys."""
        key = self._rng.randrange(30)
        self._table().update({"v": "'u'"}, predicate=f"k >= {key} AND k < {key + 4}")

    def delete(self) -> None:
        """Delete the rows of a key."""
        self._table().delete(f"k = {self._rng.randrange(30)}")

    def delete_all(self) -> None:
        """Delete all rows, now and then."""
        if self._rng.random() < 0.3:
            self._table().delete()

    def merge(self) -> None:
        """Update, insert and delete in one version."""
        keys = self._rng.sample(range(40), 4)
        rows = rows_of(self._rng, 4).set_column(0, "k", pa.array(keys, pa.int32()))
        columns = {name: f"s.{name}" for name in COLUMNS}
        (
            self._table()
            .merge(rows, "t.k = s.k", source_alias="s", target_alias="t")
            .when_matched_delete("s.v = 'a'")
            .when_matched_update(columns)
            .when_not_matched_insert(columns)
            .execute()
        )

    def overwrite(self) -> None:
        """Replace all rows."""
        write_deltalake(self.path, rows_of(self._rng, 9), mode="overwrite", schema_mode="merge")

    def part(self) -> None:
        """Replace the rows of one key."""
        key = self._rng.randrange(30)
        rows = rows_of(self._rng, 2).set_column(0, "k", pa.array([key] * 2, pa.int32()))
        write_deltalake(
            self.path, rows, mode="overwrite", predicate=f"k = {key}", schema_mode="merge"
        )

    def optimize(self) -> None:
        """Move rows to fewer files."""
        self._table().optimize.compact()

    def order(self) -> None:
        """Move rows to files in another order."""
        self._table().optimize.z_order(["k"])

    def vacuum(self) -> None:
        """Delete all files that neither the newest version nor one to keep needs."""
        self._table().vacuum(
            0, dry_run=False, enforce_retention_duration=False, keep_versions=self.keep()
        )

    def column(self) -> None:
        """Add a column that nobody reads."""
        self._added += 1
        self._table().alter.add_columns([Field(f"extra_{self._added}", PrimitiveType("long"))])

    def restore(self) -> None:
        """Go back to an earlier version, as a new one."""
        versions = [version for version in self.keep() if version < self._table().version()]
        if versions:
            self._table().restore(versions[-1])

    def checkpoint(self) -> None:
        """Write a checkpoint of the log."""
        self._table().create_checkpoint()


@dataclass
class Run:
    """A checkpoint with the rows of a source, and the position that belongs to them.

    Attributes:
        source: what follows ``delta:``, and the options.
        states: the positions committed so far, each with its rows.
    """

    path: Path
    options: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = COLUMNS
    states: list[tuple[str | None, Rows]] = field(default_factory=lambda: [(None, Counter())])
    connector: Connector | None = None

    @property
    def position(self) -> str | None:
        """Return the position of the newest version."""
        return self.states[-1][0]

    @property
    def rows(self) -> Rows:
        """Return the rows of the newest version."""
        return self.states[-1][1]

    @property
    def versions(self) -> list[int]:
        """Return the versions of the table that were committed."""
        return [json.loads(position)["version"] for position, _ in self.states if position]

    def open(self) -> Connector:
        """Return the connector, which goes on from the newest version."""
        if self.connector is None:
            self.connector = connect({"t": TableSource("t", str(self.path), self.options)})
            self.connector.begin({"t": self.columns}, "checkpoint", self.position)
        return self.connector

    def restart(self, states: int | None = None) -> None:
        """Forget the connector, and all but some first states."""
        self.connector = None
        self.states = self.states[: (states or len(self.states))]

    def advance(self, most_bytes: float = inf, *, commit: bool = True) -> bool:
        """Read one batch, and return whether there was one."""
        connector = self.open()
        until = connector.latest(self.position, most_bytes)
        if until is None:
            return False
        read = connector.read(self.position, until)
        rows = Counter(self.rows)
        for row, weight in counted(read["t"], self.columns).items() if "t" in read else ():
            rows[row] += weight
        if commit:
            self.states.append((until, Counter({row: n for row, n in rows.items() if n})))
            connector.committed(until)
        return True

    def drain(self, most_bytes: float = inf) -> None:
        """Read until there is nothing new."""
        while self.advance(most_bytes):
            pass
