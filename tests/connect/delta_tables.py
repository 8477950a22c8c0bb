"""Delta tables that tests change at random, and runs that read them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
from deltalake import DeltaTable, Field, QueryBuilder, write_deltalake
from deltalake.schema import PrimitiveType

from substrait_agg.connect.delta.source import connect
from substrait_agg.connect.protocol import TableSource
from tests.connect.driver import LAKE_COLUMNS, LakeChanges, Rows, Run, counted, random_rows

FEED = {"delta.enableChangeDataFeed": "true"}


def content(path: Path, version: int | None = None, columns: Sequence[str] = LAKE_COLUMNS) -> Rows:
    """Return the rows of a table as the engine of deltalake reads them."""
    table = DeltaTable(path, version=version)
    names = ", ".join(f'"{name}"' for name in columns)
    reader = QueryBuilder().register("t", table).execute(f"SELECT {names} FROM t")
    return counted(pa.table(reader.read_all()), columns)


class DeltaChanges(LakeChanges):
    """Random operations on one table."""

    operations = (
        "append", "append", "update", "delete", "merge", "merge", "overwrite", "part", "optimize",
        "order", "vacuum", "column", "restore", "delete_all", "checkpoint", "empty", "property",
    )  # fmt: skip

    def __init__(self, path: Path, rng: random.Random) -> None:
        super().__init__(rng)
        self.path = path

    def create(self, configuration: Mapping[str, str], partition: str | None = None) -> None:
        """Create the table with some rows."""
        write_deltalake(
            self.path,
            random_rows(self._rng, 20),
            partition_by=partition,
            configuration=configuration,
        )
        self.note()

    def note(self) -> None:
        """Note the rows of new versions, as long as their files are there."""
        for version in range(len(self.history), self._table().version() + 1):
            self.history[version] = content(self.path, version)

    def content(self) -> Rows:
        """Return the rows of the table."""
        return content(self.path)

    def _table(self) -> DeltaTable:
        return DeltaTable(self.path)

    def append(self) -> None:
        """Append some rows; later columns are null."""
        rows = random_rows(self._rng, self._rng.randrange(1, 6))
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
        rows = random_rows(self._rng, 4).set_column(0, "k", pa.array(keys, pa.int32()))
        columns = {name: f"s.{name}" for name in LAKE_COLUMNS}
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
        write_deltalake(self.path, random_rows(self._rng, 9), mode="overwrite", schema_mode="merge")

    def part(self) -> None:
        """Replace the rows of one key."""
        key = self._rng.randrange(30)
        rows = random_rows(self._rng, 2).set_column(0, "k", pa.array([key] * 2, pa.int32()))
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

    def empty(self) -> None:
        """Commit a version that changes no rows."""
        write_deltalake(self.path, random_rows(self._rng, 0), mode="append", schema_mode="merge")

    def property(self) -> None:
        """Commit a version that changes only the properties of the table."""
        self._table().alter.set_table_properties({"owner": str(self._rng.random())}, False)

    def checkpoint(self) -> None:
        """Write a checkpoint of the log."""
        self._table().create_checkpoint()


def delta_run(
    path: Path,
    options: Mapping[str, str] = MappingProxyType({}),
    columns: Sequence[str] = LAKE_COLUMNS,
) -> Run:
    """Return a run that reads a table."""
    return Run(connect, {"t": TableSource("t", str(path), options)}, {"t": columns})
