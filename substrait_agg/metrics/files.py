"""The file of ``--metrics``: JSON lines that are appended, or Prometheus text that is replaced. Neither ever ends a run."""

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
READABLE = 0o644  # a collector is another user


class _Form(Protocol):
    """One way to write metrics."""

    def write(self, progress: Progress, *, version: bool) -> None:
        """Write them; `version`: another version was committed."""

    def close(self) -> None:
        """Let go of the file."""


class MetricsFile:
    """Writes the metrics after every version, and where outputs stand once more at the end.

    Args:
        path: where to; with the suffix ``.prom`` the file is replaced as a whole, else a line is appended; ``-`` is stdout.

    Raises:
        UsageError: METRICS_NOT_WRITABLE.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._told = False
        form = _Replaced if self._path.suffix == PROMETHEUS else _Appended
        try:
            self._form: _Form = form(self._path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"metrics cannot be written there: {reason}"
            help = "give the path of a file in a folder that exists and can be written to"
            raise UsageError("METRICS_NOT_WRITABLE", message, help=help, path=str(path)) from error

    def committed(self, progress: Progress) -> None:
        """Write the metrics of a version."""
        self._write(progress, version=True)

    def close(self, progress: Progress) -> None:
        """Write what has changed since the last version, and let go of the file."""
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
            self._told = self._told and not version

    def _failed(self, error: Exception) -> None:
        # A full disk is told once, not with every version.
        if self._told:
            return
        self._told = True
        notice(
            "METRICS_NOT_WRITTEN",
            f"metrics could not be written: {error}",
            help="the run goes on without them; they are written again when that is possible",
            path=str(self._path),
        )


class _Appended:
    """A line of JSON per version, each in one piece; a line that a kill or a full disk cut off is ended first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._torn = path.is_file() and _is_torn(path)
        self._file: FileIO | None = None
        if path.exists():
            self._file = path.open("ab", buffering=0)
        elif str(path) != STDOUT:
            # Nothing is left behind by a run that does not start.
            _check_folder(path)
        self._before: Progress | None = None

    def write(self, progress: Progress, *, version: bool) -> None:
        """Append the line of a version."""
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
    """Raise what making a file there would."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    Path(name).unlink()


class _Replaced:
    """Prometheus text; a reader sees the old file or the new one, never a part."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.is_dir():
            raise IsADirectoryError(None, "is a directory", str(path))
        # What is there stays until the first version is committed.
        _check_folder(path)

    def write(self, progress: Progress, *, version: bool) -> None:
        """Replace the file; it need not survive a loss of power, so nothing is waited for."""
        del version
        text = prometheus_text(progress)
        # A collector reads all *.prom, and none that begins with a dot and ends otherwise.
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
        """There is nothing to let go of."""
