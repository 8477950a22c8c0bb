"""Write the file of ``--metrics``: append JSON lines, or replace a file of Prometheus text.

A failure to write metrics never ends a run.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from io import FileIO
from pathlib import Path
from typing import Protocol

from substrait_agg.errors import UsageError
from substrait_agg.metrics.lines import metrics_line
from substrait_agg.metrics.progress import Progress
from substrait_agg.metrics.prometheus import prometheus_text
from substrait_agg.notices import notice

PROMETHEUS = ".prom"
STDOUT = "-"
READABLE = 0o644  # the collector may run as another user


class _Form(Protocol):
    """A format of the metrics file."""

    def write(self, progress: Progress, *, version: bool) -> None:
        """Write the metrics.

        Args:
            progress: progress of the run.
            version: whether a version was committed since the last call.
        """

    def close(self) -> None:
        """Close the file."""


class MetricsFile:
    """Writes the metrics after every version, and the state of the outputs once more at the end.

    Args:
        path: the file. A file with the suffix ``.prom`` is replaced as a whole; lines are appended
            to any other file; ``-`` is stdout.

    Raises:
        UsageError: METRICS_NOT_WRITABLE.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._reported = False
        form = _Replaced if self._path.suffix == PROMETHEUS else _Appended
        try:
            self._form: _Form = form(self._path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"metrics cannot be written there: {reason}"
            help = "give the path of a file in a folder that exists and can be written to"
            raise UsageError("METRICS_NOT_WRITABLE", message, help=help, path=str(path)) from error

    def committed(self, progress: Progress) -> None:
        """Write the metrics of a committed version."""
        self._write(progress, version=True)

    def close(self, progress: Progress) -> None:
        """Write the changes since the last version, and close the file."""
        if progress.version >= 0:
            self._write(progress, version=False)
        try:
            self._form.close()
        except OSError as error:
            self._failed(error)

    def _write(self, progress: Progress, *, version: bool) -> None:
        try:
            self._form.write(progress, version=version)
        except (OSError, ValueError) as error:
            self._failed(error)
        else:
            self._reported = self._reported and not version

    def _failed(self, error: Exception) -> None:
        # Report a full disk once, not with every version.
        if self._reported:
            return
        self._reported = True
        notice(
            "METRICS_NOT_WRITTEN",
            f"metrics could not be written: {error}",
            help="the run goes on without them; they are written again when that is possible",
            path=str(self._path),
        )


class _Appended:
    """Appends one line of JSON per version.

    Each line is one write. If a kill or a full disk cut off the last line, the next write ends that
    line first.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._torn = path.is_file() and _is_torn(path)
        self._file: FileIO | None = None
        if path.exists():
            self._file = path.open("ab", buffering=0)
        elif str(path) != STDOUT:
            # Do not create the file yet: a run that fails to start leaves no file behind.
            _check_folder(path)
        self._before: Progress | None = None

    def write(self, progress: Progress, *, version: bool) -> None:
        """Append the line of a version; do nothing if no version was committed."""
        if not version:
            return
        before, self._before = self._before, progress
        line = metrics_line(progress, before)
        if str(self._path) == STDOUT:
            sys.stdout.write(line)
            sys.stdout.flush()
            return
        if self._file is None:
            self._file = self._path.open("ab", buffering=0)
        content = (("\n" if self._torn else "") + line).encode()
        written = self._file.write(content)
        self._torn = written != len(content)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) not in (b"", b"\n")


def _check_folder(path: Path) -> None:
    """Raise the OSError that creating a file in the folder raises."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    Path(name).unlink()


class _Replaced:
    """Replaces a file of Prometheus text.

    A reader sees the old content or the new, never a part.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.is_dir():
            raise IsADirectoryError(None, "is a directory", str(path))
        # Keep the existing file until the first version is committed.
        _check_folder(path)

    def write(self, progress: Progress, *, version: bool) -> None:
        """Replace the file, without waiting for it to reach the disk."""
        del version
        text = prometheus_text(progress)
        # Collectors read *.prom: the name of the temporary file starts with a dot and ends
        # differently.
        handle, name = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).chmod(READABLE)
            Path(name).replace(self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def close(self) -> None:
        """Do nothing: no file is open between writes."""
