"""Windows through Spark: tumbling, hopping and session windows at every version against recomputation."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.e2e.files import write_in_order
from tests.e2e.rows import Bag
from tests.e2e.running import check_versions, maintain
from tests.windowed import (
    compound,
    grouped,
    interval,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECOND = 1_000_000
EPOCH = dt.datetime(1970, 1, 1)
Row = tuple[str | None, int | None, int | None]
"""Team, microseconds since 1970, number."""
Change = tuple[Row, int]
Window = tuple[int, int] | None


def instant(micros: int, *, zoned: bool = False) -> dt.datetime:
    at = EPOCH + dt.timedelta(microseconds=micros)
    return at.replace(tzinfo=dt.UTC) if zoned else at


def rows_of(changes: Sequence[Change], *, zone: str | None = None) -> pa.Table:
    return pa.table(
        {
            "team": pa.array([row[0] for row, _ in changes], pa.string()),
            "t": pa.array([row[1] for row, _ in changes], pa.timestamp("us", zone)),
            "n": pa.array([row[2] for row, _ in changes], pa.int64()),
            "w": pa.array([weight for _, weight in changes], pa.int64()),
        }
    )


def drawn(seed: int, batches: int = 6, rows: int = 40, spread: int = 400) -> list[list[Change]]:
    """Batches of insertions, deletions of what is there, and some weights; times on both sides of 1970, some null."""
    pick = random.Random(seed)
    there: list[Row] = []
    made: list[list[Change]] = []
    for _ in range(batches):
        batch: list[Change] = []
        for _ in range(rows):
            if there and pick.random() < 0.35:
                batch.append((there.pop(pick.randrange(len(there))), -1))
                continue
            seconds = pick.randrange(-spread, spread)
            time = None if pick.random() < 0.05 else seconds * SECOND + pick.choice((0, 0, 1, -1))
            row = (pick.choice(("a", "b", None)), time, pick.choice((1, 2, 3, None)))
            weight = pick.choice((1, 1, 1, 2))
            batch.append((row, weight))
            there += [row] * weight
        made.append(batch)
    return made


def tumbling(size: int, offset: int = 0) -> Callable[[int], Iterator[Window]]:
    return hopping(size, size, offset)


def hopping(size: int, slide: int, offset: int = 0) -> Callable[[int], Iterator[Window]]:
    def windows(micros: int) -> Iterator[Window]:
        start = (micros - offset) // slide * slide + offset
        while start + size > micros:
            yield start, start + size
            start -= slide

    return windows


Groups = dict[tuple[Any, ...], Counter[int | None]]


def in_windows(rows: Counter[Row], windows: Callable[[int], Iterator[Window]]) -> Groups:
    """The numbers per team and window."""
    groups: Groups = {}
    for (team, time, n), weight in rows.items():
        for window in (None,) if time is None else windows(time):
            groups.setdefault((team, window), Counter())[n] += weight
    return groups


def counted(groups: Groups, shown: Callable[[Window], Any]) -> Bag:
    """Count and sum of groups whose weight is above zero."""
    found: Bag = Counter()
    for (*keys, window), numbers in groups.items():
        if sum(numbers.values()) <= 0:
            continue
        there = [(n, w) for n, w in numbers.items() if n is not None and w]
        total = sum(n * w for n, w in there) if sum(w for _, w in there) > 0 else None
        found[(*keys, shown(window), sum(numbers.values()), total)] += 1
    return found


def struct(window: Window, *, zoned: bool = False) -> Any:
    if window is None:
        return None
    return tuple((f"f{i}", instant(edge, zoned=zoned)) for i, edge in enumerate(window))


def end(window: Window) -> Any:
    return None if window is None else instant(window[1])


def sums(batches: Sequence[Sequence[Change]]) -> list[Counter[Row]]:
    """The rows that are there after each batch, the version without any first."""
    added = [Counter[Row](), *(_added(b) for b in batches)]
    return list(accumulate(added, _plus))


def _added(batch: Sequence[Change]) -> Counter[Row]:
    total: Counter[Row] = Counter()
    for row, weight in batch:
        total[row] += weight
    return total


def _plus(left: Counter[Row], right: Counter[Row]) -> Counter[Row]:
    total = Counter(left)
    for row, weight in right.items():
        total[row] += weight
    return total


def run(
    spark: SparkSession,
    folder: Path,
    plan: str,
    batches: Sequence[Sequence[Change]],
    wanted: Callable[[Counter[Row]], Bag],
    *,
    zone: str | None = None,
) -> None:
    """Every version of the view, and the sum of the changes, is what is wanted of the rows so far."""
    write_in_order(folder / "in", [rows_of(b, zone=zone) for b in batches])
    source = {"goals": f"parquet:{folder / 'in'}?weight=w&batch-files=1"}
    views = maintain(spark, plan, source, folder / "checkpoint", partitions=2)
    check_versions(folder / "checkpoint", views, [wanted(rows) for rows in sums(batches)])


MINUTE = 60 * SECOND
CASES: dict[str, tuple[str, Callable[[int], Iterator[Window]], Any]] = {
    "tumble_end": (grouped("tumble_end", interval(60)), tumbling(MINUTE), end),
    "tumble with an offset, as DataFusion writes durations": (
        grouped("tumble", compound(45), compound(-100)),
        tumbling(45 * SECOND, -100 * SECOND),
        struct,
    ),
    "hop": (grouped("hop", interval(60), interval(20)), hopping(MINUTE, 20 * SECOND), struct),
    "hop with an uneven slide and an offset": (
        grouped("hop", interval(50), interval(20), interval(7)),
        hopping(50 * SECOND, 20 * SECOND, 7 * SECOND),
        struct,
    ),
    "hop with gaps": (
        grouped("hop", interval(20), interval(50)),
        hopping(20 * SECOND, 50 * SECOND),
        struct,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_version_of_a_window(name: str, spark: SparkSession, tmp_path: Path) -> None:
    plan, windows, shown = CASES[name]
    run(spark, tmp_path, plan, drawn(1), lambda rows: counted(in_windows(rows, windows), shown))
