"""Show the progress of a run on stderr: one updated line on a terminal, else plain lines."""

from __future__ import annotations

import shutil
import threading
from typing import TextIO

from substrait_agg.metrics.progress import Progress
from substrait_agg.metrics.summary import progress_line, start_line

CLEAR_LINE = "\r\x1b[K"


class ProgressMeter:
    """A display that shows `Run.progress` after every batch. Other threads may call it.

    Args:
        stream: the stream to write to.
        live: whether to update one line in place.
        loading: seconds from the start of the program to the start of the run.
    """

    def __init__(self, stream: TextIO, *, live: bool, loading: float = 0.0) -> None:
        self._stream = stream
        self._live = live
        self._loading = loading
        self._started = False
        self._open = False
        self._lock = threading.Lock()

    def show(self, progress: Progress) -> None:
        """Show the state of the run."""
        with self._lock:
            text = progress_line(progress)
            if self._live:  # a line that wraps cannot be updated in place
                text = text[: max(1, shutil.get_terminal_size().columns - 1)]
            self._stream.write(f"{CLEAR_LINE}{text}" if self._live else f"{text}\n")
            self._stream.flush()
            self._open = self._live
            if progress.start_phases and not self._started:
                self._started = True
                phases = (("program", self._loading), *progress.start_phases)
                self._stream.write(f"{'' if not self._open else chr(10)}{start_line(phases)}\n")
                self._stream.flush()
                self._open = False

    def end(self) -> None:
        """End the line that is updated, so that other output starts on its own line."""
        with self._lock:
            if self._open:
                self._stream.write("\n")
                self._stream.flush()
                self._open = False
