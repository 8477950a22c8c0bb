"""Format the progress of a run as one line of text, for stderr and for a live table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from substrait_agg.metrics.progress import END_OF_INPUT, Progress

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def watermark_text(watermark: int | None) -> str:
    """Return a watermark as text.

    Args:
        watermark: microseconds since 1970, `END_OF_INPUT`, or None if it is unknown.

    Returns:
        ISO 8601 in UTC, ``end of input``, or an empty string if the watermark is unknown. A
        watermark outside the years that `datetime` supports is written as a number of microseconds.

    >>> watermark_text(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    if watermark is None:
        return ""
    if watermark == END_OF_INPUT:
        return "end of input"
    try:
        text = (_EPOCH + timedelta(microseconds=watermark)).isoformat()
    except OverflowError:
        return f"{watermark} microseconds"
    return text.replace("+00:00", "Z")


def progress_line(progress: Progress) -> str:
    """Return one line with the version, rows, groups, changes and rows per second.

    The limit of the batch follows if the run has a target duration; late rows, bad rows, waiting
    groups, quarantined rows and failing outputs follow if there are any. While a batch is computed, the
    line has the rows of the join that it computes.
    """
    join = progress.join
    if join is not None:
        return f"version {progress.version + 1}: {join.rows:,} rows so far of {join.name}"
    return (
        f"version {progress.version}: {progress.input_rows:,} rows, "
        f"{progress.groups_touched:,} groups touched, {progress.changes:,} changes, "
        f"{progress.rows_per_second:,.0f} rows/s{''.join(f', {n}' for n in _notable(progress))}"
    )


def start_line(phases: Iterable[tuple[str, float]]) -> str:
    """Return one line with the duration of the start, in total and by phase.

    Args:
        phases: names and durations in seconds (`Progress.start_phases`).

    >>> start_line([("load", 0.4), ("batch", 2.0)])
    'first batch committed after 2.4 s: load 0.4, batch 2.0'
    """
    durations = tuple(phases)
    total = sum(seconds for _, seconds in durations)
    parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in durations)
    return f"first batch committed after {total:.1f} s: {parts}"


def status_line(version: int, progress: Progress | None) -> str:
    """Return the line above a live table: version, rows, changes and rows per second.

    Unusual counts follow as in `progress_line`.

    Args:
        version: the version that the table shows.
        progress: progress of the run; None before its first version.
    """
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
    if progress.limit_bytes is not None:
        yield f"limit {progress.limit_bytes / 1e6:,.1f} MB"
    counts = (
        (progress.late_rows, "late rows"),
        (progress.bad_rows, "bad rows"),
        (progress.groups_waiting, "groups waiting"),
        (progress.quarantined, "rows in quarantine"),
    )
    yield from (f"{count:,} {what}" for count, what in counts if count)
    if progress.refresh is not None:
        yield progress.refresh.reason
    for sink in progress.sinks:
        if sink.failures and sink.lag:
            yield f"{sink.sink} failing, {sink.lag:,} versions behind"
