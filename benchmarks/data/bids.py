"""Bids in the shape of Nexmark: few hot auctions and bidders, prices over eight powers of ten, some days of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from benchmarks.data.data_sets import ChangeFile

BEGIN = np.datetime64("2026-01-01T00:00:00", "us")
BIDS_PER_DAY = 400_000
CHANNELS = ("Google", "Facebook", "Baidu", "Apple")


def bids(batches: Sequence[tuple[str, int]], seed: int = 1) -> Iterator[ChangeFile]:
    """Columns auction, bidder, price (int64), channel (string), datetime (timestamp of microseconds)."""
    random = np.random.default_rng(seed)
    done = 0
    for kind, rows in batches:
        ordinal = np.arange(done, done + rows)
        done += rows
        newest = 1000 + ordinal // 15
        hot = random.random(rows) < 0.5
        auction = np.where(hot, newest // 100 * 100, newest - random.integers(0, 100, rows))
        bidder = np.where(
            random.random(rows) < 0.75,
            newest // 100 * 100 + 1,
            random.integers(0, 1000 + done // 50, rows),
        )
        price = (10 ** (random.random(rows) * 6) * 100).astype(np.int64)
        micros = ordinal * (86_400_000_000 // BIDS_PER_DAY)
        yield ChangeFile(
            kind,
            pa.table(
                {
                    "auction": auction,
                    "bidder": bidder,
                    "price": price,
                    "channel": _channels(random, rows),
                    "datetime": pa.array(BEGIN + micros.astype("timedelta64[us]")),
                }
            ),
        )


def _channels(random: np.random.Generator, rows: int) -> pa.Array:
    names = pa.array([*CHANNELS, *(f"channel-{i}" for i in range(1000))])
    known = random.integers(0, len(CHANNELS), rows)
    other = random.integers(len(CHANNELS), len(names), rows)
    return names.take(pa.array(np.where(random.random(rows) < 0.5, known, other)))
