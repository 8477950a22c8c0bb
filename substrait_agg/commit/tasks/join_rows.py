"""Count the rows of a join while its tasks produce them, and bound them.

The tasks of a join run in several processes. Those on the machine of the driver share their counts
in a file. Elsewhere a task knows only its own count, and the driver adds the counts up at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from substrait_agg.errors import RunFailed

SHARED_FROM = 1 << 16
"""Rows from which a task shares its count. Most tasks have fewer rows, and open no file."""
_COUNT = np.dtype(np.int64)


@dataclass(frozen=True, slots=True)
class JoinRows:
    """Where the tasks of a join count its rows in a batch, and their bound.

    Attributes:
        name: the join in messages.
        most: the most rows in a batch; 0 for any number.
        file: path of the file in which tasks share their counts, on the machine of the driver; empty for none.
        task: number of the task whose count it is.
    """

    name: str
    most: int = 0
    file: str = ""
    task: int = 0

    def share(self, rows: int) -> None:
        """Share the count of a task, where the file can be written."""
        with suppress(OSError):
            handle = os.open(self.file, os.O_WRONLY | os.O_CLOEXEC)
            try:
                count = np.array([rows], _COUNT).tobytes()
                os.pwrite(handle, count, self.task * _COUNT.itemsize)
            finally:
                os.close(handle)

    def total(self) -> int:
        """Return the sum of the counts that tasks have shared; 0 without any."""
        try:
            handle = os.open(self.file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            counts = os.pread(handle, os.fstat(handle).st_size, 0)
        finally:
            os.close(handle)
        return int(np.frombuffer(counts, _COUNT, len(counts) // _COUNT.itemsize).sum())

    def reset(self) -> None:
        """Forget the counts, because the tasks run again."""
        with suppress(OSError):
            os.truncate(self.file, 0)

    def check(self, rows: int, count_pairs: Callable[[], int] | None = None) -> None:
        """Check the rows of a join against the bound.

        Args:
            rows: the rows so far.
            count_pairs: counts the pairs of rows with equal keys in the part of the batch that is
                being computed.

        Raises:
            RunFailed: JOIN_ROWS_TOO_MANY.
        """
        if not self.most or rows <= self.most:
            return
        pairs = ""
        if count_pairs is not None:
            pairs = f"; the rows that it is joining make {count_pairs():,} pairs with equal keys"
        raise RunFailed(
            "JOIN_ROWS_TOO_MANY",
            f"{self.name} has produced {rows:,} rows in one batch, more than {self.most:,}{pairs}",
            help="check that the join compares all the columns that it should; otherwise give --max-join-rows a larger "
            "number, or 0 for no bound. Nothing of the batch was committed: the run continues from there",
        )


class RowCounter:
    """Counts the rows of a task of a join; nothing for other operators."""

    def __init__(self, join: JoinRows | None) -> None:
        self._join = join
        self._rows = 0

    def add(self, rows: int, count_pairs: Callable[[], int] | None) -> None:
        """Add rows, and check them as `JoinRows.check`."""
        join = self._join
        if join is None or not rows:
            return
        self._rows += rows
        total = self._rows
        if total >= SHARED_FROM:
            join.share(total)
            total = max(total, join.total())
        join.check(total, count_pairs)
