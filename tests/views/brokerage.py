"""The pipeline of docs/examples/pipeline, random changes of its tables, and its views in DuckDB."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.views.plans import BEGUN

PIPELINE = Path(__file__).parents[2] / "docs" / "examples" / "pipeline" / "transformations"

TABLES = {
    "trades": pa.schema(
        [
            ("trade_id", pa.int64()), ("account_id", pa.int64()), ("symbol", pa.string()),
            ("quantity", pa.int64()), ("price", pa.decimal128(10, 2)), ("status", pa.string()),
            ("trade_date", pa.date32()),
        ]
    ),
    "accounts": pa.schema(
        [("account_id", pa.int64()), ("customer_id", pa.int64()), ("broker", pa.string()), ("closed", pa.int32())]
    ),
    "customers": pa.schema([("customer_id", pa.int64()), ("name", pa.string()), ("tier", pa.int32())]),
}  # fmt: skip

Row = tuple[Any, ...]
Batch = Mapping[str, Sequence[tuple[Row, int]]]
"""Per table its changed rows, with their weights."""


class Brokerage:
    """Tables that change: rows are inserted, updated and deleted.

    Attributes:
        rows: the rows of each table.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._next = 0
        self.rows: dict[str, list[Row]] = {name: [] for name in TABLES}

    def batch(self, size: int) -> Batch:
        """Change the tables, and return the changes."""
        changes: dict[str, list[tuple[Row, int]]] = {name: [] for name in TABLES}
        for name, count in (("customers", size // 8), ("accounts", size // 4), ("trades", size)):
            rows = self.rows[name]
            for _ in range(count):
                action = self._random.choice(("insert", "insert", "insert", "update", "delete"))
                if action != "insert" and rows:
                    old = rows.pop(self._random.randrange(len(rows)))
                    changes[name].append((old, -1))
                    if action == "delete":
                        continue
                    new = self._row(name, old[0])
                else:
                    self._next += 1
                    new = self._row(name, self._next % 40 if name != "trades" else self._next)
                rows.append(new)
                changes[name].append((new, 1))
        return changes

    def _row(self, table: str, key: int) -> Row:
        r = self._random
        if table == "customers":
            return (key, f"customer {key}", r.randrange(1, 4))
        if table == "accounts":
            return (key, r.randrange(40), r.choice(("ann", "bob")), int(r.random() < 0.2))
        price = r.randrange(100, 9999)
        return (
            key, r.randrange(40), r.choice(("AAA", "BBB", "CCC")), r.randrange(-5, 20), Decimal(price) / 100,
            r.choice(("CMPT", "CMPT", "CNCL")), date(2026, 1, 1) + timedelta(days=r.randrange(30)),
        )  # fmt: skip


def write(folder: Path, number: int, batch: Batch) -> None:
    """Write a file per table with the changes of a batch."""
    for name, schema in TABLES.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        whole = schema.append(pa.field("w", pa.int64()))
        rows = [dict(zip(whole.names, (*row, weight), strict=True)) for row, weight in batch[name]]
        path = folder / name / f"{number:04}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, whole), path)
        os.utime(path, (BEGUN + number, BEGUN + number))


def sources(folder: Path) -> dict[str, str]:
    """The sources of the tables, a file of each per batch."""
    return {name: f"parquet:{folder}/{name}?weight=w&batch-files=1" for name in TABLES}


def views() -> dict[str, str]:
    """The queries of the views by name, each after those that it reads, for DuckDB."""
    text = "\n".join(
        (PIPELINE / name).read_text()
        for name in (
            "bronze/trades.sql", "bronze/accounts.sql", "silver/holdings.sql", "silver/positions.sql",
            "gold/customers.sql", "gold/reports.sql",
        )
    )  # fmt: skip
    text = re.sub(r"--[^\n]*", "", text)
    text = re.sub(r"COMMENT '[^']*'|TBLPROPERTIES \([^)]*\)|\bSTREAM(?= )", "", text)
    found = re.findall(
        r"CREATE (?:OR REPLACE )?(?:MATERIALIZED VIEW|STREAMING TABLE|TEMPORARY VIEW) (\w+)\s*(\([^)]*\))?\s*AS(.*?);",
        text, re.S,
    )  # fmt: skip
    return {name: f"CREATE VIEW {name} {columns} AS {query}" for name, columns, query in found}


def expected(rows: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """The rows of every view over tables, as DuckDB computes them."""
    con = duckdb.connect()
    for name, schema in TABLES.items():
        columns = [list(column) for column in zip(*rows[name], strict=True)] or [[] for _ in schema]
        table = pa.table([pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)], schema=schema)  # fmt: skip
        con.register(name, table)
    found = {}
    for name, text in views().items():
        con.execute(text)
        found[name] = sorted(con.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
    return found
