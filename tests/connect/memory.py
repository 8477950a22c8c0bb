"""A connector for tests: tables in memory, with a log of transactions over all tables of a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from substrait_agg.connect.protocol import WEIGHT, ConnectedTable, TableSource

DATABASES: dict[str, Database] = {}


@dataclass
class Database:
    """Tables, and transactions: per table rows with their weights.

    Attributes:
        tables: what is known of each table.
        log: the transactions.
        read: the positions between which rows were read.
        kept_from: transactions before it have been given up.
        lost: whether a read fails.
    """

    tables: dict[str, ConnectedTable]
    log: list[dict[str, list[tuple[Any, ...]]]] = field(default_factory=list)
    read: list[tuple[int, int]] = field(default_factory=list)
    kept_from: int = 0
    is_gone: bool = False

    def commit(self, **rows: list[tuple[Any, ...]]) -> None:
        """Add a transaction; the last value of a row is its weight."""
        self.log.append(rows)


def group(source: TableSource) -> str:
    """Return the name of the database."""
    return source.location.partition("/")[0]


def connect(tables: Mapping[str, TableSource]) -> Memory:
    """Return a connector of the database of the tables."""
    (name,) = {group(source) for source in tables.values()}
    return Memory(DATABASES[name], {t: s.location.partition("/")[2] for t, s in tables.items()})


class Memory:
    """A connector; see `substrait_agg.connect.protocol.Connector`."""

    def __init__(self, database: Database, names: Mapping[str, str]) -> None:
        self._database, self._names = database, names
        self._columns: Mapping[str, Sequence[str]] = {}

    def table(self, name: str) -> ConnectedTable:
        return self._database.tables[self._names[name]]

    def begin(
        self, columns: Mapping[str, Sequence[str]], checkpoint: str, position: str | None
    ) -> None:
        assert checkpoint
        self._columns = columns
        assert int(position or 0) >= self._database.kept_from

    def latest(self, after: str | None, most_bytes: float) -> str | None:
        end = len(self._database.log)
        if most_bytes < float("inf"):
            end = min(end, int(after or 0) + 1)
        return None if end == int(after or 0) else str(end)

    def read(self, after: str | None, until: str) -> Mapping[str, pa.Table]:
        if self._database.is_gone:
            raise ConnectionError("the database is gone")
        self._database.read.append((int(after or 0), int(until)))
        found = {}
        for name, columns in self._columns.items():
            table = self._database.tables[self._names[name]]
            log = self._database.log[int(after or 0) : int(until)]
            rows = [row for part in log for row in part.get(self._names[name], [])]
            schema = table.schema.append(pa.field(WEIGHT, pa.int64()))
            arrays = zip(*rows, strict=True) if rows else ([] for _ in schema)
            whole = [pa.array(list(v), f.type) for v, f in zip(arrays, schema, strict=True)]
            found[name] = pa.table(whole, schema=schema).select([*columns, WEIGHT])
        return found

    def committed(self, position: str) -> None:
        self._database.kept_from = max(self._database.kept_from, int(position))

    def lag(self) -> Mapping[str, float]:
        return {}

    def close(self) -> None:
        self._columns = {}
