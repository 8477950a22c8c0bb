"""The pipeline of docs/examples/warehouse, and random rows of its tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.views.plans import BEGUN

PROJECT = Path(__file__).parents[2] / "docs" / "examples" / "warehouse"
VIEWS = (
    "dim_customers", "dim_accounts", "dim_securities", "fact_trades", "fact_holdings", "fact_market", "fact_cash",
    "market_extremes", "broker_report", "cash_balances", "sector_report",
)  # fmt: skip
"""The views that are stored."""

_MONEY = pa.decimal128(10, 2)
TABLES: dict[str, pa.Schema] = {
    "customers": pa.schema([("customer_id", pa.int64()), ("name", pa.string()), ("country", pa.string()), ("tier", pa.int32())]),
    "accounts": pa.schema([("account_id", pa.int64()), ("customer_id", pa.int64()), ("broker", pa.string()), ("status", pa.string())]),
    "securities": pa.schema([("symbol", pa.string()), ("sector", pa.string()), ("active", pa.bool_())]),
    "market": pa.schema(
        [("symbol", pa.string()), ("day", pa.date32()), ("close", _MONEY), ("high", _MONEY), ("low", _MONEY), ("volume", pa.int64())]
    ),
    "trades": pa.schema(
        [
            ("trade_id", pa.int64()), ("account_id", pa.int64()), ("symbol", pa.string()), ("kind", pa.string()),
            ("quantity", pa.int32()), ("price", _MONEY), ("fee", _MONEY), ("traded_at", pa.timestamp("us")), ("status", pa.string()),
        ]
    ),
    "cash": pa.schema([("account_id", pa.int64()), ("amount", _MONEY), ("at", pa.timestamp("us"))]),
}  # fmt: skip

Rows = dict[str, list[tuple[Any, ...]]]


def batches(seed: int, count: int = 3) -> list[Rows]:
    """Return the rows that each batch adds to each table."""
    return [_batch(Random(seed * 100 + number), number) for number in range(count)]


def _batch(r: Random, number: int) -> Rows:
    def money() -> Decimal:
        return Decimal(r.randrange(100, 99999)) / 100

    def instant() -> datetime:
        return datetime(2026, 1, 1) + timedelta(minutes=r.randrange(40_000))

    symbols = [f"S{i}" for i in range(4 * (number + 1))]
    ids = range(10 * number, 10 * number + 10)
    known = 10 * number + 10
    return {
        "customers": [(i, f"ann no {i}", r.choice(("de", "fr")), r.randrange(1, 4)) for i in ids],
        "accounts": [(i, r.randrange(known), r.choice(("b1", "b2")), r.choice(("ACTV", "ACTV", "CLOSED"))) for i in ids],
        "securities": [(s, r.choice(("steel", "bread")), r.random() < 0.8) for s in symbols[-4:]],
        "market": [
            (s, date(2026, 1, 1) + timedelta(days=number), money(), money(), money(), r.randrange(10**6)) for s in symbols
        ],
        "trades": [
            (
                100 * number + i, r.randrange(known), r.choice(symbols), r.choice(("BUY", "SELL")), r.randrange(1, 50),
                money(), money(), instant(), r.choice(("CMPT", "CMPT", "CNCL")),
            )
            for i in range(40)
        ],
        "cash": [(r.randrange(known), money(), instant()) for _ in range(20)],
    }  # fmt: skip


def arrow(name: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    """Return rows of a table as Arrow."""
    schema = TABLES[name]
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def whole(made: Sequence[Rows]) -> dict[str, pa.Table]:
    """Return the tables after some batches."""
    return {name: arrow(name, [row for batch in made for row in batch[name]]) for name in TABLES}


def write(folder: Path, number: int, batch: Rows) -> None:
    """Write a file per table with the rows of a batch."""
    for name, rows in batch.items():
        path = folder / name / f"{number:04}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(arrow(name, rows), path)
        os.utime(path, (BEGUN + number, BEGUN + number))


def sources(folder: Path) -> dict[str, str]:
    """Return the sources of the tables, a file of each per batch."""
    return {name: f"parquet:{folder}/{name}?batch-files=1" for name in TABLES}
