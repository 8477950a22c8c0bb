"""Compute batches while Spark still plans them.

Spark writes the offsets of a batch to its log, plans a query for the batch, and calls the function of
``foreachBatch`` with it. Where the driver reads the files of a batch itself, it needs only the logs.
So a thread begins as soon as the offsets are written. The function waits for the thread. Spark
replays a batch that its log does not record as finished, so the order of writes is the same:
offsets, our version, Spark's record of the finished batch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Condition, Thread, current_thread
from typing import Any, NoReturn

from pyspark.sql import SparkSession

from substrait_agg.files.filesystem import filesystem
from substrait_agg.spark.offsets.folder_watcher import FolderWatcher

_MOST_SKIPPED = 64


class NeedsSpark(Exception):
    """A batch needs the DataFrame that Spark plans. Nothing of it was committed."""


class KnownSettings:
    """The settings of the session of a stream, which do not change. Each is read once."""

    def __init__(self, session: SparkSession) -> None:
        self._conf = session.conf
        self._known: dict[str, str | None] = {}

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return the value of a setting, or the default."""
        if key not in self._known:
            self._known[key] = self._conf.get(key, None)
        value = self._known[key]
        return default if value is None else value


class SettingsOnly:
    """Stands for the DataFrame of a batch and for its session while Spark plans the batch.

    Everything but the settings raises `NeedsSpark`.

    Attributes:
        conf: the settings of the session.
    """

    def __init__(self, session: SparkSession) -> None:
        self.conf: Any = KnownSettings(session)

    @property
    def sparkSession(self) -> Any:  # noqa: N802 - as of a DataFrame
        """Return what stands for the session."""
        return self

    def __getattr__(self, name: str) -> NoReturn:
        raise NeedsSpark(name)


class PlannedBatches:
    """Computes batches in a thread as soon as Spark has written their offsets.

    A batch is computed by this thread or by the caller of `wait`, never by both. After a batch that needs
    Spark, the thread leaves out one batch, then three, up to `_MOST_SKIPPED`.

    Args:
        compute: computes and commits a batch.
    """

    def __init__(self, compute: Callable[[int], None]) -> None:
        self._compute = compute
        self._changed = Condition()
        self._current: int | None = None
        self._taken = -1
        self._done: tuple[int, Exception | None] = (-1, None)
        self._skipped = self._to_skip = 0
        self._watcher: FolderWatcher | None = None
        self._thread: Thread | None = None

    def begin(self, folder: Path) -> None:
        """Watch the folder of Spark's offsets. Do nothing where the system cannot watch a folder.

        Spark creates the folder if it does not exist. The watch begins before that.
        """
        with suppress(OSError):
            filesystem().make(folder)
        self._watcher = FolderWatcher.of(folder)
        if self._watcher is not None:
            self._thread = Thread(target=self._run, args=(self._watcher,), daemon=True)
            self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Return whether the thread computes a batch."""
        return self._current is not None

    def wait(self, batch: int) -> None:
        """Leave a batch to the caller, unless it is being computed; wait for it then."""
        with self._changed:
            self._taken = batch
            self._changed.wait_for(lambda: self._current is None)

    def has_computed(self, batch: int) -> bool:
        """Return whether a batch has been computed; call `wait` before.

        Raises:
            Exception: why it could not be computed.
        """
        done, error = self._done
        if done != batch or isinstance(error, NeedsSpark):
            return False
        if error is not None:
            raise error
        return True

    def end(self) -> None:
        """Wait for the batch in progress, and end the thread."""
        if self._watcher is not None and self._thread is not None:
            self._watcher.close()
            if self._thread is not current_thread():
                self._thread.join()

    def _run(self, watcher: FolderWatcher) -> None:
        for name in watcher.names():
            if name.isdigit() and self._begins(int(name)):
                self._finish(int(name))

    def _begins(self, batch: int) -> bool:
        """Return whether the thread computes a batch: it is not taken, and not to be left out."""
        with self._changed:
            if batch <= self._taken:
                return False
            if self._to_skip:
                self._to_skip -= 1
                return False
            self._current = batch
            return True

    def _finish(self, batch: int) -> None:
        error: Exception | None = None
        try:
            self._compute(batch)
        except Exception as raised:  # noqa: BLE001 - `has_computed` raises it
            error = raised
        with self._changed:
            self._skipped = (
                min(2 * self._skipped + 1, _MOST_SKIPPED) if isinstance(error, NeedsSpark) else 0
            )
            self._to_skip = self._skipped
            self._done, self._current = (batch, error), None
            self._changed.notify_all()
