"""A run that reads tables of a database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, sleep

from substrait_agg.connect.postgres.source import connect
from substrait_agg.connect.protocol import TableSource
from tests.connect.driver import Run, Tables
from tests.connect.postgres.database import Database


class Reader(Run):
    """A run that reads columns of tables, by the names of the tables."""

    def __init__(
        self, database: Database, columns: Mapping[str, Sequence[str]], **options: str
    ) -> None:
        given = {"dsn": database.dsn, "publication": "p", **options}
        super().__init__(
            connect, {n: TableSource(n, f"public.{n}", given) for n in columns}, columns
        )
        self.checkpoint = database.name
        self._database = database

    def catch_up(self, until: Callable[[], bool], seconds: float = 60) -> None:
        end = monotonic() + seconds
        while not until():
            assert monotonic() < end, (self.tables, self.position)
            if not self.advance():
                sleep(0.02)

    def expected(self) -> Tables:
        return {
            name: Counter(self._database.run(f"SELECT {', '.join(columns)} FROM {name}"))
            for name, columns in self.columns.items()
        }

    def is_current(self) -> bool:
        return self.tables == self.expected()
