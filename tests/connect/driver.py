"""A run as the loop has it: it keeps rows and position together, as a commit does, and can be killed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from substrait_agg.connect.protocol import WEIGHT, ConnectedTable, Connector, TableSource
from substrait_agg.errors import InputRefused

Rows = Counter[tuple[Any, ...]]
Tables = dict[str, Rows]


class Run:
    """A checkpoint with the rows of a source, and the position that belongs to them.

    Args:
        connect: opens the connector.
        sources: the tables by their names in the plan.
        columns: those to read of each table; None for all.

    Attributes:
        states: the positions committed so far, each with the rows of all tables.
        known: what the connector says of each table.
    """

    checkpoint = "checkpoint"

    def __init__(
        self,
        connect: Callable[[Mapping[str, TableSource]], Connector],
        sources: Mapping[str, TableSource],
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._connect, self._sources, self.columns = connect, sources, columns or {}
        self.states: list[tuple[str | None, Tables]] = [(None, {n: Counter() for n in sources})]
        self.known: dict[str, ConnectedTable] = {}
        self.connector: Any = None

    @property
    def position(self) -> str | None:
        """Return the position of the newest version."""
        return self.states[-1][0]

    @property
    def tables(self) -> Tables:
        """Return the rows of the newest version."""
        return self.states[-1][1]

    @property
    def rows(self) -> Rows:
        """Return the rows of the newest version of the only table."""
        (rows,) = self.tables.values()
        return rows

    def positions(self, key: str) -> list[Any]:
        """Return what all positions have under a key."""
        return [json.loads(position)[key] for position, _ in self.states if position]

    def open(self) -> Any:
        """Return the connector, which goes on from the newest version."""
        if self.connector is None:
            connector = self._connect(self._sources)
            try:
                self.known = {name: connector.table(name) for name in self._sources}
                named = {name: table.schema.names for name, table in self.known.items()}
                self.columns = self.columns or named
                connector.begin(self.columns, self.checkpoint, self.position)
            except BaseException:
                connector.close()
                raise
            self.connector = connector
        return self.connector

    def close(self) -> None:
        """Forget the connector."""
        if self.connector is not None:
            self.connector.close()
        self.connector = None

    def restart(self, states: int | None = None) -> None:
        """Forget the connector, and all but some first states."""
        self.close()
        self.states = self.states[:states]

    def steps(self, most_bytes: float = inf) -> Iterator[str]:
        """Make one version, divided where a run can be killed; nothing comes after `idle`."""
        connector = self.open()
        yield "begin"
        until = connector.latest(self.position, most_bytes)
        if until is None:
            yield "idle"
            return
        yield "latest"
        read = connector.read(self.position, until)
        yield "read"
        changed = {name: self._apply(name, table) for name, table in read.items()}
        self.states.append((until, {**self.tables, **changed}))
        yield "commit"
        connector.committed(until)
        yield "committed"

    def advance(self, most_bytes: float = inf, *, commit: bool = True) -> bool:
        """Make a version, or only read it; return whether there was something new."""
        for step in self.steps(most_bytes):
            if step == "read" and not commit:
                break
        return step != "idle"

    def drain(self, most_bytes: float = inf) -> None:
        """Read until there is nothing new."""
        while self.advance(most_bytes):
            pass

    def wander(self, rng: Random, sizes: Sequence[float]) -> None:
        """Perhaps restart, also from an earlier state; perhaps read, and perhaps commit."""
        if rng.random() < 0.3:
            self.restart(rng.randrange(1, len(self.states) + 1))
        if rng.random() < 0.6:
            self.advance(rng.choice(sizes), commit=rng.random() < 0.8)

    def _apply(self, name: str, read: pa.Table) -> Rows:
        """Return the rows of a table after some changes: by weight, or by key."""
        columns = list(self.columns[name])
        assert read.column_names == [*columns, WEIGHT]
        places = [columns.index(key) for key in self.known[name].keys]
        rows = Counter(self.tables[name])
        by_key = {tuple(row[i] for i in places): row for row in rows} if places else {}
        for *values, weight in zip(*(c.to_pylist() for c in read.columns), strict=True):
            row = tuple(values)
            key = tuple(row[i] for i in places)
            if key in by_key:
                del rows[by_key.pop(key)]
            if weight > 0 and places:
                by_key[key] = row
            if weight > 0 or not places:
                rows[row] += weight
        return Counter({row: count for row, count in rows.items() if count})


def refusal(run: Run) -> InputRefused:
    """Return the error with which a run ends."""
    with pytest.raises(InputRefused) as refused:
        run.drain()
    assert refused.value.help
    return refused.value


class LakeChanges:
    """Random operations on one table of a lake.

    Attributes:
        operations: the names of the methods that change the table.
        history: rows of each state that was the newest.
        keep: returns the states that must not expire.
    """

    operations: tuple[str, ...]

    def __init__(self, rng: Random) -> None:
        self._rng, self._added = rng, 0
        self.history: dict[int | None, Rows] = {}
        self.keep: Callable[[], list[Any]] = list

    def step(self) -> None:
        """Do one operation."""
        getattr(self, self._rng.choice(self.operations))()
        self.note()

    def note(self) -> None:
        """Note the rows of new states."""
        raise NotImplementedError

    def content(self) -> Rows:
        """Return the rows of the table."""
        raise NotImplementedError


def play(rng: Random, tables: Sequence[LakeChanges], runs: Sequence[Run], key: str) -> None:
    """Forty random operations on some tables; batches of one or more states; restarts anywhere.

    Args:
        rng: decides.
        tables: the tables.
        runs: the run of each.
        key: what names a state of a table in a position.
    """
    for table, run in zip(tables, runs, strict=True):
        table.keep = lambda run=run: run.positions(key)  # type: ignore[misc]
    for _ in range(40):
        rng.choice(tables).step()
        rng.choice(runs).wander(rng, [1.0, 5000.0, inf])
    for table, run in zip(tables, runs, strict=True):
        run.drain(rng.choice([1.0, inf]))
        assert run.rows == table.content()
        for state, (_, rows) in zip(run.positions(key), run.states[1:], strict=True):
            assert rows == {"t": table.history[state]}


LAKE_COLUMNS = ("k", "v", "p")


def random_rows(rng: Random, count: int) -> pa.Table:
    """Return some rows; a few are equal."""
    keys = [rng.randrange(30) for _ in range(count)]
    texts = [rng.choice(["a", "ä b", None, "x" * 40]) for _ in keys]
    places = [rng.choice(["north", "süd/1", "a=b c", None]) for _ in keys]
    columns = [
        pa.array(keys, pa.int32()),
        pa.array(texts, pa.string()),
        pa.array(places, pa.string()),
    ]
    return pa.table(columns, LAKE_COLUMNS)


def counted(rows: pa.Table, columns: Iterable[str] = LAKE_COLUMNS) -> Rows:
    """Return rows with how often they are there."""
    return Counter(zip(*(rows.column(name).to_pylist() for name in columns), strict=True))
