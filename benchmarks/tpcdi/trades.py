"""Trades with the history of their status, what they make of holdings, and the cash that they move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.tpcdi.columns import (
    Flags,
    Ints,
    Random,
    chosen,
    decimals,
    few,
    text,
    times,
    where,
    words,
)
from benchmarks.tpcdi.customers import Book
from benchmarks.tpcdi.people import FIRST_NAMES, LAST_NAMES
from benchmarks.tpcdi.schema import batch_rows, rows
from benchmarks.tpcdi.sizes import BATCHES, END, LAST, LOADED, SECONDS, TRADES_BEGIN, Sizes

BUYS = 0.51
"""Share of the trades; each sell sells what an earlier trade bought."""
FIRST_SELLS = 0.4
"""Sells per trade that are the first of a holding."""
SECOND_SELLS = 0.13
"""Sells per trade that are the second of a holding."""
CANCELED = 0.08
"""Share of those trades that may be canceled: not those that bought what is sold later."""
HELD_DAYS = 60
"""For which a holding is kept, in the mean."""
CASH = 0.9
"""Share of the trades that move cash."""
INVALID = 0.0001
"""Share of the trades whose commission, or whose charge, is above what is paid."""
LATE = 12
"""Buys that come in the days of the batches at any scale, so that each batch has some."""
KINDS = ("TLB", "TMB", "TLS", "TSL", "TMS")
"""Types of trades."""
LIMITED = (0, 2, 3)
"""Places of the types that wait before they are submitted."""
STATUSES = ("PNDG", "SBMT", "CMPT", "CNCL")
PENDING, SUBMITTED, COMPLETED, DROPPED = range(4)


@dataclass(frozen=True)
class _Orders:
    """Orders by t_id. Times are seconds since 1970, money is in cents.

    Attributes:
        account: the ca_id.
        symbol: the place of the security.
        kind: the place of the type of the trade.
        created: when it came.
        submitted: when it was submitted; for types that do not wait as it came.
        closed: when it was completed or canceled.
        canceled: whether it was canceled.
        origin: the t_id of the trade that bought what this one sells; for a buy its own.
        quantity: how much is bought or sold.
        before: how much of the holding was there.
    """

    account: Ints
    symbol: Ints
    kind: Ints
    created: Ints
    submitted: Ints
    closed: Ints
    canceled: Flags
    origin: Ints
    quantity: Ints
    before: Ints

    @property
    def sells(self) -> Flags:
        """Whether an order sells."""
        return np.not_equal(self.origin, np.arange(len(self.origin)))


@dataclass(frozen=True)
class _Events:
    """Statuses that orders get: the t_id, the second, the place of the status."""

    number: Ints
    time: Ints
    status: Ints

    def at(self, places: Ints) -> _Events:
        return _Events(self.number[places], self.time[places], self.status[places])


class Trades:
    """All trades of all batches."""

    def __init__(self, random: Random, sizes: Sizes, book: Book, symbols: pa.Array) -> None:
        self._random, self._symbols = random, symbols
        self._orders = _orders(random, sizes, book, len(symbols))
        count = len(self._orders.account)
        base = random.integers(500, 20_000, len(symbols))[self._orders.symbol]
        self._bid = (base * random.uniform(0.8, 1.2, count)).astype(np.int64)
        self._price = (self._bid * random.uniform(0.98, 1.02, count)).astype(np.int64)
        self._amount = self._price * self._orders.quantity
        self._charge = random.integers(100, 2_000, count)
        self._commission = (self._amount * random.uniform(0.001, 0.01, count)).astype(np.int64)
        self._tax = (self._amount * random.uniform(0, 0.02, count) * self._orders.sells).astype(
            np.int64
        )
        for cost in (self._commission, self._charge):
            wrong = few(random, count, INVALID)
            cost[wrong] = self._amount[wrong] + random.integers(1, 10_000, len(wrong))
        self._in_cash = random.random(count) < CASH
        self._executive = text(
            chosen(random, count, FIRST_NAMES), chosen(random, count, LAST_NAMES)
        )
        self._paid = self._orders.closed + random.integers(3600, 2 * SECONDS, count)

    def tables(self) -> Iterator[tuple[int, dict[str, pa.Table]]]:
        """Yield each batch and its tables: trade, what follows from it, and trade_history of batch 1."""
        events = self._events()
        begins = np.append(True, events.number[1:] != events.number[:-1])
        loaded = events.at(np.flatnonzero(events.time < END * SECONDS))
        last = np.append(loaded.number[1:] != loaded.number[:-1], True)
        trades = self._trades(1, loaded.at(np.flatnonzero(last)), {})
        yield 1, {"trade": trades, "trade_history": _history(loaded), **self._consequences(1)}
        for batch in range(2, BATCHES + 1):
            today = _in_order(_in_batch(events.time, batch), events.time)
            flag = {"cdc_flag": words(begins[today].astype(np.int64), "UI")}
            changed = self._trades(batch, events.at(today), flag)
            yield batch, {"trade": changed, **self._consequences(batch)}

    def _events(self) -> _Events:
        """Every status of every order, by order and time."""
        orders, all_of = self._orders, np.arange(len(self._orders.account))
        waits = orders.submitted > orders.created
        dropped = orders.canceled & (orders.submitted == orders.closed)
        then = np.flatnonzero(waits & ~dropped)
        number = np.concatenate([all_of, then, all_of])
        time = np.concatenate([orders.created, orders.submitted[then], orders.closed])
        status = np.concatenate([
            np.where(waits, PENDING, SUBMITTED), np.full(len(then), SUBMITTED),
            np.where(orders.canceled, DROPPED, COMPLETED),
        ])  # fmt: skip
        return _Events(number, time, status).at(np.lexsort([time, number]))

    def _trades(self, batch: int, events: _Events, flag: dict[str, pa.Array]) -> pa.Table:
        orders, number = self._orders, events.number
        done = events.status == COMPLETED
        money = {
            "t_trade_price": (self._price, 8),
            "t_chrg": (self._charge, 10),
            "t_comm": (self._commission, 10),
            "t_tax": (self._tax, 10),
        }
        return batch_rows("trade", batch, {
            "t_id": number,
            "t_dts": times(events.time),
            "t_st_id": words(events.status, STATUSES),
            "t_tt_id": words(orders.kind[number], KINDS),
            "t_is_cash": self._in_cash[number].astype(np.int64),
            "t_s_symb": self._symbols.take(pa.array(orders.symbol[number])),
            "t_qty": orders.quantity[number],
            "t_bid_price": decimals(self._bid[number], 8),
            "t_ca_id": orders.account[number],
            "t_exec_name": self._executive.take(pa.array(number)),
            **{name: where(done, decimals(cents[number], width)) for name, (cents, width) in money.items()},
            **flag,
        })  # fmt: skip

    def _consequences(self, batch: int) -> dict[str, pa.Table]:
        """What the completed orders of a batch make of holdings and of cash."""
        orders = self._orders
        done = _in_order(_in_batch(orders.closed, batch) & ~orders.canceled, orders.closed)
        sells = orders.sells
        left = orders.before + np.where(sells, -orders.quantity, orders.quantity)
        holdings = batch_rows("holding_history", batch, {
            "hh_h_t_id": orders.origin[done],
            "hh_t_id": done,
            "hh_before_qty": orders.before[done],
            "hh_after_qty": left[done],
        })  # fmt: skip
        moves = ~orders.canceled & self._in_cash
        paid = _in_order(_in_batch(self._paid, batch) & moves, self._paid)
        costs = self._charge + self._commission + self._tax
        moved = np.where(sells, self._amount, -self._amount) - costs
        verb = words(sells[paid].astype(np.int64), ("Buy", "Sell"))
        symbol = self._symbols.take(pa.array(orders.symbol[paid]))
        cash = batch_rows("cash_transaction", batch, {
            "ct_ca_id": orders.account[paid],
            "ct_dts": times(self._paid[paid]),
            "ct_amt": decimals(moved[paid], 10),
            "ct_name": text(verb, orders.quantity[paid], "shares of", symbol),
        })  # fmt: skip
        return {"holding_history": holdings, "cash_transaction": cash}


def _history(events: _Events) -> pa.Table:
    of = events.at(np.argsort(events.time, kind="stable"))
    columns = {
        "th_t_id": of.number,
        "th_dts": times(of.time),
        "th_st_id": words(of.status, STATUSES),
    }
    return rows("trade_history", columns)


def _in_order(kept: Flags, time: Ints) -> Ints:
    """Places of what is kept, in the order of time."""
    places = np.flatnonzero(kept)
    return places[np.argsort(time[places], kind="stable")]


def _in_batch(seconds: Ints, batch: int) -> Flags:
    days = seconds // SECONDS
    return days < END if batch == 1 else days == LOADED + batch - 1


def _orders(random: Random, sizes: Sizes, book: Book, symbols: int) -> _Orders:
    """Return buys, and up to two sells of what each of them bought."""
    until = np.minimum(book.closed, LAST)
    account, day = _open_days(
        random, np.maximum(book.opened + 1, TRADES_BEGIN), until, round(sizes.trades * BUYS)
    )
    buys, first, second = (
        len(day),
        round(sizes.trades * FIRST_SELLS),
        round(sizes.trades * SECOND_SELLS),
    )
    sold = random.permutation(buys)[:first]
    parent = np.concatenate([np.arange(buys), sold, sold[:second]])
    kind = np.concatenate([
        random.choice([0, 1], buys, p=[0.6, 0.4]),
        random.choice([2, 3, 4], first + second, p=[0.52, 0.08, 0.4]),
    ])  # fmt: skip
    may_end = np.ones(len(kind), bool)
    may_end[sold] = False
    canceled = may_end & (random.random(len(kind)) < CANCELED)
    wait, work = _delays(random, kind, canceled)
    created = np.empty(len(kind), np.int64)
    created[:buys] = _at_market(random, day)
    spans = (np.arange(buys, buys + first), np.arange(buys + first, len(kind)))
    for span, earlier in zip(spans, (sold, spans[0][:second]), strict=True):
        before = created[earlier] + wait[earlier] + work[earlier]
        held = random.exponential(HELD_DAYS, len(span)).astype(np.int64)
        created[span] = _at_market(random, before // SECONDS + 1 + held)
    quantity, before = _quantities(random, parent, spans, canceled)
    kept = np.flatnonzero(created < until[account[parent]] * SECONDS)
    kept = kept[np.argsort(created[kept], kind="stable")]
    new = np.full(len(kind), -1)
    new[kept] = np.arange(len(kept))
    submitted = created + wait
    return _Orders(
        account[parent][kept], random.integers(0, symbols, buys)[parent][kept], kind[kept], created[kept],
        submitted[kept], (submitted + work)[kept], canceled[kept], new[parent[kept]], quantity[kept], before[kept],
    )  # fmt: skip


def _open_days(random: Random, since: Ints, until: Ints, count: int) -> tuple[Ints, Ints]:
    """Accounts and days on which they are open: the last days first, then each day as likely."""
    ends = np.cumsum(np.maximum(until - since, 0), dtype=np.int64)
    place = random.integers(0, ends[-1], count)
    account = np.searchsorted(ends, place, side="right").astype(np.int64)
    day: Ints = until[account] - (ends[account] - place)
    account[:LATE] = random.choice(np.flatnonzero(until == LAST), LATE)
    day[:LATE] = LAST - 1 - np.arange(LATE) % BATCHES
    return account, day


def _at_market(random: Random, days: Ints) -> Ints:
    return days * SECONDS + random.integers(int(9.5 * 3600), 16 * 3600, len(days))


def _delays(random: Random, kind: Ints, canceled: Flags) -> tuple[Ints, Ints]:
    """Seconds until an order is submitted, and from then until it is closed.

    Half of the canceled ones that wait are never submitted: they have no time after they waited.
    """
    waits = np.isin(kind, LIMITED)
    wait = np.where(waits, 60 + random.exponential(SECONDS / 2, len(kind)), 0).astype(np.int64)
    work = random.integers(1, 600, len(kind))
    work[waits & canceled & (random.random(len(kind)) < 0.5)] = 0
    return wait, work


def _quantities(
    random: Random, parent: Ints, spans: tuple[Ints, Ints], canceled: Flags
) -> tuple[Ints, Ints]:
    """How much each order buys or sells, and how much was held before."""
    first, second = spans
    bought = 10 * random.integers(1, 100, len(parent) - len(first) - len(second))
    quantity, before = bought[parent], np.zeros(len(parent), np.int64)
    whole = random.random(len(first)) < 0.7
    whole[: len(second)] = False
    before[first] = quantity[first]
    quantity[first] = np.where(whole, quantity[first], (quantity[first] + 1) // 2)
    earlier = first[: len(second)]
    before[second] = before[earlier] - np.where(canceled[earlier], 0, quantity[earlier])
    quantity[second] = before[second]
    return quantity, before
