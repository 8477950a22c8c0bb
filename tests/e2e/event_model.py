"""Event time in plain Python: rows out of order, watermarks, late rows, contents of windows."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.e2e.files import write_in_order
from tests.e2e.rows import Bag

SECOND = 1_000_000
EPOCH = dt.datetime(1970, 1, 1)

Row = tuple[str | None, int | None, int | None]
"""Team, seconds since 1970 (windows and sessions may be of any other unit), number."""
Change = tuple[Row, int]
"""A row that is inserted (1) or deleted (-1)."""
Window = tuple[int, int] | None
"""From (inclusive) and to (exclusive), seconds since 1970; None for rows without a time."""
Groups = dict[tuple[str | None, Window], Counter[int | None]]
"""Per team and window its numbers and how often each is there."""


def instant(seconds: int) -> dt.datetime:
    return EPOCH + dt.timedelta(seconds=seconds)


# --- sources --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """How a watermark follows from the rows: `behind` the greatest time, or by percentile if
    `events` is not 0.

    Attributes:
        behind: seconds.
        by_team: every team is a partition with a watermark of its own.
        percent: so many percent of the last `events` times may be greater.
        events: how many times count.
    """

    behind: int = 0
    by_team: bool = False
    percent: int = 0
    events: int = 0

    @property
    def text(self) -> str:
        """As users write it."""
        if self.events:
            return f"percentile:{self.percent}:{self.events}:1"
        return f"max-diff:{self.behind}s" + (",by:team" if self.by_team else "")

    def stands(self, rows: Sequence[Row]) -> int | None:
        """The watermark after rows in order of arrival; None before the first event time."""
        timed = [(team, t) for team, t, _ in rows if t is not None]
        if not timed:
            return None
        if self.events:
            last = [t for _, t in timed][-self.events :]
            few = self.percent * len(last) / 100
            return min(t for t in last if sum(other > t for other in last) <= few)
        greatest: dict[str | None, int] = {}
        for team, t in timed:
            name = (team or "") if self.by_team else ""
            greatest[name] = max(t, greatest.get(name, t))
        return min(greatest.values()) - self.behind


@dataclass(frozen=True)
class Table:
    """A table whose changes come in files, one per batch, and its watermark (None: it has none)."""

    name: str
    batches: Sequence[Sequence[Change]]
    rule: Rule | None = None

    def write(self, folder: Path, first: int = 0, last: int | None = None) -> str:
        """Write the files from `first` up to `last`; the SPEC that reads them one per batch."""
        tables = [file_of(batch) for batch in self.batches[first:last]]
        write_in_order(folder / self.name, tables, first)
        return f"parquet:{folder / self.name}?op=op&batch-files=1"


def file_of(changes: Sequence[Change]) -> pa.Table:
    """The content of a file: columns ``team``, ``t``, ``n`` and ``op``."""
    times = [None if t is None else t * SECOND for (_, t, _), _ in changes]
    return pa.table(
        {
            "team": pa.array([row[0] for row, _ in changes], pa.string()),
            "t": pa.array(times, pa.timestamp("us")),
            "n": pa.array([row[2] for row, _ in changes], pa.int64()),
            "op": pa.array([{1: "insert", -1: "delete"}[w] for _, w in changes], pa.string()),
        }
    )


def drawn(
    seed: int, batches: int = 6, rows: int = 30, *, speed: int = 60, disorder: int = 90
) -> list[list[Change]]:
    """Batches whose times move on by `speed` seconds each and are up to `disorder` seconds older; some rows are deleted.

    A row is inserted before it is deleted. Some times are null.
    """
    pick = random.Random(seed)
    there: list[Row] = []
    made: list[list[Change]] = []
    for number in range(batches):
        batch: list[Change] = []
        for _ in range(rows):
            if there and pick.random() < 0.25:
                batch.append((there.pop(pick.randrange(len(there))), -1))
                continue
            time = (
                number * speed + pick.randrange(speed) - pick.choice((0, pick.randrange(disorder)))
            )
            team, n = pick.choice(("a", "b", "c", None)), pick.choice((1, 2, 3, None))
            row = (team, None if pick.random() < 0.04 else time, n)
            batch.append((row, 1))
            there.append(row)
        made.append(batch)
    return made


def watermarks(tables: Sequence[Table]) -> list[int | None]:
    """The watermark at every version, beginning with the version without rows."""
    reached: list[int | None] = [None]
    for version in range(1, _last(tables) + 1):
        known = [
            table.rule.stands([row for b in table.batches[:version] for row, _ in b])
            for table in tables
            if table.rule is not None
        ]
        before = reached[-1]
        if None in known:
            reached.append(before)
            continue
        least = min(w for w in known if w is not None)
        reached.append(least if before is None else max(before, least))
    return reached


def _last(tables: Sequence[Table]) -> int:
    return max(len(table.batches) for table in tables)


# --- what is counted ------------------------------------------------------------------------------


@dataclass
class ModelResult:
    """Return the view of the model at every version, starting with the empty one.

    Attributes:
        groups: the groups with their numbers.
        dropped: per table the rows that were late in it.
        watermarks: where the watermark stands.
    """

    watermarks: list[int | None]
    groups: list[Groups] = field(default_factory=list)
    dropped: list[dict[str, list[Change]]] = field(default_factory=list)

    @property
    def late(self) -> list[int]:
        """How many rows were late up to every version."""
        return list(accumulate(sum(map(len, rows.values())) for rows in self.dropped))

    def at(self, version: int, groups: Groups, dropped: dict[str, list[Change]]) -> None:
        """Store a version."""
        assert version == len(self.groups)
        self.groups.append({key: Counter(numbers) for key, numbers in groups.items()})
        self.dropped.append(dropped)

    def complete(self, version: int) -> Groups:
        """The groups that the watermark has passed by a version."""
        reached = self.watermarks[version]
        return {
            key: numbers for key, numbers in self.groups[version].items() if passed(key[1], reached)
        }

    def open(self, version: int) -> Groups:
        """The groups with rows that the watermark has not passed."""
        gone = self.complete(version)
        return {
            key: +numbers
            for key, numbers in self.groups[version].items()
            if key not in gone and +numbers
        }


def passed(window: Window, watermark: int | None) -> bool:
    """Whether no more rows come for a window."""
    return window is not None and watermark is not None and window[1] <= watermark


def in_windows(
    tables: Sequence[Table],
    windows: Callable[[int], Iterator[tuple[int, int]]],
    counts: Callable[[Row], bool] = lambda _: True,
) -> ModelResult:
    """Count rows in windows; a row is late if the previous watermark has passed all its windows."""
    told = ModelResult(watermarks(tables))
    groups: Groups = {}
    told.at(0, groups, {})
    for version in range(1, len(told.watermarks)):
        late: dict[str, list[Change]] = {}
        reached = told.watermarks[version - 1]
        for table, row, weight in _changes(tables, version):
            if not counts(row):
                continue
            team, time, n = row
            all_: list[Window] = [None] if time is None else list(windows(time))
            still = [window for window in all_ if not passed(window, reached)]
            if all_ and not still:
                late.setdefault(table, []).append((row, weight))
            for window in still:
                groups.setdefault((team, window), Counter())[n] += weight
        told.at(version, groups, late)
    return told


def in_sessions(tables: Sequence[Table], gap: int) -> ModelResult:
    """Rows in sessions; a row is late where it is before the watermark."""
    told = ModelResult(watermarks(tables))
    rows: Counter[Row] = Counter()
    told.at(0, {}, {})
    for version in range(1, len(told.watermarks)):
        late: dict[str, list[Change]] = {}
        before = told.watermarks[version - 1]
        for table, row, weight in _changes(tables, version):
            if row[1] is not None and before is not None and row[1] < before:
                late.setdefault(table, []).append((row, weight))
            else:
                rows[row] += weight
        told.at(version, sessions(rows, gap), late)
    return told


def sessions(rows: Counter[Row], gap: int) -> Groups:
    """The sessions of existing rows."""
    groups: Groups = {}
    teams = {row[0] for row in rows}
    for team in teams:
        here = [row for row, weight in rows.items() if row[0] == team and weight > 0]
        times = sorted({row[1] for row in here if row[1] is not None})
        starts = [t for i, t in enumerate(times) if not i or t - times[i - 1] >= gap]
        for row in here:
            window = None
            if row[1] is not None:
                start = max(s for s in starts if s <= row[1])
                later = min((s for s in starts if s > start), default=None)
                end = max(t for t in times if later is None or t < later) + gap
                window = (start, end)
            groups.setdefault((team, window), Counter())[row[2]] += rows[row]
    return groups


def _changes(tables: Sequence[Table], version: int) -> Iterator[tuple[str, Row, int]]:
    """The changes of a version with the names of their tables."""
    for table in tables:
        if version <= len(table.batches):
            yield from ((table.name, row, weight) for row, weight in table.batches[version - 1])


def hopping(size: int, slide: int, offset: int = 0) -> Callable[[int], Iterator[tuple[int, int]]]:
    """The windows of a time."""

    def windows(time: int) -> Iterator[tuple[int, int]]:
        start = (time - offset) // slide * slide + offset
        while start + size > time:
            yield start, start + size
            start -= slide

    return windows


def tumbling(size: int, offset: int = 0) -> Callable[[int], Iterator[tuple[int, int]]]:
    """The window of a time."""
    return hopping(size, size, offset)


def struct(window: Window) -> Any:
    """A window as views show it."""
    if window is None:
        return None
    return tuple(zip(("start", "end"), map(instant, window), strict=True))


def end(window: Window) -> Any:
    """The end of a window as views show it."""
    return None if window is None else instant(window[1])


def measured(groups: Groups, shown: Callable[[Window], Any]) -> Bag:
    """Team, window, count, sum and maximum of the groups that have rows."""
    found: Bag = Counter()
    for (team, window), numbers in groups.items():
        count = sum(numbers.values())
        there = [n for n in numbers.elements() if n is not None]
        if count > 0:
            total, most = (sum(there), max(there)) if there else (None, None)
            found[(team, shown(window), count, total, most)] += 1
    return found
