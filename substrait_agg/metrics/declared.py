"""The table of metrics: name, kind, unit, labels, help text, and how to read the value.

The metrics files, the page in the documentation and the tests are generated from this table. Names
follow the Prometheus conventions: base units, and the suffix ``_total`` for counters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Literal as OneOf

from substrait_agg.metrics.progress import (
    BATCH_SECONDS,
    OperatorProgress,
    Progress,
    RefreshProgress,
    SinkProgress,
)

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


def _per_source(progress: Progress) -> Iterable[Sample]:
    return (
        Sample((source.source, measure), value)
        for source in progress.sources
        for measure, value in source.lag.items()
    )


def _per_view(progress: Progress) -> Iterable[Sample]:
    return (Sample((view.view,), view.changes) for view in progress.views)


def _watermark(progress: Progress) -> Iterable[Sample]:
    if progress.watermark is None:
        return ()
    seconds = float("inf") if progress.input_ended else progress.watermark / 1e6
    return (Sample((), seconds),)


def _sample_commits(progress: Progress) -> Iterable[Sample]:
    return (Sample((), progress.committed),) if progress.committed else ()


def _sample_known(
    progress: Progress, *, value: Callable[[Progress], Number | None]
) -> Iterable[Sample]:
    """Return the sample of a value that only some runs have."""
    number = value(progress)
    return () if number is None else (Sample((), number),)


def _batches(progress: Progress) -> Iterable[Sample]:
    bounds = (*BATCH_SECONDS, float("inf"))
    counts = zip(bounds, accumulate(progress.batch_times), strict=True)
    return (Sample((), Histogram(tuple(counts), progress.busy_seconds)),)


def _info(progress: Progress) -> Iterable[Sample]:
    return (Sample((progress.plan,), 1),)


def _refreshes(progress: Progress) -> Iterable[Sample]:
    refresh = progress.refresh
    if refresh is None:
        return ()
    return (Sample(("incremental",), refresh.incremental), Sample(("full",), refresh.full))


def _refresh_estimates(progress: Progress) -> Iterable[Sample]:
    refresh = progress.refresh or RefreshProgress()
    estimates = (("incremental", refresh.incremental_seconds), ("full", refresh.full_seconds))
    return (Sample((way,), seconds) for way, seconds in estimates if seconds is not None)


_OPERATOR, _TREE, _SINK = ("operator",), ("operator", "tree"), ("sink",)
_SOURCE = ("source", "measure")

METRICS: tuple[Metric, ...] = (
    Metric("info", "gauge", "", ("plan",), "Always 1; the label has the fingerprint of the plan.", _info),
    Metric("start_time_seconds", "gauge", "seconds", (), "Start of the run, since 1970; counters start there.", _plain(lambda p: p.started)),
    Metric("version", "gauge", "", (), "Newest committed version; -1 before the first.", _plain(lambda p: p.version)),
    Metric("commit_time_seconds", "gauge", "seconds", (), "Time of the last commit, since 1970.", _sample_commits),
    Metric("watermark_seconds", "gauge", "seconds", (), ("Watermark: no row with an earlier event time is expected. "
                                                         "Since 1970; infinite at the end of the input, absent "
                                                         "while unknown."), _watermark),
    Metric("batches_total", "counter", "versions", (), "Versions committed.", _plain(lambda p: p.batches)),
    Metric("batch_seconds", "histogram", "seconds", (), "Duration of batches, from reading rows to the commit.", _batches),
    Metric("batch_target_seconds", "gauge", "seconds", (), "Duration that a batch should not exceed (--latency); absent without it.", partial(_sample_known, value=lambda p: p.target_seconds)),
    Metric("batch_limit_bytes", "gauge", "bytes", (), "Most bytes of files that the last batch could take (--latency), except that it takes at least one file per table.", partial(_sample_known, value=lambda p: p.limit_bytes)),
    Metric("refreshes_total", "counter", "versions", ("way",), "Versions that were incremental, and those that were computed again from all rows (full); absent unless --refresh is auto or full.", _refreshes),
    Metric("refresh_estimate_seconds", "gauge", "seconds", ("way",), "Estimated duration of the last batch in either way, which --refresh auto compared.", _refresh_estimates),
    Metric("rows_per_second", "gauge", "rows", (), "Input rows of the last batch, divided by its duration.", _plain(lambda p: p.rows_per_second)),
    Metric("input_rows_total", "counter", "rows", _OPERATOR, "Rows that reached the operator.", _per_operator(lambda o: o.input_rows)),
    Metric("exchanged_rows_total", "counter", "rows", _OPERATOR, "Rows exchanged between tasks: partial sums per key, or all rows if partial sums would not be fewer.", _per_operator(lambda o: o.partial_rows)),
    Metric("late_rows_total", "counter", "rows", (), "Late rows, which are dropped.", _plain(lambda p: p.late_rows)),
    Metric("bad_rows_total", "counter", "rows", (), "Rows in the quarantine that could not be read or violate the plan.", _plain(lambda p: p.bad_rows)),
    Metric("early_retractions_total", "counter", "", _OPERATOR, "With carry, how often the total weight of a group fell below zero; with quarantine, the rows that were moved to the quarantine.", _per_operator(lambda o: o.early_retractions)),
    Metric("probes_total", "counter", "", _OPERATOR, "Keys of changed rows that a join looked up in the stored rows of its other side.", _per_operator(lambda o: o.probes)),
    Metric("matches_total", "counter", "rows", _OPERATOR, "Stored rows that a join found; divided by the probes, the matches of a row.", _per_operator(lambda o: o.matches)),
    Metric("run_probes_total", "counter", "", _OPERATOR, "Keys searched in runs of groups; a key counts once per run that is searched.", _per_operator(lambda o: o.run_probes)),
    Metric("page_reads_total", "counter", "", _OPERATOR, "Pages of runs of groups that were searched.", _per_operator(lambda o: o.page_reads)),
    Metric("quarantined_rows", "gauge", "rows", (), "Rows that wait in quarantine for their insertion.", _plain(lambda p: p.quarantined)),
    Metric("groups_touched_total", "counter", "groups", _OPERATOR, "Groups with new rows, or due by time.", _per_operator(lambda o: o.groups_touched)),
    Metric("groups_emitted_total", "counter", "groups", _OPERATOR, "Groups that were emitted, changed or not.", _per_operator(lambda o: o.groups_emitted)),
    Metric("groups_waiting", "gauge", "groups", (), "Groups that wait to be emitted.", _plain(lambda p: p.groups_waiting)),
    Metric("rows_retracted_total", "counter", "rows", _OPERATOR, "Retractions in the changes of the operator.", _per_operator(lambda o: o.retracted)),
    Metric("rows_inserted_total", "counter", "rows", _OPERATOR, "Insertions in the changes of the operator.", _per_operator(lambda o: o.inserted)),
    Metric("changes_total", "counter", "rows", (), "Changes of all views.", _plain(lambda p: p.changes)),
    Metric("view_changes_total", "counter", "rows", ("view",), "Changes of the view, for views with a name.", _per_view),
    Metric("state_rows", "gauge", "rows", _TREE, "Rows in the runs of a tree; replaced rows count until a merge drops them.", _per_tree("rows")),
    Metric("state_bytes", "gauge", "bytes", _TREE, "Size of the runs of a tree.", _per_tree("bytes")),
    Metric("state_runs", "gauge", "files", _TREE, "Runs of a tree.", _per_tree("runs")),
    Metric("job_seconds_total", "counter", "seconds", _OPERATOR, "Spark jobs, from reading the input to the result of the last task.", _per_operator(lambda o: o.job_seconds)),
    Metric("fold_seconds_total", "counter", "seconds", _OPERATOR, "Applying rows to groups, summed over tasks.", _per_operator(lambda o: o.fold_seconds)),
    Metric("lookup_seconds_total", "counter", "seconds", _OPERATOR, "The part of applying rows that looks up groups, summed over tasks.", _per_operator(lambda o: o.lookup_seconds)),
    Metric("write_seconds_total", "counter", "seconds", _OPERATOR, "Writing runs and changes, summed over tasks.", _per_operator(lambda o: o.write_seconds)),
    Metric("merge_seconds_total", "counter", "seconds", _OPERATOR, "Merging runs, summed over tasks.", _per_operator(lambda o: o.merge_seconds)),
    Metric("merges_total", "counter", "files", _OPERATOR, "Runs written by merges.", _per_operator(lambda o: o.merges)),
    Metric("merged_rows_total", "counter", "rows", _OPERATOR, "Rows written by merges.", _per_operator(lambda o: o.merged_rows)),
    Metric("merged_bytes_total", "counter", "bytes", _OPERATOR, "Bytes written by merges.", _per_operator(lambda o: o.merged_bytes)),
    Metric("written_bytes_total", "counter", "bytes", _OPERATOR, "Bytes of runs and change files written, including merges.", _per_operator(lambda o: o.written_bytes)),
    Metric("commit_seconds_total", "counter", "seconds", (), "Publishing versions.", _plain(lambda p: p.commit_seconds)),
    Metric("sweep_seconds_total", "counter", "seconds", (), "Deleting files that no version refers to.", _plain(lambda p: p.sweep_seconds)),
    Metric("source_lag", "gauge", "", _SOURCE, "How far the last version is behind the source of a connector, by measure.", _per_source),
    Metric("output_version", "gauge", "", _SINK, "The newest version that the output has; -1 before the first.", _per_sink(lambda s: s.version)),
    Metric("output_lag_versions", "gauge", "versions", _SINK, "Committed versions that the output does not have yet.", _per_sink(lambda s: s.lag)),
    Metric("output_versions_total", "counter", "versions", _SINK, "Versions delivered to the output.", _per_sink(lambda s: s.delivered)),
    Metric("output_failures_total", "counter", "", _SINK, "Attempts to deliver that failed.", _per_sink(lambda s: s.failures)),
    Metric("output_seconds_total", "counter", "seconds", _SINK, "Delivering to the output.", _per_sink(lambda s: s.seconds)),
)  # fmt: skip
