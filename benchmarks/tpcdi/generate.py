"""All tables of all batches, as Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.tpcdi import finwire, market, reference
from benchmarks.tpcdi.columns import Random
from benchmarks.tpcdi.customers import Customers
from benchmarks.tpcdi.prospects import Prospects
from benchmarks.tpcdi.schema import required
from benchmarks.tpcdi.sizes import BATCHES, Sizes
from benchmarks.tpcdi.trades import Trades

MADE = "made.json"
"""File with the scale and the seed."""
_RANDOM = ("hr", "finwire", "customers", "prospects", "prices", "watches", "trades")
"""Parts that draw numbers, each its own: a change of one leaves the others as they were."""


def generate(folder: Path, scale: float, seed: int = 1) -> dict[tuple[int, str], int]:
    """Write the tables of all batches as FOLDER/batchN/TABLE.parquet, and beside them what they were made from.

    Returns:
        Per batch and table its rows.
    """
    count = {}
    for batch, name, table in tables(scale, seed):
        path = folder / f"batch{batch}" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        count[batch, name] = table.num_rows
    (folder / MADE).write_text(json.dumps({"scale": scale, "seed": seed}) + "\n")
    return count


def tables(scale: float, seed: int = 1) -> Iterator[tuple[int, str, pa.Table]]:
    """Yield each table of each batch: the batch, the name, the rows.

    Args:
        scale: the scale factor; below 1 for tests.
        seed: the same one gives the same rows.
    """
    for batch, name, table in _tables(Sizes(scale), seed):
        yield batch, name, required(name, table)


def _tables(sizes: Sizes, seed: int) -> Iterator[tuple[int, str, pa.Table]]:
    random: dict[str, Random] = {
        name: np.random.default_rng([seed, number]) for number, name in enumerate(_RANDOM)
    }
    yield 1, "date", reference.days()
    yield 1, "time", reference.seconds()
    yield 1, "industry", reference.industries()
    yield 1, "status_type", reference.status_types()
    yield 1, "tax_rate", reference.tax_rates()
    yield 1, "trade_type", reference.trade_types()
    for batch in range(1, BATCHES + 1):
        yield batch, "batch_date", reference.batch_date(batch)
    hr = reference.employees(random["hr"], sizes.employees)
    yield 1, "hr", hr
    wire = finwire.records(random["finwire"], sizes)
    yield 1, "finwire_cmp", wire.companies
    yield 1, "finwire_sec", wire.securities
    yield 1, "finwire_fin", wire.financials
    customers = Customers(random["customers"], sizes, reference.brokers(hr))
    yield from _of_customers(random, sizes, customers)
    for batch, prices in market.prices(random["prices"], wire.symbols).items():
        yield batch, "daily_market", prices
    watches = market.Watches(random["watches"], sizes, customers.book, wire.symbols)
    for batch in range(1, BATCHES + 1):
        yield batch, "watch_history", watches.table(batch)
    for batch, changed in Trades(random["trades"], sizes, customers.book, wire.symbols).tables():
        for name, table in changed.items():
            yield batch, name, table


def _of_customers(
    random: dict[str, Random], sizes: Sizes, customers: Customers
) -> Iterator[tuple[int, str, pa.Table]]:
    yield 1, "customer_mgmt", customers.actions
    prospects = Prospects(random["prospects"], sizes, customers.people)
    yield 1, "prospect", prospects.table(1)
    for batch in range(2, BATCHES + 1):
        for name, table in customers.change(batch).items():
            yield batch, name, table
        prospects.change()
        yield batch, "prospect", prospects.table(batch)
