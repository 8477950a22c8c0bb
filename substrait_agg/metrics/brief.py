"""Progress as a line for people: on stderr, and above a live table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from substrait_agg.metrics.progress import END_OF_INPUT, Progress

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def watermark_text(watermark: int | None) -> str:
    """A watermark as ISO 8601, ``end of input``, or empty where nothing is known."""
    if watermark is None:
        return ""
    if watermark == END_OF_INPUT:
        return "end of input"
    try:
        shown = (_EPOCH + timedelta(microseconds=watermark)).isoformat()
    except OverflowError:
        return f"{watermark} microseconds"  # in a year that calendars do not have
    return shown.replace("+00:00", "Z")


def progress_line(progress: Progress) -> str:
    """Version, rows, groups touched, changes, rows per second, then what is out of the ordinary."""
    return (
        f"version {progress.version}: {progress.input_rows:,} rows, "
        f"{progress.groups_touched:,} groups touched, {progress.changes:,} changes, "
        f"{progress.rows_per_second:,.0f} rows/s{''.join(f', {n}' for n in _notable(progress))}"
    )


def start_line(phases: Iterable[tuple[str, float]]) -> str:
    """How long it took until the first rows were in a version, in all and by phase."""
    shown = tuple(phases)
    total = sum(seconds for _, seconds in shown)
    parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in shown)
    return f"first batch committed after {total:.1f} s: {parts}"


def status_line(version: int, progress: Progress | None) -> str:
    """The line above a live table: the version shown, rows, changes, rows per second, then what is out of the ordinary."""
    if progress is None:
        return f"version {version}"
    parts = (
        f"version {version}",
        f"{progress.input_rows:,} rows, {progress.changes:,} changes",
        f"{progress.rows_per_second:,.0f} rows/s",
        *_notable(progress),
    )
    return " | ".join(parts)


def _notable(progress: Progress) -> Iterator[str]:
    if progress.watermark is not None:
        yield f"watermark {watermark_text(progress.watermark)}"
    counts = (
        (progress.late_rows, "late rows"),
        (progress.bad_rows, "bad rows"),
        (progress.groups_waiting, "groups waiting"),
        (progress.quarantined, "rows in quarantine"),
    )
    yield from (f"{count:,} {what}" for count, what in counts if count)
    for sink in progress.sinks:
        if sink.failures and sink.lag:
            yield f"{sink.sink} failing, {sink.lag:,} versions behind"
