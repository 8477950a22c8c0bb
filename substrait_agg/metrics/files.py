"""Write the file of ``--metrics``: append JSON lines, or replace a file of Prometheus text.

Prometheus text has no timestamps, because the textfile collector of the node exporter refuses them.

A failure to write metrics never ends a run.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

from substrait_agg.errors import UsageError
from substrait_agg.metrics.declared import METRICS, Histogram, Metric, Number, Sample
from substrait_agg.metrics.progress import Progress
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
        self._path = Path(path) if str(path) == STDOUT else Path(path).absolute()
        self._reported = False
        form = _Replaced if self._path.suffix == PROMETHEUS else _Appended
        try:
            self._form: _Form = form(self._path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"metrics cannot be written to this file: {reason}"
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
            self._warn(error)

    def _write(self, progress: Progress, *, version: bool) -> None:
        try:
            self._form.write(progress, version=version)
        except (OSError, ValueError) as error:
            self._warn(error)
        else:
            self._reported = self._reported and not version

    def _warn(self, error: Exception) -> None:
        # Report a full disk once, not with every version.
        if self._reported:
            return
        self._reported = True
        notice(
            "METRICS_NOT_WRITTEN",
            f"metrics could not be written: {error}",
            help="the run continues without them and retries after the next version",
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
    """Replaces a file of Prometheus text; readers see the old or the new content, never a part."""

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


Json = dict[str, Any]


def metrics_line(progress: Progress, before: Progress | None = None) -> str:
    """Return one line of JSON, with the newline.

    Args:
        progress: progress after the committed version.
        before: progress after the previous version of the same run; None for the first.

    Returns:
        An object with ``time``, ``checkpoint``, ``metrics`` (name to value) and ``batch`` (the
        counters of this version alone). The value of a metric with labels is a list of objects with
        the labels and ``value``. With a refresh policy that chooses, ``refresh`` says why the
        version was incremental or full. A histogram has ``buckets`` (pairs of upper bound and count),
        ``sum`` and ``count``. Unknown metrics are left out.
    """
    line: Json = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "checkpoint": progress.checkpoint,
        "metrics": _values(progress),
        "batch": _to_counts(progress, before or Progress()),
    }
    if progress.refresh is not None:
        line["refresh"] = progress.refresh.reason
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n"


def _values(progress: Progress) -> Json:
    read = ((metric, tuple(metric.read(progress))) for metric in METRICS)
    return {metric.name: _to_json(metric, samples) for metric, samples in read if samples}


def _to_counts(progress: Progress, before: Progress) -> Json:
    counters = (metric for metric in METRICS if metric.kind == "counter")
    samples = {metric: (metric.read(progress), metric.read(before)) for metric in counters}
    return {
        metric.name.removesuffix("_total"): _to_json(metric, _less(tuple(now), tuple(then)))
        for metric, (now, then) in samples.items()
    }


def _less(now: tuple[Sample, ...], then: tuple[Sample, ...]) -> tuple[Sample, ...]:
    earlier = {sample.labels: _count(sample) for sample in then}
    return tuple(Sample(s.labels, _round(_count(s) - earlier.get(s.labels, 0))) for s in now)


def _count(sample: Sample) -> Number:
    return sample.value.sum if isinstance(sample.value, Histogram) else sample.value


def _round(value: Number) -> Number:
    # Differences of sums of seconds: digits beyond microseconds are rounding errors.
    return round(value, 6) if isinstance(value, float) else value


def _to_json(metric: Metric, samples: tuple[Sample, ...]) -> Any:
    if not metric.labels:
        return _json(samples[0].value)
    return [
        {**dict(zip(metric.labels, sample.labels, strict=True)), "value": _json(sample.value)}
        for sample in samples
    ]


def _json(value: Number | Histogram) -> Any:
    if isinstance(value, Histogram):
        buckets = [[_json(bound), count] for bound, count in value.buckets]
        return {"buckets": buckets, "sum": value.sum, "count": value.count}
    return "Infinity" if value == float("inf") else value


_IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_IN_LABEL = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def prometheus_text(progress: Progress) -> str:
    """Return all metrics as Prometheus text.

    Every sample has the path of the checkpoint as a label, so that runs on one machine do not
    collide.
    """
    return "".join(line for metric in METRICS for line in _family(metric, progress))


def _family(metric: Metric, progress: Progress) -> Iterator[str]:
    samples = tuple(metric.read(progress))
    if not samples:
        return
    yield f"# HELP {metric.full_name} {metric.help.translate(_IN_HELP)}\n"
    yield f"# TYPE {metric.full_name} {metric.kind}\n"
    for sample in samples:
        labels = {
            "checkpoint": progress.checkpoint,
            **dict(zip(metric.labels, sample.labels, strict=True)),
        }
        yield from _lines(metric.full_name, labels, sample)


def _lines(name: str, labels: Mapping[str, str], sample: Sample) -> Iterator[str]:
    value = sample.value
    if not isinstance(value, Histogram):
        yield _line(name, labels, value)
        return
    for bound, count in value.buckets:
        yield _line(f"{name}_bucket", {**labels, "le": _number(bound)}, count)
    yield _line(f"{name}_sum", labels, value.sum)
    yield _line(f"{name}_count", labels, value.count)


def _line(name: str, labels: Mapping[str, str], value: Number) -> str:
    pairs = ",".join(f'{key}="{text.translate(_IN_LABEL)}"' for key, text in labels.items())
    return f"{name}{{{pairs}}} {_number(value)}\n"


def _number(value: Number) -> str:
    if value == float("inf"):
        return "+Inf"
    return repr(value)
