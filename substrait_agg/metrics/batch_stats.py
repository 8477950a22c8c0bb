"""Add up the counters of a batch, and compute the progress after it."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from substrait_agg.commit.documents.snapshot import RefreshRecord, Runs, Snapshot
from substrait_agg.metrics.progress import (
    BATCH_SECONDS,
    OperatorProgress,
    Progress,
    RefreshProgress,
    TreeSize,
    ViewProgress,
)
from substrait_agg.operator.common.names import CLOSED, GROUP, PENDING
from substrait_agg.state.run import RunFile

TASK_COUNTS: dict[str, str] = {
    "input_rows": "input_rows",
    "partial_rows": "partial_rows",
    "touched": "groups_touched",
    "emitted": "groups_emitted",
    "retracted": "retracted",
    "inserted": "inserted",
    "early": "early_retractions",
    "probes": "probes",
    "matches": "matches",
    "run_probes": "run_probes",
    "page_reads": "page_reads",
    "merges": "merges",
    "merged_rows": "merged_rows",
    "merged_bytes": "merged_bytes",
    "written_bytes": "written_bytes",
}
"""Counter of a task -> field of `OperatorProgress`."""

TASK_TIMES: dict[str, str] = {
    "merge_us": "merge_seconds",
    "fold_us": "fold_seconds",
    "lookup_us": "lookup_seconds",
    "write_us": "write_seconds",
}
"""Counter of a task, in microseconds -> field of `OperatorProgress`, in seconds."""

LEVELS = ("quarantined", "waiting")
"""Counters that tasks report as a difference to the previous version.

A snapshot stores the absolute numbers.
"""


class BatchStats:
    """The counters of one batch per operator, and the time that each part of the batch took."""

    def __init__(self) -> None:
        self._counts: dict[int, Counter[str]] = {}
        self._jobs: Counter[int] = Counter()
        self._phases: dict[str, float] = {"commit": 0.0, "sweep": 0.0}
        self._began = time.monotonic()

    @contextmanager
    def job(self, operator: int) -> Iterator[None]:
        """Measure the time of one Spark job of an operator; a batch may have several."""
        began = time.monotonic()
        yield
        self._jobs[operator] += _microseconds(began)

    @property
    def microseconds(self) -> int:
        """Return the time since the batch began."""
        return _microseconds(self._began)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the time of ``commit`` or ``sweep``."""
        began = time.monotonic()
        yield
        self._phases[name] += time.monotonic() - began

    def ran(self, operator: int, tasks: Iterable[Mapping[str, int]]) -> None:
        """Add the counters of an operator's tasks."""
        counts = self._counts.setdefault(operator, Counter())
        for task in tasks:
            counts.update(task)

    def after(self, before: Progress, snapshot: Snapshot, shown: Iterable[int]) -> Progress:
        """Return the progress after this batch.

        Args:
            before: progress before the batch.
            snapshot: the version that the batch committed.
            shown: ids of the operators whose rows the views have.
        """
        seconds = time.monotonic() - self._began
        operators = self._operators(before.operators)
        counters, total = snapshot.counters, Counter[str]()
        for counts in self._counts.values():
            total.update(counts)
        final = Counter[str]()
        for operator in set(shown):
            final.update(self._counts.get(operator, Counter()))
        return replace(
            with_levels(before, snapshot),
            batches=before.batches + 1,
            input_rows=before.input_rows + total["input_rows"],
            groups_touched=before.groups_touched + total["touched"],
            changes=before.changes + sum(change.rows for change in snapshot.view_changes),
            rows_per_second=total["input_rows"] / max(seconds, 1e-9),
            batch_seconds=seconds,
            late_rows=before.late_rows + counters.get("late", 0),
            bad_rows=before.bad_rows + counters.get("bad", 0),
            early_retractions=before.early_retractions + total["early"],
            groups_emitted=before.groups_emitted + total["emitted"],
            retracted=before.retracted + final["retracted"],
            inserted=before.inserted + final["inserted"],
            busy_seconds=before.busy_seconds + seconds,
            commit_seconds=before.commit_seconds + self._phases["commit"],
            sweep_seconds=before.sweep_seconds + self._phases["sweep"],
            batch_times=_count_times(before.batch_times, seconds),
            operators=operators,
            views=_views(before, snapshot),
            refresh=_refresh(before.refresh, snapshot.refresh),
            committed=time.time(),
        )

    def _operators(self, before: tuple[OperatorProgress, ...]) -> tuple[OperatorProgress, ...]:
        by_operator = {operator.operator: operator for operator in before}
        for ordinal in (*self._counts, *self._jobs):
            by_operator.setdefault(ordinal, OperatorProgress(ordinal))
        return tuple(self._measure_moves(by_operator[ordinal]) for ordinal in sorted(by_operator))

    def _measure_moves(self, before: OperatorProgress) -> OperatorProgress:
        counts = self._counts.get(before.operator, Counter())
        moved = {
            field: getattr(before, field) + counts[name] for name, field in TASK_COUNTS.items()
        }
        times = {
            field: getattr(before, field) + counts[name] / 1e6 for name, field in TASK_TIMES.items()
        }
        job_seconds = before.job_seconds + self._jobs[before.operator] / 1e6
        return OperatorProgress(before.operator, **moved, **times, job_seconds=job_seconds)


def _microseconds(began: float) -> int:
    return int((time.monotonic() - began) * 1e6)


def _count_times(times: tuple[int, ...], seconds: float) -> tuple[int, ...]:
    at = bisect_left(BATCH_SECONDS, seconds)
    return (*times[:at], times[at] + 1, *times[at + 1 :])


def at_start(snapshot: Snapshot | None, plan: str, checkpoint: str) -> Progress:
    """Return the progress at the start of a run.

    Args:
        snapshot: the version that the run continues; None for a new checkpoint.
        plan: fingerprint of the plan.
        checkpoint: path of the checkpoint.
    """
    began = Progress(started=time.time(), plan=plan, checkpoint=checkpoint)
    if snapshot is None:
        return began
    operators = tuple(OperatorProgress(i) for i in range(len(snapshot.operators)))
    return replace(with_levels(began, snapshot), operators=operators)


def _refresh(before: RefreshProgress | None, record: RefreshRecord) -> RefreshProgress | None:
    """Return how batches were computed; unchanged if no policy has chosen."""
    if not record.reason:
        return before
    refresh = before or RefreshProgress()
    return RefreshProgress(
        refresh.incremental + (not record.operators),
        refresh.full + bool(record.operators),
        record.reason,
        *(None if us is None else us / 1e6 for us in (record.incremental, record.full)),
    )


def _views(before: Progress, snapshot: Snapshot) -> tuple[ViewProgress, ...]:
    """Return the progress of each named view."""
    changes_before = {view.view: view.changes for view in before.views}
    return tuple(
        ViewProgress(name, changes_before.get(name, 0) + sum(file.rows for file in view.changes))
        for name, view in snapshot.views.items()
    )


def with_levels(progress: Progress, snapshot: Snapshot) -> Progress:
    """Return `progress` with the values that a version determines, such as tree sizes."""
    return replace(
        progress,
        version=snapshot.version,
        watermark=snapshot.watermark,
        quarantined=snapshot.counters.get("quarantined", 0),
        groups_waiting=snapshot.counters.get("waiting", 0),
        trees=tree_sizes(snapshot),
    )


def count_tasks(tasks: Iterable[Mapping[str, int]], before: Snapshot | None) -> dict[str, int]:
    """Return the counters of a snapshot: sums over all tasks, and the levels after the batch.

    Args:
        tasks: counters of all tasks of the batch.
        before: the previous version; None before the first.
    """
    totals: Counter[str] = Counter(dict.fromkeys((*TASK_COUNTS, *TASK_TIMES, *LEVELS), 0))
    for task in tasks:
        totals.update(task)
    for level in LEVELS:
        totals[level] += before.counters.get(level, 0) if before is not None else 0
    return dict(totals)


_EMPTY: dict[str, Runs] = {GROUP: (), PENDING: (), CLOSED: ()}
"""Trees whose size is reported even if they have no runs."""


def tree_sizes(snapshot: Snapshot) -> tuple[TreeSize, ...]:
    """Return the size of every tree of a version."""
    return tuple(
        _size(ordinal, name, runs)
        for ordinal, state in enumerate(snapshot.operators)
        for name, runs in {**_EMPTY, **state.trees}.items()
    )


def _size(operator: int, tree: str, runs: tuple[RunFile, ...]) -> TreeSize:
    # A file shared by several hash ranges is listed once per range.
    files = {run.name: run for run in runs}.values()
    rows, size = sum(run.rows for run in files), sum(run.bytes for run in files)
    return TreeSize(operator, tree, len(files), rows, size)
