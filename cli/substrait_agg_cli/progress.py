"""Progress of a run on stderr: one line that is rewritten on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
from typing import Any, TextIO

CLEAR_LINE = "\r\x1b[K"


class Meter:
    """Shows `Run.progress` after every batch; may be called from another thread.

    Args:
        stream: where to.
        live: rewrite one line in place.
    """

    def __init__(self, stream: TextIO, *, live: bool) -> None:
        self._stream = stream
        self._live = live
        self._open = False
        self._lock = threading.Lock()

    def show(self, progress: Any) -> None:
        """Show the state of the run."""
        with self._lock:
            text = describe(progress)
            self._stream.write(f"{CLEAR_LINE}{text}" if self._live else f"{text}\n")
            self._stream.flush()
            self._open = self._live

    def end(self) -> None:
        """End the line that is rewritten, so that what follows starts on its own."""
        with self._lock:
            if self._open:
                self._stream.write("\n")
                self._stream.flush()
                self._open = False


def describe(progress: Any) -> str:
    """One line: version, rows read, groups touched, changes written, rows per second, rows in quarantine if any."""
    waiting = f", {progress.quarantined:,} rows in quarantine" if progress.quarantined else ""
    return (
        f"version {progress.version}: {progress.input_rows:,} rows, "
        f"{progress.groups_touched:,} groups touched, {progress.changes:,} changes, "
        f"{progress.rows_per_second:,.0f} rows/s{waiting}"
    )
