"""Killing processes of one run of the command with SIGKILL: all of them, or only some. Only the standard library is used here.

The command leads a session of its own, so its processes are known: the Python driver, which leads it, the JVM, and Spark's
Python workers.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Literal

Victims = Literal["all", "driver", "jvm", "workers"]
"""Every process of the session, the Python driver alone, the JVM alone, the Python workers with the daemon that forks them."""


def members(session: int) -> dict[int, str]:
    """The processes of a session that are not dead: number and command line."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                found[int(stat.parent.name)] = (stat.parent / "cmdline").read_text()
        except OSError:
            continue
    return found


def chosen(session: int, victims: Victims) -> list[int]:
    """The ids of the processes to kill; this process comes last, if it is one of them."""
    found = [pid for pid, line in members(session).items() if _is(victims, session, pid, line)]
    return sorted(found, key=lambda pid: (pid == os.getpid(), pid))


def _is(victims: Victims, session: int, pid: int, line: str) -> bool:
    if victims == "driver":
        return pid == session
    if victims == "jvm":
        return line.partition("\0")[0].endswith("java")
    return victims == "all" or "pyspark.daemon" in line


def strike(session: int, victims: Victims) -> int:
    """Kill them; returns how many there were."""
    struck: set[int] = set()
    for _ in range(
        3 if victims == "all" else 1
    ):  # what one of them has just started is found the next time
        for pid in chosen(session, victims):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            struck.add(pid)
    return len(struck)
