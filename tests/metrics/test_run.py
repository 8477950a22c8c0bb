"""One run through Spark with ordered trees, merges, waiting groups and a quarantine: every metric has the value it must have."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.metrics import METRICS, OperatorProgress, Progress
from tests.e2e.feeds import Change, Feed
from tests.e2e.plans import Builder, aggregate, column, read
from tests.metrics.text_format import Family, parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = {"k": "i64", "x": "i64"}
FILES = 14
UNKNOWN = {
    "watermark_seconds", "view_changes_total", "batch_target_seconds", "batch_limit_bytes", "refreshes_total",
    "refresh_estimate_seconds", "source_lag",
}  # fmt: skip
"""What a run without a watermark, a target duration or a connector does not know, and one whose view has no name."""


def plan() -> str:
    """SELECT k, count(*), max(x), count(DISTINCT x), FROM t GROUP BY k: totals and a tree."""
    build = Builder()
    distinct = build.measure("count", (column(1), "i64"), output="i64!")
    distinct["measure"]["invocation"] = "AGGREGATION_INVOCATION_DISTINCT"
    measures = [
        build.measure("count", output="i64!"),
        build.measure("max", (column(1), "i64"), output="i64"),
        distinct,
    ]
    return build.plan(aggregate(read("t", COLUMNS), [column(0)], measures), *"knmd")


def batches() -> list[list[Change]]:
    """Eight keys; a row of key 100 is retracted twice before it is inserted once."""
    made = [[((key, n * key % 5), 1) for key in range(n % 3, 8)] for n in range(FILES)]
    made[3].append(((100, 1), -1))
    made[5].append(((100, 1), -1))
    made[7].append(((100, 1), 1))
    made[9].append(((2, 2 * 2 % 5), -1))
    return made


@dataclass
class Recorder(sa.RunListener):
    """Notes every event; one of its methods fails."""

    events: list[tuple[str, Any]] = field(default_factory=list)

    def on_started(self, event: Any) -> None:
        self.events.append(("started", event))

    def on_progress(self, event: Any) -> None:
        self.events.append(("progress", event))

    def on_terminated(self, event: Any) -> None:
        self.events.append(("terminated", event))


@dataclass
class Measured:
    """A finished run and everything that it reported."""

    folder: Path
    listener: Recorder = field(default_factory=Recorder)
    reported: list[Progress] = field(default_factory=list)
    last: Progress = field(default_factory=Progress)

    @property
    def text(self) -> dict[str, Family]:
        return parse((self.folder / "m.prom").read_text())

    @property
    def operator(self) -> OperatorProgress:
        (only,) = self.last.operators
        return only


@pytest.fixture(scope="module")
def measured(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    found = Measured(tmp_path_factory.mktemp("measured"))
    spec = Feed("t", COLUMNS, "op", batches()).write(found.folder / "in")
    options: dict[str, Any] = {
        "checkpoint": found.folder / "checkpoint",
        "spark": spark,
        "partitions": 1,
        "emit": "count:2",
        "early_retraction": "quarantine",
        "outputs": [f"stream-json={found.folder / 'out.jsonl'}"],
        "progress": found.reported.append,
    }
    run = sa.run(
        plan(), {"t": spec}, metrics=found.folder / "m.prom", listener=found.listener, **options
    )
    run.wait()
    found.last = run.progress
    return found


def waiting_after_each() -> list[int]:
    """By a model of ``count:2``: how many groups wait after each batch."""
    rows: Counter[int] = Counter()
    counts = []
    for batch in batches():
        rows.update(row[0] for row, _ in batch)
        rows = Counter({key: n for key, n in rows.items() if n < 2})
        counts.append(len(rows))
    return counts


def test_every_declared_metric_has_a_sane_value(measured: Measured) -> None:
    text = measured.text
    assert set(text) == {metric.full_name for metric in METRICS if metric.name not in UNKNOWN}
    for metric in METRICS:
        if metric.name in UNKNOWN:
            continue
        values = text[metric.full_name].samples.values()
        assert all(0 <= value < 1e10 for value in values), metric.name
        if metric.unit == "seconds":
            assert max(values) > 0, metric.name


def test_what_went_in_and_came_out_is_counted(measured: Measured) -> None:
    last, operator = measured.last, measured.operator
    view = sa.open_view(measured.folder / "checkpoint")
    changes = view.changes()
    weights = changes.column("__weight").to_pylist()
    assert last.input_rows == operator.input_rows == sum(map(len, batches()))
    assert last.changes == len(weights) == last.retracted + last.inserted
    assert last.retracted == operator.retracted == sum(w < 0 for w in weights)
    assert last.inserted == operator.inserted == sum(w > 0 for w in weights)
    assert last.version == view.version
    assert last.batches == view.version + 1
    assert sum(last.batch_times) == last.batches
    assert (measured.folder / "out.jsonl").read_text().count("\n") == last.changes


def test_groups_are_counted_as_they_wait_and_are_emitted(measured: Measured) -> None:
    """The first version has no rows; the last emits what waits at the end."""
    waiting = [progress.groups_waiting for progress in measured.reported]
    assert waiting == [0, *waiting_after_each(), 0]
    touched = sum(len({row[0] for row, _ in batch}) for batch in batches())
    assert measured.last.groups_touched == touched + waiting[-2]
    assert 0 < measured.last.groups_emitted < touched


def test_early_retractions_are_counted(measured: Measured) -> None:
    aside = [progress.quarantined for progress in measured.reported]
    assert aside == [*[0] * 4, 1, 1, 2, 2, *[1] * (FILES - 6)]
    assert measured.last.early_retractions == measured.operator.early_retractions == 2


def test_state_is_what_the_snapshot_names(measured: Measured) -> None:
    checkpoint = Checkpoint(measured.folder / "checkpoint")
    snapshot = checkpoint.newest_snapshot()
    assert snapshot is not None
    (state,) = snapshot.operators
    sizes = {tree.tree: tree for tree in measured.last.trees}
    assert set(sizes) >= {"group", "pending", "tree0", "closed"}
    for name, runs in (("group", state["group"]), ("tree0", state["tree0"])):
        files = {run.name for run in runs}
        assert sizes[name].runs == len(files) > 0
        on_disk = sum(map(checkpoint.state.size, files))
        assert sizes[name].bytes == on_disk
        assert sizes[name].rows >= 8
    assert (sizes["pending"].runs, sizes["pending"].rows) == (0, 0)


def test_merges_are_counted_and_timed(measured: Measured) -> None:
    operator = measured.operator
    assert operator.merges > 3
    assert operator.merged_rows >= operator.merges
    assert operator.merged_bytes > 100 * operator.merges
    assert 0 < operator.merge_seconds < operator.job_seconds
    parts = operator.fold_seconds + operator.write_seconds + operator.merge_seconds
    assert parts < operator.job_seconds, "one task at a time: its parts are parts of the job"
    times = operator.job_seconds + measured.last.commit_seconds + measured.last.sweep_seconds
    assert 0.5 * measured.last.busy_seconds < times <= measured.last.busy_seconds


def test_the_counters_of_all_snapshots_add_up(measured: Measured) -> None:
    checkpoint = Checkpoint(measured.folder / "checkpoint")
    total: Counter[str] = Counter()
    for version in checkpoint.versions():
        total.update(checkpoint.snapshot(version).counters)
    assert total["input_rows"] == measured.last.input_rows
    assert total["merges"] == measured.operator.merges
    assert total["inserted"] + total["retracted"] == measured.last.changes


def test_a_listener_hears_of_the_start_every_version_and_the_end(measured: Measured) -> None:
    (first, begun), *between, (last, ended) = measured.listener.events
    assert (first, last) == ("started", "terminated")
    assert [kind for kind, _ in between] == ["progress"] * measured.last.batches
    versions = [event.progress.version for _, event in between]
    assert versions == list(range(measured.last.batches))
    assert begun.progress.version == -1
    assert (ended.progress, ended.error) == (measured.last, None)
    assert len({event.run for _, event in measured.listener.events}) == 1
    assert begun.checkpoint == str(measured.folder / "checkpoint")


def test_a_run_that_goes_on_counts_from_zero_and_continues_the_file(
    spark: SparkSession, measured: Measured
) -> None:
    """In the next run gauges continue and counters start at zero; lines are appended; a failing listener has no effect."""
    path = measured.folder / "m.jsonl"

    class Broken:
        def on_progress(self, _event: Any) -> None:
            raise ValueError("no")

    def again() -> Progress:
        run = sa.run(
            plan(), {"t": f"parquet:{measured.folder / 'in' / 't'}?op=change&batch-files=1"},
            checkpoint=measured.folder / "checkpoint", spark=spark, metrics=path, emit="count:2",
            early_retraction="quarantine", listener=Broken(),
        )  # fmt: skip
        run.wait()
        return run.progress

    Feed("t", COLUMNS, "op", [*batches(), [((1, 1), 1)]]).write(measured.folder / "in")
    last = again()
    assert (last.input_rows, last.batches, last.version) == (1, 2, measured.last.version + 2)
    assert (last.quarantined, last.started > measured.last.started) == (1, True)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["metrics"]["version"] for line in lines] == [last.version - 1, last.version]
    assert [line["batch"]["batches"] for line in lines] == [1, 1]
    assert lines[-1]["metrics"]["changes_total"] == last.changes
    assert sum(line["batch"]["changes"] for line in lines) == last.changes
    names = {metric.name for metric in METRICS} - UNKNOWN
    assert set(lines[-1]["metrics"]) <= names
    again()
    assert len(path.read_text().splitlines()) == 2, "without rows there is no version and no line"
