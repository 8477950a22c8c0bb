"""Share the tests between the two processes of `make test`, and show where the time goes.

The tests that start a JVM run in the first process. The others fill both, by the seconds in ``durations.json``, which
`make durations` records: processor time of the test process and of all that it starts, so that it does not matter what
else the machine does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

RECORDED = Path(__file__).parent / "durations.json"
UNKNOWN = 0.5
"""Seconds of a file that is not recorded; shorter ones are not recorded."""
JVM, OTHER = "jvm", "other"
LISTED = 15


class FilePart(NamedTuple):
    """The tests of one file that start a JVM, or those that do not."""

    kind: str
    file: str


class Spent(NamedTuple):
    """Seconds.

    Attributes:
        wall: by the clock.
        processor: of the process and of all that it started.
    """

    wall: float
    processor: float


# --- sharing -------------------------------------------------------------------------------------


def shares(
    parts: Iterable[FilePart], recorded: dict[FilePart, float]
) -> tuple[set[FilePart], set[FilePart]]:
    """Share parts between two processes: all that start a JVM to the first, each other to the less busy one."""
    ordered = sorted(set(parts), key=lambda part: (-recorded.get(part, UNKNOWN), part))
    first, second = {part for part in ordered if part.kind == JVM}, set[FilePart]()
    busy = [sum(recorded.get(part, UNKNOWN) for part in first), 0.0]
    for part in ordered:
        if part.kind == OTHER:
            chosen = busy.index(min(busy))
            (first, second)[chosen].add(part)
            busy[chosen] += recorded.get(part, UNKNOWN)
    return first, second


def read_recorded(path: Path = RECORDED) -> dict[FilePart, float]:
    """Seconds of each part that is recorded."""
    document = json.loads(path.read_text())
    return {
        FilePart(kind, file): s for kind, files in document.items() for file, s in files.items()
    }


def write_recorded(spent: dict[FilePart, Spent], path: Path = RECORDED) -> None:
    """Record the processor time of the longer parts."""
    document: dict[str, dict[str, float]] = {JVM: {}, OTHER: {}}
    for part, seconds in sorted(spent.items()):
        if seconds.processor >= UNKNOWN:
            document[part.kind][part.file] = round(seconds.processor, 1)
    path.write_text(json.dumps(document, indent=1) + "\n")


def part_of(item: pytest.Item) -> FilePart:
    """The part that a test belongs to."""
    kind = JVM if item.get_closest_marker("spark") else OTHER
    return FilePart(kind, item.path.relative_to(item.config.rootpath).as_posix())


# --- in the test processes -----------------------------------------------------------------------


class Share:
    """Keep only the tests of one process."""

    def __init__(self, number: int) -> None:
        self.number = number

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        mine = shares(map(part_of, items), read_recorded())[self.number - 1]
        left_out = [item for item in items if part_of(item) not in mine]
        items[:] = [item for item in items if part_of(item) in mine]
        config.hook.pytest_deselected(items=left_out)


class Clock:
    """Measure every part as a whole, and write its seconds when the session ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = psutil.Process()
        self.spent: dict[FilePart, Spent] = defaultdict(lambda: Spent(0.0, 0.0))
        self.since = self._now()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        result = yield
        part = part_of(item)
        if nextitem is None or part_of(nextitem) != part:
            self._add(part)
        return result

    def pytest_collection_finish(self) -> None:
        self.since = self._now()

    def pytest_sessionfinish(self) -> None:
        rows = [[*part, *spent] for part, spent in self.spent.items()]
        self.path.write_text(json.dumps(rows))

    def _add(self, part: FilePart) -> None:
        now, spent = self._now(), self.spent[part]
        wall = spent.wall + now.wall - self.since.wall
        # The time of a process that something else waited for is lost, which could give less than nothing.
        processor = spent.processor + max(0.0, now.processor - self.since.processor)
        self.spent[part] = Spent(wall, processor)
        self.since = now

    def _now(self) -> Spent:
        used = sum(self.process.cpu_times()[:4])
        for child in self.process.children(recursive=True):
            with suppress(psutil.Error):  # it has just ended
                used += sum(child.cpu_times()[:4])
        return Spent(time.monotonic(), used)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("durations", "sharing and measuring")
    group.addoption("--share", type=int, choices=(1, 2), help="only the tests of this process")
    group.addoption("--spent", type=Path, metavar="FILE", help="where to write the time spent")


def pytest_configure(config: pytest.Config) -> None:
    number, path = config.getoption("--share"), config.getoption("--spent")
    if number:
        config.pluginmanager.register(Share(number), "share")
    if path:
        config.pluginmanager.register(Clock(path), "clock")


# --- at the end of `make test` -------------------------------------------------------------------


def read_spent(path: Path) -> dict[FilePart, Spent]:
    """Return the durations that one process wrote; nothing if it ended before."""
    rows: list[Any] = json.loads(path.read_text() or "[]")
    return {FilePart(kind, file): Spent(wall, used) for kind, file, wall, used in rows}


def added(spent: Iterable[tuple[str, Spent]]) -> dict[str, Spent]:
    """Sums per name, the longest first."""
    sums: dict[str, Spent] = defaultdict(lambda: Spent(0.0, 0.0))
    for name, seconds in spent:
        total = sums[name]
        sums[name] = Spent(total.wall + seconds.wall, total.processor + seconds.processor)
    return dict(sorted(sums.items(), key=lambda row: -row[1].wall))


def summary(processes: Iterable[dict[FilePart, Spent]]) -> Iterator[str]:
    """Lines that show the time per process, folder and file."""
    measured = list(processes)
    yield "   wall  processor  where the time went (seconds)"
    tables = [
        added(
            (f"process {i} of {len(measured)}", seconds)
            for i, spent in enumerate(measured, 1)
            for seconds in spent.values()
        ),
        added((_folder(p), s) for spent in measured for p, s in spent.items()),
        added((_name(p), s) for spent in measured for p, s in spent.items()),
    ]
    for table in tables:
        yield from (
            f"{s.wall:7.1f}  {s.processor:9.1f}  {n}" for n, s in list(table.items())[:LISTED]
        )
        yield ""


def _folder(part: FilePart) -> str:
    return _name(FilePart(part.kind, Path(part.file).parent.as_posix() + "/"))


def _name(part: FilePart) -> str:
    return f"{part.file} (JVM)" if part.kind == JVM else part.file


def main() -> None:
    """Show the time that the processes wrote down; record it with ``--record``."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--record", action="store_true", help=f"write {RECORDED.name} again")
    options = parser.parse_args()
    processes = [read_spent(path) for path in options.files]
    sys.stdout.writelines(f"{line}\n" for line in summary(processes))
    if options.record:
        write_recorded({part: s for spent in processes for part, s in spent.items()})


if __name__ == "__main__":
    main()
