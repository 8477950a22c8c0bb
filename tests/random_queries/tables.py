"""Random tables with few different values, which change over versions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

LIST, WORDS = pa.list_(pa.int64()), pa.list_(pa.string())
STRUCT = pa.struct([("p", pa.int64()), ("q", pa.string())])
INT, DEC, DBL, STR = pa.int64(), pa.decimal128(10, 2), pa.float64(), pa.string()
DAY, AT, OK = pa.date32(), pa.timestamp("us"), pa.bool_()
NAMES = {INT: "int", pa.int32(): "int", DEC: "dec", DBL: "dbl", STR: "str", DAY: "date", AT: "ts", OK: "bool", LIST: "list", WORDS: "words", STRUCT: "struct"}  # fmt: skip
"""Type of Arrow -> type of a column of a query."""

SCHEMAS: dict[str, pa.Schema] = {
    "t": pa.schema([("id", INT), ("k", INT), ("m", pa.int32()), ("d", DEC), ("f", DBL), ("s", STR), ("day", DAY), ("at", AT), ("ok", OK)]),
    "u": pa.schema([("id", INT), ("k", INT), ("n", INT), ("d", DEC), ("s", STR), ("day", DAY)]),
    "v": pa.schema([("id", INT), ("k", INT), ("a", LIST), ("w", WORDS), ("r", STRUCT), ("s", STR)]),
    "w": pa.schema([("id", INT), ("k", INT), ("f", DBL), ("at", AT), ("until", AT), ("low", INT), ("high", INT), ("ok", OK)]),
}  # fmt: skip

WORDS_USED = ("a", "b", "ab", "", "Äb", "c d", "B")
INSTANTS = [
    datetime(2024, 1, 31), datetime(2024, 2, 29, 12, 30), datetime(2024, 2, 29, 12, 30, 0, 5), datetime(2023, 2, 28, 23, 59, 59, 999999),
    datetime(1969, 12, 31, 22), datetime(2024, 3, 1), datetime(2024, 2, 28, 6),
]  # fmt: skip
Random = random.Random


def _list(rng: Random) -> list[Any]:
    return [rng.choice((1, 2, 3, None)) for _ in range(rng.choice((0, 1, 2, 3)))]


_VALUES: dict[pa.DataType, Callable[[Random], Any]] = {
    INT: lambda rng: rng.choice((-2, 0, 1, 2, 3, 7)),
    pa.int32(): lambda rng: rng.choice((-1, 0, 1, 2, 40)),
    DEC: lambda rng: Decimal(rng.choice(("1.10", "-2.25", "0.00", "0.50", "3.00", "12.34"))),
    DBL: lambda rng: rng.choice((0.0, -0.0, 1.5, -2.25, 0.5, 3.0, math.nan)),
    STR: lambda rng: rng.choice(WORDS_USED),
    DAY: lambda rng: rng.choice(
        (date(2024, 1, 31), date(2024, 2, 29), date(2023, 2, 28), date(1969, 12, 31), date(2024, 3, 1))
    ),
    AT: lambda rng: rng.choice(INSTANTS),
    OK: lambda rng: rng.random() < 0.5,
    LIST: _list,
    WORDS: lambda rng: [rng.choice(WORDS_USED) for _ in range(rng.choice((0, 1, 2)))],
    STRUCT: lambda rng: {"p": rng.choice((1, 2, None)), "q": rng.choice(("a", "b", None))},
}  # fmt: skip
NULLS = 0.12
"""Share of the values that are null."""


def _row(rng: Random, schema: pa.Schema, number: int) -> dict[str, Any]:
    values = {
        field.name: None if rng.random() < NULLS else _VALUES[field.type](rng) for field in schema
    }
    return values | {"id": number}


class Table:
    """A table whose rows come, change and go.

    Attributes:
        rows: all rows that it ever has.
        alive: the positions of the rows of the newest version.
    """

    def __init__(self, rng: Random, schema: pa.Schema) -> None:
        self._rng, self._schema = rng, schema
        self._made: list[dict[str, Any]] = []
        self.alive: set[int] = set()

    @property
    def rows(self) -> pa.Table:
        return pa.Table.from_pylist(self._made, self._schema)

    def change(self) -> None:
        """Make the next version: insert, delete and update rows; sometimes nothing, sometimes delete all."""
        rng = self._rng
        first = not self._made
        chance = rng.random()
        if chance < 0.12 and (not first or chance < 0.04):
            return
        kept = set() if chance > 0.95 else {i for i in self.alive if rng.random() < 0.85}
        for old in sorted(kept):
            if rng.random() < 0.15:  # an update
                kept = (kept - {old}) | self._add(self._made[old]["id"], self._made[old])
        for _ in range(rng.randint(4, 14) if first else rng.randint(0, 6)):
            kept |= self._add(len(self._made))
        self.alive = kept

    def _add(self, number: int, before: dict[str, Any] | None = None) -> set[int]:
        row = _row(self._rng, self._schema, number)
        if before is not None:
            row = {
                name: old if self._rng.random() < 0.5 else row[name] for name, old in before.items()
            }
        self._made.append(row)
        return {len(self._made) - 1}


def instants(seed: int, count: int) -> list[datetime]:
    """Return the instant of each version. Rows have some of these instants."""
    rng = random.Random(seed)
    times = [
        rng.choice(INSTANTS[:3]) + timedelta(hours=rng.choice((0, 0, 6, 30))) for _ in range(count)
    ]
    return sorted(times)


def versions(seed: int, count: int) -> tuple[dict[str, pa.Table], list[dict[str, set[int]]]]:
    """Return the rows of each table, and for each version the positions of its rows."""
    rng = random.Random(seed)
    tables = {name: Table(rng, schema) for name, schema in SCHEMAS.items()}
    made = []
    for _ in range(count):
        for table in tables.values():
            table.change()
        made.append({name: set(table.alive) for name, table in tables.items()})
    return {name: table.rows for name, table in tables.items()}, made
