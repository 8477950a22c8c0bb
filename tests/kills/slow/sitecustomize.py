"""Python reads this at its start where the folder is on its path: some tasks on executors are slow, so that Spark speculates.

Every process of a worker sleeps, once in a while, before it creates a file.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

if any("pyspark.daemon" in word for word in sys.orig_argv):
    from substrait_agg import disk

    class Slow(disk.Disk):
        """Sleeps before a sixth of all files."""

        @contextmanager
        def create(self, path: Path, opened: Any) -> Iterator[Any]:
            if random.Random(os.urandom(8)).random() < 1 / 6:
                time.sleep(2.5)
            block: AbstractContextManager[Any] = super().create(path, opened)
            with block as sink:
                yield sink

    disk._DISK = Slow()
