"""A view that changes at random, and the tables of a lake that outputs keep of it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.table import Table

from substrait_agg.changes import Delivery
from substrait_agg.changes.records import Record
from substrait_agg.commit.documents.change_metadata import ChangesOrigin
from substrait_agg.errors import RunFailed
from tests.connect.iceberg_tables import catalog, options
from tests.e2e.rows import Bag

Row = tuple[int | None, str | None]
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
ENDS = [("__version", pa.int64()), ("__weight", pa.int64())]
CHANGES = pa.schema([*SCHEMA, *ENDS])
NAME = "shop.totals"


@dataclass
class ChangingView:
    """A checkpoint whose versions change rows at random.

    Attributes:
        keys: the columns that are the key, by their place; none if the rows have no key.
        states: rows of each version.
        run: tells the versions of one history from those of another one.
        repeats: whether a row can be there several times although all columns are its key.
    """

    rng: random.Random
    keys: tuple[int, ...] = (0,)
    states: list[Counter[Row]] = field(default_factory=list)
    run: str = "a"
    repeats: bool = False

    def commit(self, *, empty: bool = False) -> None:
        """Commit a version."""
        rows = Counter(self.states[-1]) if self.states else Counter[Row]()
        for _ in range(0 if empty else self.rng.randrange(4)):
            row = self.rng.choice([None, *range(6)]), self.rng.choice(["a", "it's", None])
            if self.keys and not self.repeats:
                rows = Counter({r: n for r, n in rows.items() if self._key(r) != self._key(row)})
            if self.rng.random() < 0.7:
                rows[row] += 1
            elif rows:
                rows[self.rng.choice(sorted(rows, key=str))] -= 1
        self.states.append(Counter({row: n for row, n in rows.items() if n > 0}))

    def _key(self, row: Row) -> tuple[object, ...]:
        return tuple(row[place] for place in self.keys)

    @property
    def version(self) -> int:
        return len(self.states) - 1

    def versions(self) -> list[int]:
        return list(range(len(self.states)))

    def changes(self, since: int | None = None, until: int | None = None) -> Any:
        first = 0 if since is None else since + 1
        parts = [self._changes(v) for v in range(first, (until or 0) + 1)]
        committed = {v: f"{self.run}{v}" for v in self.versions()}
        origin = ChangesOrigin(self.keys or None, "plan", committed, self.repeats)
        rows = pa.concat_tables([CHANGES.empty_table(), *parts])
        return rows.replace_schema_metadata(origin.metadata())

    def _changes(self, version: int) -> pa.Table:
        old = self.states[version - 1] if version else Counter[Row]()
        new = self.states[version]
        rows = [(*row, version, -n) for row, n in (old - new).items()]
        rows += [(*row, version, n) for row, n in (new - old).items()]
        return pa.Table.from_pylist(
            [dict(zip(CHANGES.names, r, strict=True)) for r in rows], CHANGES
        )

    def late(self, since: int | None = None, until: int | None = None) -> Any:
        return {}

    def evolutions(self) -> list[Any]:
        return []

    def retractions(self, version: int) -> Any:
        raise NotImplementedError

    def to_arrow(self, version: int | None = None) -> Any:
        raise NotImplementedError


@dataclass
class DeltaLake:
    """A Delta table; a commit is a version of it, and version 0 has no rows."""

    folder: Path
    mode: str = "changes"
    size: ClassVar[int] = 25

    @property
    def path(self) -> Path:
        return self.folder / "table"

    @property
    def output(self) -> str:
        return f"delta={self.path}?mode={self.mode}"

    def rows(self, commit: int | None = None) -> Bag:
        """Return the rows of the table, or the sum of the changes in it."""
        scan = DeltaTable(self.path, version=commit).scan()
        return _sums(pa.table(pa.RecordBatchReader.from_stream(scan)))

    def commits(self) -> list[tuple[int, int]]:
        """Return the version of each commit of the output, and the commit."""
        entries = reversed(DeltaTable(self.path).history())
        label = "substrait-agg.version"
        return [(int(entry[label]), entry["version"]) for entry in entries if label in entry]

    def transactions(self) -> list[tuple[int, int]]:
        """Return the version that the application gives each transaction, and its commit."""
        found = []
        for path in sorted((self.path / "_delta_log").glob("*.json")):
            actions = [json.loads(line) for line in path.read_text().splitlines()]
            found += [(a["txn"]["version"], int(path.stem)) for a in actions if "txn" in a]
        return found


@dataclass
class IcebergLake:
    """An Iceberg table in a catalogue of its own; a commit is a snapshot."""

    folder: Path
    size: ClassVar[int] = 15

    @property
    def output(self) -> str:
        catalog(self.folder)
        return f"iceberg={NAME}?" + "&".join(f"{k}={v}" for k, v in options(self.folder).items())

    @property
    def table(self) -> Table:
        return catalog(self.folder).load_table(NAME)

    def rows(self, commit: int | None = None) -> Bag:
        """Return the sum of the changes in the table."""
        return _sums(self.table.scan(snapshot_id=commit).to_arrow())

    def commits(self, view: str = "") -> list[tuple[int, int]]:
        """Return the version of each commit of the output, and the commit."""
        found = []
        for snapshot in self.table.snapshots():
            assert snapshot.summary
            labels = snapshot.summary.additional_properties
            assert labels["substrait-agg.checkpoint"]
            assert labels["substrait-agg.view"] == view
            found.append((int(labels["substrait-agg.version"]), snapshot.snapshot_id))
        return found


Lake = DeltaLake | IcebergLake


def _sums(table: pa.Table) -> Bag:
    names = [name for name in table.column_names if name not in {name for name, _ in ENDS}]
    sums: Bag = Counter()
    for row in table.to_pylist():
        sums[tuple(row[name] for name in names)] += row.get("__weight", 1)
    return Counter({row: n for row, n in sums.items() if n})


def begin(lake: Lake, view: str = "") -> Delivery:
    return Delivery([lake.output], checkpoint=lake.folder / "checkpoint", view=view)


def deliver(lake: Lake, view: ChangingView) -> None:
    """Run once: deliver all versions that the output does not have."""
    delivery = begin(lake)
    delivery.deliver(view)
    delivery.close()


@contextmanager
def killed_before_the_record() -> Iterator[None]:
    """Fail where the record of a delivered version would be written."""

    def fail(_self: Record, version: int | None, size: int = 0) -> None:
        raise KeyboardInterrupt

    with patch.object(Record, "write", fail), pytest.raises(KeyboardInterrupt):
        yield


@contextmanager
def before_a_write(delivery: Delivery, first: Callable[[], object], code: str) -> Iterator[None]:
    """Do something after a run has read the table and before it writes; its write fails with a code."""
    sink: Any = delivery.cursors[0].sink
    write = sink._write

    def write_second(*arguments: Any) -> None:
        first()
        write(*arguments)

    with patch.object(sink, "_write", write_second), pytest.raises(RunFailed) as refused:
        yield
    assert refused.value.code == code
