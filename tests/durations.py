"""Share the tests between the processes of `make test`, and show where the time goes.

A part is the tests of one file that need the same kind of process. Each process takes a part, runs it and takes the
next one, until none is left. A part is taken by creating a file for it in a shared folder, so that no durations have
to be known and no process waits for the other while there are parts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

SESSION, COMMAND, OTHER = "session", "command", "other"
"""Tests that use the shared Spark session, that start a JVM of their own, and that need no JVM."""
START = "start"
"""The kind under which the time before the first test is shown."""
LONG = (
    "tests/kills/",
    "tests/conformance/test_scalar.py",
    "tests/spark/test_s",
    "tests/e2e/test_joins.py",
    "tests/pages/",
    "tests/crash/",
    "tests/repo/test_checks.py",
    "tests/packaging/",
    "tests/commit/test_damage.py",
    "tests/plan/test_fields.py",
    "tests/joins/",
)
"""The parts that come first, so that those at the end are short."""
PROCESSES = (1, 2, 3)
"""They begin with the shared Spark session, with the tests without a JVM, and with commands that start a JVM."""
LISTED = 20


class FilePart(NamedTuple):
    """The tests of one file that are of one kind."""

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


def order_of(parts: Iterable[FilePart], process: int) -> list[FilePart]:
    """Return the parts that a process may take, in the order in which it asks for them.

    The second has no Spark session. Commands that start a JVM wait more than they compute, so the third runs them beside
    the other two, and then takes part in the tests with a session.

    Args:
        parts: all parts.
        process: one of `PROCESSES`.
    """
    every = sorted(set(parts), key=lambda part: (not part.file.startswith(LONG), part))
    session, command, other = (
        [part for part in every if part.kind == kind] for kind in (SESSION, COMMAND, OTHER)
    )
    # They take from opposite ends.
    orders = {
        1: [*session, *reversed(command), *reversed(other)],
        2: [*other, *reversed(command)],
        3: [*command, *reversed(session)],
    }
    return orders[process]


class Queue:
    """The parts that a process runs.

    Args:
        parts: in the order of `order_of`.
        folder: has a file for each part that a process has taken.
    """

    def __init__(self, parts: Sequence[FilePart], folder: Path) -> None:
        self._parts = iter(parts)
        self._folder = folder

    def take(self) -> FilePart | None:
        """Take the next part that no process has; return None if there is none."""
        return next(filter(self._taken, self._parts), None)

    def _taken(self, part: FilePart) -> bool:
        try:
            (self._folder / "-".join(part).replace("/", "-")).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def part_of(item: pytest.Item) -> FilePart:
    """Return the part that a test belongs to."""
    kind = OTHER
    if item.get_closest_marker("spark"):
        kind = SESSION if "spark" in getattr(item, "fixturenames", ()) else COMMAND
    return FilePart(kind, item.path.relative_to(item.config.rootpath).as_posix())


# --- in the test processes -----------------------------------------------------------------------


class Share:
    """Run the tests of the parts that this process takes.

    Args:
        process: its number.
        folder: of the `Queue`.
    """

    def __init__(self, process: int, folder: Path) -> None:
        self.process = process
        self.folder = folder

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run tests in place of the loop of pytest; errors of the collection are left to that one."""
        if session.testsfailed or session.config.option.collectonly:
            return None
        left: dict[FilePart, list[pytest.Item]] = defaultdict(list)
        for item in session.items:
            left[part_of(item)].append(item)
        queue = Queue(order_of(left, self.process), self.folder)
        items, part = list[pytest.Item](), queue.take()
        while part is not None or items:
            if part is not None:
                items += left.pop(part)
            # The last test of a part is run when it is known which test follows.
            part = queue.take()
            last = 0 if part is None else 1
            upcoming = [*items[1:], None]
            for item, following in zip(items[: len(items) - last], upcoming, strict=False):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
            items = items[len(items) - last :]
        others = [item for rest in left.values() for item in rest]
        session.config.hook.pytest_deselected(items=others)
        return True


class Clock:
    """Measure every part as a whole, and write its seconds when the session ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = psutil.Process()
        self.spent: dict[FilePart, Spent] = defaultdict(lambda: Spent(0.0, 0.0))
        self.since = Spent(self.process.create_time() - time.time() + time.monotonic(), 0.0)

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
        self._add(FilePart(START, "start and collection"))

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
    group.addoption("--share", type=int, choices=PROCESSES, help="the number of this process")
    group.addoption("--queue", type=Path, metavar="FOLDER", help="the folder that they share")
    group.addoption("--spent", type=Path, metavar="FILE", help="where to write the time spent")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare the third process the import of modules that it takes no part of."""
    if config.getoption("--share") != 3 or not collection_path.match("test_*.py"):
        return None
    return b"spark" not in collection_path.read_bytes() or None


def pytest_configure(config: pytest.Config) -> None:
    number, path = config.getoption("--share"), config.getoption("--spent")
    if number:
        share = Share(number, config.getoption("--queue"))
        config.pluginmanager.register(share, "share")
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
    """Give lines that show the time per process, folder and file.

    What waits uses no processor: it sleeps, waits for a disk or for the other process.
    """
    measured = list(processes)
    yield "   wall  processor  waiting  where the time went (seconds)"
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
            f"{s.wall:7.1f}  {s.processor:9.1f}  {max(0.0, s.wall - s.processor):7.1f}  {n}"
            for n, s in list(table.items())[:LISTED]
        )
        yield ""


def _folder(part: FilePart) -> str:
    parent = part.file if part.kind == START else Path(part.file).parent.as_posix() + "/"
    return _name(FilePart(part.kind, parent))


def _name(part: FilePart) -> str:
    return f"{part.file} (JVM)" if part.kind in (SESSION, COMMAND) else part.file


def main() -> None:
    """Show the time that the processes wrote down."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    processes = [read_spent(path) for path in parser.parse_args().files]
    sys.stdout.writelines(f"{line}\n" for line in summary(processes))


if __name__ == "__main__":
    main()
