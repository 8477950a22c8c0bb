"""A loop as a run has it: rows and position are kept together, as a commit does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic, sleep
from typing import Any

import pyarrow as pa

from substrait_agg.connect.postgres.source import PostgresSource, connect
from substrait_agg.connect.protocol import WEIGHT, ConnectedTable, TableSource
from tests.connect.postgres.database import Database

Rows = dict[str, Counter[tuple[Any, ...]]]


class Reader:
    """Keeps the rows of tables, as weights or by key."""

    def __init__(
        self, database: Database, tables: Mapping[str, Sequence[str]], **options: str
    ) -> None:
        self.database = database
        self.columns = tables
        self.options = {"dsn": database.dsn, "publication": "p", **options}
        self.position: str | None = None
        self.rows: Rows = {name: Counter() for name in tables}
        self.known: dict[str, ConnectedTable] = {}
        self.source: PostgresSource | None = None

    def open(self) -> PostgresSource:
        sources = {n: TableSource(n, f"public.{n}", self.options) for n in self.columns}
        source = connect(sources)
        try:
            self.known = {name: source.table(name) for name in self.columns}
            source.begin(self.columns, self.database.name, self.position)
        except BaseException:
            source.close()
            raise
        self.source = source
        return source

    def close(self) -> None:
        if self.source is not None:
            self.source.close()
            self.source = None

    def steps(self, most_bytes: float = float("inf")) -> Iterator[str]:
        """One version, divided where a run can be killed; nothing after `idle`."""
        source = self.source or self.open()
        yield "begin"
        until = source.latest(self.position, most_bytes)
        if until is None:
            yield "idle"
            return
        yield "latest"
        tables = source.read(self.position, until)
        yield "read"
        for name, table in tables.items():
            self.apply(name, table)
        self.position = until
        yield "commit"
        source.committed(until)
        yield "committed"

    def step(self, most_bytes: float = float("inf")) -> bool:
        """Make a version if there is something new."""
        return list(self.steps(most_bytes))[-1] == "committed"

    def apply(self, name: str, table: pa.Table) -> None:
        assert table.column_names == [*self.columns[name], WEIGHT]
        keys = [self.columns[name].index(key) for key in self.known[name].keys]
        rows = self.rows[name]
        for *values, weight in zip(*(c.to_pylist() for c in table.columns), strict=True):
            if keys:
                for row in [r for r in rows if all(r[k] == values[k] for k in keys)]:
                    del rows[row]
            if weight > 0 or not keys:
                rows[tuple(values)] += weight
                if rows[tuple(values)] == 0:
                    del rows[tuple(values)]

    def catch_up(self, until: Callable[[], bool], seconds: float = 60) -> None:
        end = monotonic() + seconds
        while not until():
            assert monotonic() < end, (self.rows, self.position)
            if not self.step():
                sleep(0.02)

    def expected(self) -> Rows:
        return {
            name: Counter(self.database.run(f"SELECT {', '.join(columns)} FROM {name}"))
            for name, columns in self.columns.items()
        }

    def is_current(self) -> bool:
        return self.rows == self.expected()
