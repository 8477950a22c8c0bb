"""Peak memory of an engine's processes, looked at five times a second, and their processor time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

SECONDS = 0.2


class Peak:
    """Follows a process and all below it.

    Args:
        pid: of the engine's process.

    Attributes:
        bytes: greatest sum so far of each part: ``driver`` (the process itself), ``jvm``, ``workers`` (what the JVM started),
            and ``workers_own``, which leaves out pages of mapped files: they are the system's, and given back when it needs them.
    """

    def __init__(self, pid: int) -> None:
        self.bytes: dict[str, int] = {}
        self._root = psutil.Process(pid)
        self._ended = threading.Event()

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Look while a block runs."""
        self._ended.clear()
        thread = threading.Thread(target=self._look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def cpu(self) -> float:
        """Return the seconds of processor time of the process and all below it, so far."""
        with suppress(psutil.Error):
            below = self._root.children(recursive=True)
            return sum(map(_cpu, [self._root, *below]))
        return 0.0

    def _look(self) -> None:
        while not self._ended.wait(SECONDS):
            for part, size in self._now().items():
                self.bytes[part] = max(self.bytes.get(part, 0), size)

    def _now(self) -> Counter[str]:
        found: Counter[str] = Counter()
        with suppress(psutil.Error):
            found["driver"] = self._root.memory_info().rss
            for child in self._root.children():
                with suppress(psutil.Error):
                    self._add(found, child)
        return found

    @staticmethod
    def _add(found: Counter[str], child: psutil.Process) -> None:
        found["jvm"] += child.memory_info().rss
        for worker in child.children(recursive=True):
            with suppress(psutil.Error):
                memory = worker.memory_info()
                found["workers"] += memory.rss
                found["workers_own"] += memory.rss - memory.shared


def _cpu(process: psutil.Process) -> float:
    """Return the seconds of a process and of its children that have ended."""
    with suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0
