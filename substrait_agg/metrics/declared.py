"""The table of metrics: name, kind, unit, labels, help text, and how to read the value.

The metrics files, the page in the documentation and the tests are generated from this table. Names
follow the Prometheus conventions: base units, and the suffix ``_total`` for counters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal as OneOf

from substrait_agg.metrics.progress import BATCH_SECONDS, OperatorProgress, Progress, SinkProgress

Kind = OneOf["counter", "gauge", "histogram"]
Number = int | float

PREFIX = "substrait_agg_"


@dataclass(frozen=True, slots=True)
class Histogram:
    """A cumulative histogram.

    Attributes:
        buckets: pairs of upper bound and number of observations up to it; the last bound is
            infinite.
        sum: sum of all observations.
    """

    buckets: tuple[tuple[float, int], ...]
    sum: float

    @property
    def count(self) -> int:
        """Return the number of observations."""
        return self.buckets[-1][1]


@dataclass(frozen=True, slots=True)
class Sample:
    """The value of a metric for one combination of label values."""

    labels: tuple[str, ...]
    value: Number | Histogram


Read = Callable[[Progress], Iterable[Sample]]


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table of metrics.

    Attributes:
        name: name without `PREFIX`.
        kind: ``counter`` (starts at zero in each run and never decreases), ``gauge`` or
            ``histogram``.
        unit: ``seconds``, ``bytes``, ``rows``, ``groups``, ``versions``, ``files``, or empty.
        labels: names of the labels.
        help: one sentence for readers of the metrics.
        read: returns the samples; returns none if the value is unknown.
    """

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    help: str
    read: Read

    @property
    def full_name(self) -> str:
        """Return the name with `PREFIX`, as Prometheus shows it."""
        return PREFIX + self.name


def _plain(value: Callable[[Progress], Number]) -> Read:
    return lambda progress: (Sample((), value(progress)),)


def _per_operator(value: Callable[[OperatorProgress], Number]) -> Read:
    return lambda progress: (Sample((str(o.operator),), value(o)) for o in progress.operators)


def _per_tree(field: str) -> Read:
    return lambda progress: (
        Sample((str(t.operator), t.tree), getattr(t, field)) for t in progress.trees
    )


def _per_sink(value: Callable[[SinkProgress], Number]) -> Read:
    return lambda progress: (Sample((s.sink,), value(s)) for s in progress.sinks)


def _watermark(progress: Progress) -> Iterable[Sample]:
    if progress.watermark is None:
        return ()
    seconds = float("inf") if progress.input_ended else progress.watermark / 1e6
    return (Sample((), seconds),)


def _committed(progress: Progress) -> Iterable[Sample]:
    return (Sample((), progress.committed),) if progress.committed else ()


def _batches(progress: Progress) -> Iterable[Sample]:
    bounds = (*BATCH_SECONDS, float("inf"))
    counts = zip(bounds, accumulate(progress.batch_times), strict=True)
    return (Sample((), Histogram(tuple(counts), progress.busy_seconds)),)


def _info(progress: Progress) -> Iterable[Sample]:
    return (Sample((progress.plan,), 1),)


_OPERATOR, _TREE, _SINK = ("operator",), ("operator", "tree"), ("sink",)

METRICS: tuple[Metric, ...] = (
    Metric("info", "gauge", "", ("plan",), "Always 1; the label is the fingerprint of the plan.", _info),
    Metric("start_time_seconds", "gauge", "seconds", (), "When the run began, since 1970; what is counted is counted from there.", _plain(lambda p: p.started)),
    Metric("version", "gauge", "", (), "Newest committed version, -1 before the first.", _plain(lambda p: p.version)),
    Metric("commit_time_seconds", "gauge", "seconds", (), "When the run last committed a version, since 1970.", _committed),
    Metric("watermark_seconds", "gauge", "seconds", (), "No row with an earlier event time is expected, since 1970; infinite at the end of the input, absent while nothing is known.", _watermark),
    Metric("batches_total", "counter", "versions", (), "Versions committed.", _plain(lambda p: p.batches)),
    Metric("batch_seconds", "histogram", "seconds", (), "Duration of batches, from their rows to their commit.", _batches),
    Metric("rows_per_second", "gauge", "rows", (), "Input rows of the last batch by its duration.", _plain(lambda p: p.rows_per_second)),
    Metric("input_rows_total", "counter", "rows", _OPERATOR, "Rows that reached the operator.", _per_operator(lambda o: o.input_rows)),
    Metric("exchanged_rows_total", "counter", "rows", _OPERATOR, "Rows exchanged between tasks: those left after summing per key, or all of them where that hardly helps.", _per_operator(lambda o: o.partial_rows)),
    Metric("late_rows_total", "counter", "rows", (), "Rows that came behind the watermark and were left out.", _plain(lambda p: p.late_rows)),
    Metric("bad_rows_total", "counter", "rows", (), "Rows that were set aside because they could not be read or broke a rule of the plan.", _plain(lambda p: p.bad_rows)),
    Metric("early_retractions_total", "counter", "", _OPERATOR, "With carry, how often the total weight of a group fell below zero; with quarantine, the rows that had to be kept aside.", _per_operator(lambda o: o.early_retractions)),
    Metric("quarantined_rows", "gauge", "rows", (), "Rows that wait in quarantine for their insertion.", _plain(lambda p: p.quarantined)),
    Metric("groups_touched_total", "counter", "groups", _OPERATOR, "Groups that rows touched or whose time had come.", _per_operator(lambda o: o.groups_touched)),
    Metric("groups_emitted_total", "counter", "groups", _OPERATOR, "Groups that were emitted, changed or not.", _per_operator(lambda o: o.groups_emitted)),
    Metric("groups_waiting", "gauge", "groups", (), "Groups that wait to be emitted.", _plain(lambda p: p.groups_waiting)),
    Metric("rows_retracted_total", "counter", "rows", _OPERATOR, "Rows of the operator's changes that take an old row back.", _per_operator(lambda o: o.retracted)),
    Metric("rows_inserted_total", "counter", "rows", _OPERATOR, "Rows of the operator's changes that bring a new row.", _per_operator(lambda o: o.inserted)),
    Metric("changes_total", "counter", "rows", (), "Rows of changes of the view.", _plain(lambda p: p.changes)),
    Metric("state_rows", "gauge", "rows", _TREE, "Rows in the runs of a tree; what a newer run replaces counts until a merge drops it.", _per_tree("rows")),
    Metric("state_bytes", "gauge", "bytes", _TREE, "Size of the runs of a tree.", _per_tree("bytes")),
    Metric("state_runs", "gauge", "files", _TREE, "Runs of a tree.", _per_tree("runs")),
    Metric("job_seconds_total", "counter", "seconds", _OPERATOR, "Spark jobs, from reading the input to the result of the last task.", _per_operator(lambda o: o.job_seconds)),
    Metric("fold_seconds_total", "counter", "seconds", _OPERATOR, "Folding rows into groups, added up over tasks.", _per_operator(lambda o: o.fold_seconds)),
    Metric("lookup_seconds_total", "counter", "seconds", _OPERATOR, "The part of folding that looking groups up took, added up over tasks.", _per_operator(lambda o: o.lookup_seconds)),
    Metric("write_seconds_total", "counter", "seconds", _OPERATOR, "Writing runs and changes, added up over tasks.", _per_operator(lambda o: o.write_seconds)),
    Metric("merge_seconds_total", "counter", "seconds", _OPERATOR, "Merging runs, added up over tasks.", _per_operator(lambda o: o.merge_seconds)),
    Metric("merges_total", "counter", "files", _OPERATOR, "Runs written by merges.", _per_operator(lambda o: o.merges)),
    Metric("merged_rows_total", "counter", "rows", _OPERATOR, "Rows written by merges.", _per_operator(lambda o: o.merged_rows)),
    Metric("merged_bytes_total", "counter", "bytes", _OPERATOR, "Bytes written by merges.", _per_operator(lambda o: o.merged_bytes)),
    Metric("written_bytes_total", "counter", "bytes", _OPERATOR, "Bytes of runs and change files written, those of merges included.", _per_operator(lambda o: o.written_bytes)),
    Metric("commit_seconds_total", "counter", "seconds", (), "Publishing versions.", _plain(lambda p: p.commit_seconds)),
    Metric("sweep_seconds_total", "counter", "seconds", (), "Deleting files that are no longer named.", _plain(lambda p: p.sweep_seconds)),
    Metric("output_version", "gauge", "", _SINK, "The last version that the output has, -1 before the first.", _per_sink(lambda s: s.version)),
    Metric("output_lag_versions", "gauge", "versions", _SINK, "Committed versions that the output has not had yet.", _per_sink(lambda s: s.lag)),
    Metric("output_versions_total", "counter", "versions", _SINK, "Versions delivered to the output.", _per_sink(lambda s: s.delivered)),
    Metric("output_failures_total", "counter", "", _SINK, "Attempts to deliver that failed.", _per_sink(lambda s: s.failures)),
    Metric("output_seconds_total", "counter", "seconds", _SINK, "Delivering to the output.", _per_sink(lambda s: s.seconds)),
)  # fmt: skip


def metrics_markdown() -> str:
    """Return a Markdown table with one row per metric."""
    head = "| metric | kind | labels | what |\n|---|---|---|---|\n"
    return head + "".join(_row(metric) for metric in METRICS)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    text = metric.help.replace("|", r"\|")
    return f"| `{metric.full_name}` | {metric.kind} | {labels} | {text} |\n"
