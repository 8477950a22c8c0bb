"""The events of Nexmark: people, auctions and bids, of which some come late and some are taken back.

Of fifty events one is a person, three are auctions, and the others are bids. Most auctions are of a hot seller, most
bids by a hot bidder, and half of the bids are on a hot auction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.data.bids import (
    CHANNELS,
    FIRST_ID,
    HOT_CHANNELS,
    Int64s,
    draw_auctions,
    draw_channels,
    draw_people,
    draw_prices,
    times,
)
from benchmarks.data.brokerage import write_changes
from benchmarks.data.data_sets import WEIGHT

TABLES = ("person", "auction", "bid")
SIDE_INPUT = "side_input"
"""The table that query 13 looks keys up in, which does not change."""

EPOCH, PEOPLE, AUCTIONS = 50, 1, 3
"""Events of an epoch, and how many of them are people and auctions, which come first."""
ACTIVE, LEAD = 1000, 10
"""People who sell and bid, and how many ids of people and auctions may be used before these come."""
OPEN = 100
"""Auctions that are open at a time."""
SIDE_KEYS = 10_000

FIRST_NAMES = ("Ada", "Ben", "Cleo", "Dora", "Emil", "Finn", "Gus", "Hana", "Ida", "Jan", "Kim")
LAST_NAMES = ("Abel", "Berg", "Cole", "Dahl", "Eck", "Frost", "Glass", "Hahn", "Ives")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Seattle", "Kent")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")


@dataclass(frozen=True)
class Nexmark:
    """What is generated.

    Attributes:
        events: number of events.
        batches: number of batches that they come in.
        per_second: events of a second, by their own times.
        disorder: number of later events that an event may come after.
        begin: seconds from the beginning of the first day to the first event.
        deleted_share: share of the rows that are deleted in a later batch. If there are any, the tables have a weight.
        seed: of the random numbers.
    """

    events: int
    batches: int
    per_second: int = 10_000
    disorder: int = 0
    begin: int = 0
    deleted_share: float = 0.0
    seed: int = 1

    def changes(self) -> Iterator[dict[str, pa.Table]]:
        """Yield the rows of each batch, by table."""
        random = np.random.default_rng(self.seed)
        drawn = {name: self._placed(random, *self._rows(random, name)) for name in TABLES}
        for batch in range(self.batches):
            yield {name: self._batch(batch, *placed) for name, placed in drawn.items()}

    def _rows(self, random: np.random.Generator, name: str) -> tuple[Int64s, pa.Table]:
        """Return the ordinals of the events of a table, and its rows."""
        ordinal = np.arange(self.events)
        place = ordinal % EPOCH
        if name == "person":
            ordinal = ordinal[place < PEOPLE]
            return ordinal, self._people(random, ordinal)
        if name == "auction":
            ordinal = ordinal[(place >= PEOPLE) & (place < PEOPLE + AUCTIONS)]
            return ordinal, self._auctions(random, ordinal)
        ordinal = ordinal[place >= PEOPLE + AUCTIONS]
        return ordinal, self._bids(random, ordinal)

    def _placed(
        self, random: np.random.Generator, ordinal: Int64s, rows: pa.Table
    ) -> tuple[pa.Table, Int64s, Int64s]:
        """Return rows with the batch in which each comes, and the one in which it leaves."""
        arrival = ordinal + random.integers(0, self.disorder + 1, len(ordinal))
        comes = arrival * self.batches // (self.events + self.disorder)
        leaves = random.integers(comes + 1, self.batches + 1)
        stays = random.random(len(ordinal)) >= self.deleted_share
        return rows, comes, np.where(stays, self.batches, leaves)

    def _batch(self, batch: int, rows: pa.Table, comes: Int64s, leaves: Int64s) -> pa.Table:
        new = rows.filter(pa.array(comes == batch))
        if not self.deleted_share:
            return new
        old = rows.filter(pa.array(leaves == batch))
        return pa.concat_tables([_weighted(old, -1), _weighted(new, 1)])

    def _micros(self, events: Int64s) -> Int64s:
        """Return the time that numbers of events take."""
        return events * 1_000_000 // self.per_second

    def _times(self, ordinal: Int64s, after: Int64s | int = 0) -> pa.Array:
        """Return the times of events, or those some microseconds after them."""
        return times(self.begin * 1_000_000 + self._micros(ordinal) + after)

    def _people(self, random: np.random.Generator, ordinal: Int64s) -> pa.Table:
        rows = len(ordinal)
        names = [_words(random, words, rows) for words in (FIRST_NAMES, LAST_NAMES)]
        mail = [_letters(random, rows, 7, 8), _letters(random, rows, 5, 6)]
        card = pa.array(random.integers(10**15, 10**16, rows)).cast(pa.string())
        return pa.table(
            {
                "id": FIRST_ID + ordinal // EPOCH,
                "name": pc.binary_join_element_wise(*names, " "),
                "emailAddress": pc.binary_join_element_wise(
                    pc.binary_join_element_wise(*mail, "@"), pa.scalar("com"), "."
                ),
                "creditCard": card,
                "city": _words(random, CITIES, rows),
                "state": _words(random, STATES, rows),
                "dateTime": self._times(ordinal),
                "extra": _letters(random, rows, 100, 140),
            }
        )

    def _auctions(self, random: np.random.Generator, ordinal: Int64s) -> pa.Table:
        rows, epoch = len(ordinal), ordinal // EPOCH
        least = draw_prices(random, rows)
        length = self._micros(np.array(2 * OPEN * EPOCH // AUCTIONS))
        return pa.table(
            {
                "id": FIRST_ID + epoch * AUCTIONS + ordinal % EPOCH - PEOPLE,
                "itemName": _letters(random, rows, 10, 20),
                "description": _letters(random, rows, 50, 100),
                "initialBid": least,
                "reserve": least + draw_prices(random, rows),
                "dateTime": self._times(ordinal),
                "expires": self._times(ordinal, random.integers(1000, 1001 + length, rows)),
                "seller": _active(random, epoch, hot=0),
                "category": 10 + random.integers(0, 5, rows),
                "extra": _letters(random, rows, 250, 400),
            }
        )

    def _bids(self, random: np.random.Generator, ordinal: Int64s) -> pa.Table:
        rows, epoch = len(ordinal), ordinal // EPOCH
        newest = FIRST_ID + epoch * AUCTIONS + AUCTIONS - 1
        channels = pa.array(draw_channels(random, rows))
        return pa.table(
            {
                "auction": np.maximum(draw_auctions(random, newest, LEAD), FIRST_ID),
                "bidder": _active(random, epoch, hot=1),
                "price": draw_prices(random, rows),
                "channel": pa.array(CHANNELS).take(channels),
                "url": _urls(random).take(channels),
                "dateTime": self._times(ordinal),
                "extra": _letters(random, rows, 30, 60),
            }
        )


def write(folder: Path, batches: Iterable[Mapping[str, pa.Table]]) -> None:
    """Write a folder per table, with a file per batch, and the rows of `SIDE_INPUT`."""
    for number, batch in enumerate(batches):
        write_changes(folder, number, dict(batch))
    (folder / SIDE_INPUT).mkdir()
    pq.write_table(side_input(), folder / SIDE_INPUT / "rows.parquet")


def side_input() -> pa.Table:
    """Return the rows of `SIDE_INPUT`."""
    keys = np.arange(SIDE_KEYS)
    values = pc.binary_join_element_wise("value", pa.array(keys).cast(pa.string()), " ")
    return pa.table({"key": keys, "value": values})


def _active(random: np.random.Generator, newest: Int64s, *, hot: int) -> Int64s:
    """Return the ids of people who are active while a person is the newest one."""
    people = FIRST_ID + newest
    low = np.maximum(people + 1 - ACTIVE, FIRST_ID)
    return draw_people(random, people, low, people + 1 + LEAD, hot=hot)


def _urls(random: np.random.Generator) -> pa.Array:
    """Return the address of each channel. A hot channel has a fixed one; nine in ten others name the channel."""
    count = len(CHANNELS)
    folders = [_letters(random, count, 3, 6) for _ in range(3)]
    parts = [pa.scalar("https://www.nexmark.com"), *folders, pa.scalar("item.htm?query=1")]
    numbers = random.integers(0, 2**31, count)
    named = (np.arange(count) >= len(HOT_CHANNELS)) & (random.random(count) < 0.9)
    marks = pc.binary_join_element_wise("&channel_id=", pa.array(numbers).cast(pa.string()), "")
    address = pc.binary_join_element_wise(*parts, "/")
    return pc.binary_join_element_wise(address, pc.if_else(pa.array(named), marks, ""), "")


def _words(random: np.random.Generator, words: tuple[str, ...], rows: int) -> pa.Array:
    return pa.array(words).take(pa.array(random.integers(0, len(words), rows)))


def _letters(random: np.random.Generator, rows: int, least: int, below: int) -> pa.Array:
    """Return texts of random letters, with as many as lengths from `least` on."""
    ends = np.cumsum(random.integers(least, below, rows))
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    letters = random.integers(ord("a"), ord("z") + 1, int(offsets[-1]), np.uint8)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))


def _weighted(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column(WEIGHT, pa.array(np.full(rows.num_rows, weight)))
