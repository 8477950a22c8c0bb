"""The tables of the pipeline in docs/examples/pipeline, and changes of a share of their rows."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.data.data_sets import FIRST_MODIFIED

TABLES = ("trades", "accounts", "customers")

SYMBOLS = 1000
TRADES_PER_ACCOUNT = 20
ACCOUNTS_PER_CUSTOMER = 5

WEIGHT = "w"

Int64s = npt.NDArray[np.int64]


class Brokerage:
    """Tables whose rows are inserted, updated and deleted.

    Attributes:
        rows: the rows of each table.
    """

    def __init__(self, trades: int, seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)
        accounts = max(1, trades // TRADES_PER_ACCOUNT)
        self._count = {
            "trades": trades,
            "accounts": accounts,
            "customers": max(1, accounts // ACCOUNTS_PER_CUSTOMER),
        }
        self._next = dict(self._count)
        self.rows = {name: self._made(name, np.arange(self._count[name])) for name in TABLES}

    def change(self, share: float) -> dict[str, pa.Table]:
        """Delete, update and insert a share of the rows of each table, a third each.

        Returns:
            Per table the changed rows with their weights.
        """
        return {name: self._change(name, share) for name in TABLES}

    def _change(self, name: str, share: float) -> pa.Table:
        old = self.rows[name]
        each = max(1, int(old.num_rows * share / 3))
        chosen = self._random.choice(old.num_rows, 2 * each, replace=False)
        gone = old.take(pa.array(chosen))
        updated = self._made(name, gone.column(0)[:each].to_numpy())
        inserted = self._made(name, np.arange(self._next[name], self._next[name] + each))
        self._next[name] += each
        come = pa.concat_tables([updated, inserted])
        stays = np.ones(old.num_rows, bool)
        stays[chosen] = False
        self.rows[name] = pa.concat_tables([old.filter(pa.array(stays)), come])
        return pa.concat_tables([_weighted(gone, -1), _weighted(come, 1)])

    def _made(self, name: str, keys: Int64s) -> pa.Table:
        """Random rows with these keys."""
        r, n = self._random, len(keys)
        if name == "customers":
            names = pc.binary_join_element_wise("customer", pa.array(keys).cast(pa.string()), " ")
            tier = pa.array(r.integers(1, 4, n), pa.int32())
            return pa.table({"customer_id": keys, "name": names, "tier": tier})
        if name == "accounts":
            customers = r.integers(0, self._count["customers"], n)
            brokers = _words("broker", r.integers(0, 50, n))
            closed = pa.array(r.random(n) < 0.2).cast(pa.int32())
            return pa.table({"account_id": keys, "customer_id": customers, "broker": brokers, "closed": closed})  # fmt: skip
        status = pa.DictionaryArray.from_arrays(r.choice(3, n, p=[0.8, 0.1, 0.1]), ["CMPT", "PNDG", "CNCL"])  # fmt: skip
        days = pa.array(20_000 + r.integers(0, 365, n), pa.int32()).cast(pa.date32())
        cents = pa.array(r.integers(100, 1_000_000, n)).cast(pa.decimal128(19, 0))
        price = pc.multiply(cents, pa.scalar(_CENT)).cast(pa.decimal128(10, 2))
        return pa.table(
            {
                "trade_id": keys,
                "account_id": r.integers(0, self._count["accounts"], n),
                "symbol": _words("S", r.integers(0, SYMBOLS, n)),
                "quantity": r.integers(-5, 20, n),
                "price": price,
                "status": status.cast(pa.string()),
                "trade_date": days,
            }
        )


_CENT = pa.scalar("0.01").cast(pa.decimal128(3, 2)).as_py()


def _words(prefix: str, numbers: Int64s) -> pa.Array:
    words = [f"{prefix}{i}" for i in range(int(numbers.max(initial=0)) + 1)]
    return pa.DictionaryArray.from_arrays(numbers, words).cast(pa.string())


def _weighted(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column(WEIGHT, pa.array(np.full(rows.num_rows, weight)))


def write_load(folder: Path, world: Brokerage) -> None:
    """Write the first file of changes of each table: all its rows."""
    write_changes(folder, 0, {name: _weighted(rows, 1) for name, rows in world.rows.items()})


def write_changes(folder: Path, number: int, changes: dict[str, pa.Table]) -> None:
    """Write a file of changes per table."""
    for name, rows in changes.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        path = folder / name / f"{number:06}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (FIRST_MODIFIED + number, FIRST_MODIFIED + number))


def write_tables(folder: Path, world: Brokerage) -> None:
    """Write the current rows of each table and replace its file."""
    for name, rows in world.rows.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, folder / name / "rows.parquet")
