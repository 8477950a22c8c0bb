"""Emission on Spark: by count, by delay without new data, at the end, and across restarts."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.runtime.batch import settings
from substrait_agg.spark.execution.driver import Driver
from tests.e2e import plans
from tests.e2e.files import write_in_order
from tests.e2e.plans import Builder, aggregate, column, filtered, literal, read
from tests.e2e.rows import bag, running_sums
from tests.e2e.running import starting
from tests.executors import drivers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Rows = Sequence[tuple[str, int, str]]
BATCHES: list[Rows] = [
    [("a", 1, "+I"), ("b", 5, "+I")],
    [("a", 2, "+I")],
    [("a", 1, "-D"), ("c", 7, "+I")],
    [("b", 5, "-D")],
    [("a", 9, "+I")],
]
"""Files of k, x and operation; in the end a has 2 and 9, c has 7."""


def counting() -> str:
    """SELECT k, count(*), max(x) FROM t GROUP BY k."""
    build = Builder()
    measures = [
        build.measure("count", output="i64!"),
        build.measure("max", (column(1), "i64"), output="i64"),
    ]
    return build.plan(
        aggregate(read("t", {"k": "string", "x": "i64"}), [column(0)], measures), *"knm"
    )


def having() -> str:
    """The same HAVING count(*) > 1: the view is of rows, the groups are below it."""
    build = Builder()
    source = read("t", {"k": "string", "x": "i64"})
    counted = aggregate(source, [column(0)], [build.measure("count", output="i64!")])
    many = build.call("gt:any_any", plans.COMPARISON, column(1), literal("i64", 1), output="bool")
    return build.plan(filtered(counted, many), "k", "n")


def write(folder: Path, batches: Sequence[Rows], start: int = 0) -> None:
    tables = [
        pa.table({name: [row[i] for row in rows] for i, name in enumerate(("k", "x", "op"))})
        for rows in batches
    ]
    write_in_order(folder, tables, start)


def maintain(spark: SparkSession | None, plan: str, folder: Path, emit: str, **options: Any) -> Any:
    source = {"t": f"parquet:{folder / 'in'}?op=op&batch-files=1"}
    checkpoint = folder / "checkpoint"
    return starting(spark)(plan, source, checkpoint=checkpoint, emit=emit, **options)


def reached(started: Any, version: int) -> None:
    """Wait until a run has committed a version."""
    deadline = time.monotonic() + 60
    while started.progress.version < version and time.monotonic() < deadline:
        time.sleep(0.05)


def counts(folder: Path) -> list[dict[str, int]]:
    """Per version how many rows each group shows."""
    view = sa.open_view(folder / "checkpoint")
    sums = running_sums(view.changes(), view.versions())
    assert bag(view.to_arrow()) == sums[view.version]
    return [{row[0]: row[1] for row in sums[version]} for version in view.versions()]


@pytest.mark.parametrize("most", [0, Driver().rows], ids=["on Spark", "on the driver"])
def test_the_end_emits_everything_once(most: int, spark: SparkSession, tmp_path: Path) -> None:
    """The view is empty while input arrives; the last version has all groups with rows."""
    write(tmp_path / "in", BATCHES)
    with drivers(Driver(rows=most)):
        maintain(spark, counting(), tmp_path, "end").wait()
    *before, last = counts(tmp_path)
    assert last == {"a": 2, "c": 1}
    assert before == [{}] * (len(BATCHES) + 1)
    assert sa.open_view(tmp_path / "checkpoint").changes().num_rows == 2


def test_a_count_emits_a_group_with_its_nth_row(tmp_path: Path) -> None:
    write(tmp_path / "in", BATCHES)
    maintain(None, counting(), tmp_path, "count:2").wait()
    assert counts(tmp_path) == [
        {},
        {},
        {"a": 2},
        {"a": 2},
        {"a": 2},  # b came and went
        {"a": 2},
        {"a": 2, "c": 1},
    ]


def test_groups_below_a_filter_wait_and_not_the_rows_above(tmp_path: Path) -> None:
    """Groups below a filter wait instead of the rows above it: otherwise an old row could be
    retracted without its new row.
    """
    write(tmp_path / "in", [[("a", 1, "+I")] * 2, [("a", 1, "+I")], [("a", 1, "+I")]])
    maintain(None, having(), tmp_path, "count:2").wait()
    assert counts(tmp_path) == [{}, {"a": 2}, {"a": 2}, {"a": 4}]


def test_what_waits_survives_a_stop(spark: SparkSession, tmp_path: Path) -> None:
    """Groups that are pending at a stop are emitted at the end of the next run, which has no new
    input.
    """
    write(tmp_path / "in", BATCHES[:2])
    started = maintain(spark, counting(), tmp_path, "count:100", until="100ms")
    reached(started, 2)
    started.stop()
    assert counts(tmp_path) == [{}, {}, {}]
    maintain(spark, counting(), tmp_path, "count:100").wait()
    assert counts(tmp_path)[-1] == {"a": 2, "b": 1}


def test_a_delay_passes_though_no_rows_come(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", BATCHES[:1])
    seen: list[int] = []
    started = maintain(
        spark, counting(), tmp_path, "delay:1s", until="100ms",
        on_changes=lambda changes, version: seen.append(changes.num_rows),
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not seen and time.monotonic() < deadline:
        time.sleep(0.05)
    started.stop()
    assert seen == [2]
    assert counts(tmp_path) == [{}, {}, {"a": 1, "b": 1}]


@pytest.mark.parametrize("emit", ["delay:1h", "batch"])
def test_what_was_due_before_a_restart_is_emitted_without_new_rows(
    emit: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delay of a group continues across restarts."""
    write(tmp_path / "in", BATCHES[:1])
    with monkeypatch.context() as earlier:
        hours_ago = time.time_ns() - 2 * 3600 * 10**9
        earlier.setattr(
            settings, "time", SimpleNamespace(time_ns=lambda: hours_ago, monotonic=time.monotonic)
        )
        started = maintain(spark, counting(), tmp_path, "delay:1h", until="100ms")
        reached(started, 1)
        started.stop()
    started = maintain(spark, counting(), tmp_path, emit, until="100ms")
    reached(started, 2)
    started.stop()
    assert counts(tmp_path) == [{}, {}, {"a": 1, "b": 1}]


def test_a_failure_of_an_emission_ends_the_run_though_rows_have_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`wait` raises the failure, and the next run reads the rows."""
    write(tmp_path / "in", BATCHES[:1])

    def broken(progress: Any) -> None:
        if not progress.changes:
            return
        write(tmp_path / "in", BATCHES[1:2], 1)
        time.sleep(2)
        raise ValueError("full")

    started = maintain(spark, counting(), tmp_path, "delay:500ms", until="100ms", progress=broken)
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            started.wait()
        except ValueError as error:
            failed.append(error)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    waiting.join(60)
    assert [str(error) for error in failed] == ["full"]
    maintain(spark, counting(), tmp_path, "end").wait()
    assert counts(tmp_path)[-1] == {"a": 2, "b": 1}


def test_a_policy_that_is_none_is_refused_before_anything(tmp_path: Path) -> None:
    with pytest.raises(sa.UsageError) as refused:
        sa.run(counting(), {}, checkpoint=tmp_path / "ck", emit="sometimes")
    assert refused.value.code == "OPTION_INVALID"
    assert not (tmp_path / "ck").exists()
