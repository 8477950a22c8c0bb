"""Share the tests between the processes of `make test`, and show where the time goes.

One process collects the tests and forks the others, so that the modules are imported once. A part is the tests of one
file that need the same kind of process. Each process takes a part, runs it and takes the next one, until none is left.
A part is taken by creating a file for it in a shared folder, so that no durations have to be known and no process waits
for the other while there are parts.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
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
    "tests/fuzz/test_bombs.py",
    "tests/plan/test_fields.py",
    "tests/joins/",
)
"""The parts that come first, so that those at the end are short."""
PROCESSES = (1, 2, 3)
"""They begin with the shared Spark session, with the tests without a JVM, and with commands that start a JVM."""
QUEUE = "queue"
"""The folder within the shared one that has a file for each part that was taken."""
PENDING = "archive-pending"
"""A file in the shared folder for as long as the archive of classes is being made (`tests.jvm`)."""
POLL_SECONDS = 0.2
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
    the other two, and then takes part in all other tests.

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
        3: [*command, *reversed(session), *reversed(other)],
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
    """Run the tests of the parts that this process takes, and fork the other processes.

    Args:
        folder: has the parts that were taken, and the output of the forked processes.
        clock: measures the parts.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder = folder
        self.clock = clock
        self.process = PROCESSES[0]
        self.first = os.getpid()
        self.forked: list[int] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run tests in place of the loop of pytest; errors of the collection are left to that one."""
        if session.testsfailed or session.config.option.collectonly:
            return None
        self._fork(session.config)
        while self.process == PROCESSES[-1] and (self.folder / PENDING).exists():
            time.sleep(POLL_SECONDS)
        left: dict[FilePart, list[pytest.Item]] = defaultdict(list)
        for item in session.items:
            left[part_of(item)].append(item)
        queue = Queue(order_of(left, self.process), self.folder / QUEUE)
        tests = (item for part in iter(queue.take, None) for item in left.pop(part))
        # The next part is taken before the last test of a part: fixtures depend on which test follows.
        upcoming = next(tests, None)
        while upcoming is not None:
            item, upcoming = upcoming, next(tests, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=upcoming)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            if self.first not in (os.getpid(), os.getppid()):
                raise session.Interrupted("the first process has ended")
        others = [item for rest in left.values() for item in rest]
        session.config.hook.pytest_deselected(items=others)
        return True

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Wait for the forked processes; the session fails if one of them does."""
        for process in self.forked:
            if session.exitstatus == pytest.ExitCode.INTERRUPTED:
                os.kill(process, signal.SIGINT)
            _, status = os.waitpid(process, 0)
            if status and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _fork(self, config: pytest.Config) -> None:
        capture = config.pluginmanager.get_plugin("capturemanager")
        assert capture is not None
        # Its files are opened again after the fork: processes cannot share them.
        capture.stop_global_capturing()
        sys.stdout.flush()
        sys.stderr.flush()
        for number in PROCESSES[1:]:
            with warnings.catch_warnings():
                # The threads that modules start when they are imported are not used after the fork.
                warnings.simplefilter("ignore")
                process = os.fork()
            if process == 0:
                self.process, self.forked = number, []
                _redirect(config, self.folder / f"log{number}")
                break
            self.forked.append(process)
        capture.start_global_capturing()
        capture.suspend_global_capture()
        self.clock.start(self.process, self.forked)


def _redirect(config: pytest.Config, path: Path) -> None:
    """Write the output of this process to a file, and store nothing in the cache of pytest."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(descriptor, stream.fileno())
    os.close(descriptor)
    for name in ("lfplugin", "nfplugin"):
        if config.pluginmanager.has_plugin(name):
            config.pluginmanager.unregister(name=name)


class Clock:
    """Measure every part as a whole, and write its seconds when the session ends.

    Args:
        folder: where the seconds of each process are written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spent: dict[FilePart, Spent] = defaultdict(lambda: Spent(0.0, 0.0))
        self.start(PROCESSES[0], [])
        self.since = Spent(self.process.create_time() - time.time() + time.monotonic(), 0.0)

    def start(self, number: int, forked: Collection[int]) -> None:
        """Measure the process with this number from now on, without the processes that it forked."""
        self.path = self.folder / f"spent{number}"
        self.process = psutil.Process()
        self.forked = forked
        if number != PROCESSES[0]:
            self.spent.clear()
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
        for child in self.process.children():
            with suppress(psutil.Error):  # it has just ended
                if child.pid not in self.forked:
                    used += sum(sum(p.cpu_times()[:4]) for p in _family(child))
        return Spent(time.monotonic(), used)


def _family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("durations", "sharing and measuring")
    group.addoption(
        "--share",
        type=Path,
        metavar="FOLDER",
        help="run the tests in processes that share a folder",
    )


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--share")
    if folder:
        (folder / QUEUE).mkdir()
        clock = Clock(folder)
        config.pluginmanager.register(clock, "clock")
        config.pluginmanager.register(Share(folder, clock), "share")


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
