"""What securities cost each day, and which of them customers watch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.tpcdi.columns import Ints, Random, dates, decimals, in_office_hours, times, words
from benchmarks.tpcdi.customers import Book
from benchmarks.tpcdi.schema import batch_rows
from benchmarks.tpcdi.sizes import END, LAST, LOADED, MARKET_BEGIN, TRADES_BEGIN, Sizes

CENTS = (100, 90_000)
"""Between which prices stay."""
ENDED = 0.25
"""Share of the watches that end."""
WATCHES_PER_DAY = (550, 140)
"""Watches that begin and that end in a day, per scale factor."""


def prices(random: Random, symbols: pa.Array) -> dict[int, pa.Table]:
    """Return the table daily_market of each batch."""
    days = np.arange(MARKET_BEGIN, LAST)
    steps = random.normal(0, 0.02, (len(days), len(symbols)))
    steps[0] = np.log(random.uniform(500, 20_000, len(symbols)))
    close = np.clip(np.exp(np.cumsum(steps, axis=0)), *CENTS).astype(np.int64)
    tables = {}
    for batch in range(1, LAST - LOADED + 1):
        among = days < END if batch == 1 else days == LOADED + batch - 1
        tables[batch] = _quotes(random, batch, days[among], symbols, close[among])
    return tables


def _quotes(random: Random, batch: int, days: Ints, symbols: pa.Array, close: Ints) -> pa.Table:
    cents = close.ravel()
    count = len(cents)
    place = np.tile(np.arange(len(symbols)), len(days))
    up, down = (random.uniform(0, 0.03, count) for _ in range(2))
    return batch_rows("daily_market", batch, {
        "dm_date": dates(np.repeat(days, len(symbols))),
        "dm_s_symb": symbols.take(pa.array(place)),
        "dm_close": decimals(cents, 8),
        "dm_high": decimals((cents * (1 + up)).astype(np.int64), 8),
        "dm_low": decimals(np.maximum(1, (cents * (1 - down)).astype(np.int64)), 8),
        "dm_vol": random.integers(1_000, 1_000_000_000, count),
    })  # fmt: skip


class Watches:
    """Pairs of a customer and a security: each is watched once, and may be watched no more."""

    def __init__(self, random: Random, sizes: Sizes, book: Book, symbols: pa.Array) -> None:
        self._random, self._sizes, self._book, self._symbols = random, sizes, book, symbols
        since = np.maximum(book.born + 1, TRADES_BEGIN)
        self._pairs = np.empty(0, np.int64)
        self._pairs = self._new_pairs(sizes.watches, np.flatnonzero(book.gone - since > 2))
        customer = self._customer(self._pairs)
        until = np.minimum(book.gone, END)[customer]
        begun = random.integers(since[customer], until)
        self._open = random.random(len(customer)) >= ENDED
        self._open |= begun + 1 >= until
        ended = np.flatnonzero(~self._open)
        last = random.integers(begun[ended] + 1, until[ended])
        self._first = self._watched(1, begun, last, np.arange(len(begun)), ended)

    def table(self, batch: int) -> pa.Table:
        """Return the table watch_history of a batch, in turns."""
        if batch == 1:
            return self._first
        active = np.flatnonzero(self._book.gone >= LAST)
        begins, ends = (self._sizes.of(number, 2) for number in WATCHES_PER_DAY)
        going = np.flatnonzero(self._open & (self._book.gone[self._customer(self._pairs)] >= LAST))
        ended = self._random.choice(going, min(ends, len(going)), replace=False)
        self._open[ended] = False
        old = len(self._pairs)
        self._pairs = np.concatenate([self._pairs, self._new_pairs(begins, active)])
        begun = np.arange(old, len(self._pairs))
        self._open = np.append(self._open, np.ones(len(begun), bool))
        today = LOADED + batch - 1
        return self._watched(
            batch, np.full(len(begun), today), np.full(len(ended), today), begun, ended
        )

    def _customer(self, pairs: Ints) -> Ints:
        return pairs // len(self._symbols)

    def _new_pairs(self, count: int, customers: Ints) -> Ints:
        """Draw pairs of these customers that were never watched, from at most half of all."""
        count = min(count, len(customers) * len(self._symbols) // 2)
        drawn = self._random.choice(customers, 2 * count + 100) * len(self._symbols)
        drawn += self._random.integers(0, len(self._symbols), len(drawn))
        distinct = pc.unique(pa.array(drawn))
        taken = pc.is_in(distinct, pa.array(self._pairs))
        return np.asarray(distinct.filter(pc.invert(taken)))[:count]

    def _watched(self, batch: int, begun: Ints, last: Ints, begins: Ints, ends: Ints) -> pa.Table:
        """Return a row for each watch that begins and for each that ends, ordered by time."""
        pair = self._pairs[np.concatenate([begins, ends])]
        seconds = in_office_hours(self._random, np.concatenate([begun, last]))
        order = np.argsort(seconds, kind="stable")
        pair = pair[order]
        return batch_rows("watch_history", batch, {
            "w_c_id": self._customer(pair),
            "w_s_symb": self._symbols.take(pa.array(pair % len(self._symbols))),
            "w_dts": times(seconds[order]),
            "w_action": words((order >= len(begins)).astype(np.int64), ("ACTV", "CNCL")),
        })  # fmt: skip
