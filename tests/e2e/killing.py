"""The command as a process that is killed with all its child processes, after some committed
versions.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import location_of

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "substrait_agg_cli"]
PATIENCE = 240.0
PACE = "150ms"
"""Between the batches of a run that is killed."""
QUICK = (
    "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
)  # fmt: skip
"""Most of what a short run takes is the JVM compiling itself."""


@dataclass(frozen=True)
class Command:
    """A run of the command with the same arguments every time.

    Attributes:
        arguments: after ``run``.
        checkpoint: folder or URL of the checkpoint.
        log: file that collects stderr.
        environment: variables that it has besides.
    """

    arguments: tuple[str, ...]
    checkpoint: Path | str
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        """Start the command in its own session, so that all its processes can be found and killed.

        Args:
            more: further arguments.
        """
        environment = {
            **os.environ,
            **self.environment,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}",
        }
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [
                    *COMMAND,
                    "run",
                    *self.arguments,
                    *more,
                    *QUICK,
                    "--checkpoint",
                    str(self.checkpoint),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    @contextmanager
    def running(self, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start the command, and kill all its processes at the end of the block."""
        process = self.start(*more)
        try:
            yield process
        finally:
            kill_session(process)

    def wait(self, process: subprocess.Popen[bytes], reached: Callable[[], bool]) -> None:
        """Wait until a condition holds, while the process runs."""
        deadline = time.monotonic() + PATIENCE
        while not reached():
            assert process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.003)

    def finish(self) -> None:
        """Run to the end, which must be a success."""
        with self.running() as process:
            status = process.wait(PATIENCE)
        assert status == 0, self.log.read_text()[-3000:]

    def kill_after(self, versions: int, delay: float) -> int:
        """Kill the run `delay` seconds after it has committed `versions` more versions.

        Its batches come at an interval, so that it does not end before.

        Returns:
            The newest version then.
        """
        wanted = newest(self.checkpoint) + versions
        with self.running("--every", PACE) as process:
            self.wait(process, lambda: newest(self.checkpoint) >= wanted)
            time.sleep(delay)
            assert process.poll() is None, "the run ended before it was killed"
        return newest(self.checkpoint)


def newest(checkpoint: Path | str) -> int:
    """The newest version in a checkpoint, -1 for none."""
    names = filesystem().names(location_of(checkpoint) / "snapshots")
    return max((int(n.removesuffix(".json")) for n in names if n.endswith(".json")), default=-1)


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill -9 every process of the session that `process` leads: Python, the JVM, its workers."""
    for _ in range(3):
        for member in _members(process.pid):
            try:
                os.kill(member, signal.SIGKILL)
            except ProcessLookupError:
                continue
    process.wait()


def signal_session(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to every process of the session, such as one that stops it or wakes it up."""
    for member in _members(process.pid):
        try:
            os.kill(member, number)
        except ProcessLookupError:
            continue


def _members(session: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            found.append(int(stat.parent.name))
    return found
