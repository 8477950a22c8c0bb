"""Python imports this at its start if the folder is on its path: faults in tasks on executors.

Variables of the environment: ``TASK_KILLS`` (a folder: in every version, in the middle of a task, the executor that computes it is killed
with SIGKILL, and a file named by the version is made there), ``TASK_SLEEPS`` (seconds that a task sleeps, once in a while, before it
creates a file, so that Spark speculates).
"""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from substrait_agg.files.locations import Location

VERSION = re.compile(r"-(\d{12})-")

if any("pyspark.daemon" in word for word in sys.orig_argv):
    from substrait_agg.files import filesystem

    DAEMON = os.getpid()
    KILLS, SLEEPS = os.environ.get("TASK_KILLS"), float(os.environ.get("TASK_SLEEPS", "0"))

    def parent(pid: int) -> int:
        """The process that has started one."""
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def kill_executor(folder: Path, name: str) -> None:
        """Once in a version, at a file of it by chance."""
        found = VERSION.search(name)
        if found is None or random.Random(os.urandom(8)).random() < 0.5:
            return
        mark = folder / str(int(found.group(1)))
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(parent(DAEMON), signal.SIGKILL)

    class Disturbed(filesystem.FileSystem):
        """Where files are created, it happens."""

        @contextmanager
        def create(self, path: Location, opened: Any, *, durable: bool = True) -> Iterator[Any]:
            if SLEEPS and random.Random(os.urandom(8)).random() < 1 / 16:
                time.sleep(SLEEPS)
            block: AbstractContextManager[Any] = super().create(path, opened, durable=durable)
            with block as sink:
                if KILLS:
                    kill_executor(Path(KILLS), path.name)
                yield sink

    filesystem._DISK = Disturbed()
