"""Bids in the shape of Nexmark: few hot auctions and bidders, prices over eight powers of ten, some days of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.data.data_sets import ChangeFile

BEGIN = np.datetime64("2026-01-01T00:00:00", "us")
BIDS_PER_DAY = 400_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CHANNELS = (*HOT_CHANNELS, *(f"channel-{i}" for i in range(1000)))
FIRST_ID = 1000
"""Id of the first auction and of the first person."""

Int64s = npt.NDArray[np.int64]


def bids(batches: Sequence[tuple[str, int]], seed: int = 1) -> Iterator[ChangeFile]:
    """Columns auction, bidder, price (int64), channel (string), datetime (timestamp of microseconds)."""
    random = np.random.default_rng(seed)
    done = 0
    for kind, rows in batches:
        ordinal = np.arange(done, done + rows)
        done += rows
        newest = FIRST_ID + ordinal // 15
        yield ChangeFile(
            kind,
            pa.table(
                {
                    "auction": draw_auctions(random, newest),
                    "bidder": draw_people(random, newest, 0, FIRST_ID + done // 50, hot=1),
                    "price": draw_prices(random, rows),
                    "channel": pa.array(CHANNELS).take(pa.array(draw_channels(random, rows))),
                    "datetime": times(ordinal * (86_400_000_000 // BIDS_PER_DAY)),
                }
            ),
        )


def draw_auctions(random: np.random.Generator, newest: Int64s, lead: int = 0) -> Int64s:
    """Return the auctions of bids: half of them are the first of a hundred, the others of the newest ones.

    Args:
        random: the generator.
        newest: the newest auction at each bid.
        lead: number of auctions after the newest one that a bid may name.
    """
    hot = random.random(len(newest)) < 0.5
    recent = newest + lead - random.integers(0, 100 + lead, len(newest))
    return np.where(hot, newest // 100 * 100, recent)


def draw_people(
    random: np.random.Generator, newest: Int64s, low: Int64s | int, high: Int64s | int, *, hot: int
) -> Int64s:
    """Return bidders or sellers: three quarters are the one at the place `hot` of a hundred, the others any."""
    return np.where(
        random.random(len(newest)) < 0.75,
        newest // 100 * 100 + hot,
        random.integers(low, high, len(newest)),
    )


def draw_prices(random: np.random.Generator, rows: int) -> Int64s:
    """Return prices."""
    return (10 ** (random.random(rows) * 6) * 100).astype(np.int64)


def draw_channels(random: np.random.Generator, rows: int) -> Int64s:
    """Return places in `CHANNELS`: half of them are hot ones."""
    known = random.integers(0, len(HOT_CHANNELS), rows)
    other = random.integers(len(HOT_CHANNELS), len(CHANNELS), rows)
    return np.where(random.random(rows) < 0.5, known, other)


def times(micros: Int64s) -> pa.Array:
    """Return the times that are some microseconds after `BEGIN`."""
    return pa.array(BEGIN + micros.astype("timedelta64[us]"))
