"""A join with many rows in a batch: it reports them while they are computed, and stops at a bound."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.tasks import join_rows
from substrait_agg.errors import RunFailed, UsageError
from substrait_agg.metrics import Progress
from substrait_agg.metrics.progress import JoinProgress
from substrait_agg.metrics.summary import progress_line
from substrait_agg.runtime import join_watch
from tests.e2e.files import write_in_order
from tests.e2e.plans import COMPARISON, Builder, column, joined, read
from tests.local.run import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIDE = {"k": "string", "v": "i64"}
KEYS, EACH = 40, 5
ROWS = KEYS * EACH * EACH


def plan(kind: str = "inner") -> str:
    b = Builder()
    on = b.call("equal:any_any", COMPARISON, column(0), column(2), output="bool")
    return b.plan(
        joined(kind, read("orders", SIDE), read("clients", SIDE), on),
        *("ab" if "semi" in kind else "abcd"),
    )


def sources(folder: Path) -> dict[str, str]:
    """Two tables in which each of 40 keys has 5 rows."""
    places = [(k, v) for k in range(KEYS) for v in range(EACH)]
    table = pa.table({"k": [f"key {k}" for k, _ in places], "v": [v for _, v in places]})
    for name in ("orders", "clients"):
        write_in_order(folder / name, [table])
    return {name: f"parquet:{folder / name}" for name in ("orders", "clients")}


def failure(tmp_path: Path, kind: str = "inner", start: Any = run, **options: Any) -> RunFailed:
    """The error of a run over the two tables."""
    with pytest.raises(RunFailed) as refused:
        start(plan(kind), sources(tmp_path), checkpoint=tmp_path / "c", **options).wait()
    assert refused.value.code == "JOIN_ROWS_TOO_MANY"
    return refused.value


def test_the_error_names_the_join_and_its_rows(tmp_path: Path) -> None:
    error = failure(tmp_path, max_join_rows=ROWS - 1, partitions=1)
    assert (
        "the inner join of table orders with table clients (operator 0, at relations[0]"
        in error.message
    )
    assert f"{ROWS:,} rows in one batch, more than {ROWS - 1:,}" in error.message
    assert f"make {ROWS:,} pairs with equal keys" in error.message
    assert "--max-join-rows" in error.help


@pytest.mark.parametrize("larger", [ROWS, 0])
def test_a_larger_bound_continues_the_run(tmp_path: Path, larger: int) -> None:
    """Nothing of the batch was committed; 0 is no bound."""
    failure(tmp_path, max_join_rows=ROWS - 1)
    assert sa.open_view(tmp_path / "c").to_arrow().num_rows == 0
    run(plan(), sources(tmp_path), checkpoint=tmp_path / "c", max_join_rows=larger).wait()
    assert sa.open_view(tmp_path / "c").to_arrow().num_rows == ROWS


@pytest.mark.parametrize("shared_from", [1, join_rows.SHARED_FROM])
def test_the_rows_of_all_tasks_count(tmp_path: Path, shared_from: int) -> None:
    """No task alone has too many: they share their counts, and the driver adds them up in the end."""
    with patch.object(join_rows, "SHARED_FROM", shared_from):
        error = failure(tmp_path, max_join_rows=ROWS - 1, partitions=4)
    assert ("pairs" in error.message) == (shared_from == 1)


def test_later_batches_count_pairs_with_stored_rows(tmp_path: Path) -> None:
    more = pa.table({"k": ["key 1"], "v": [99]})
    given = sources(tmp_path)
    run(plan(), given, checkpoint=tmp_path / "c", max_join_rows=ROWS).wait()
    write_in_order(tmp_path / "orders", [more], 1)
    with pytest.raises(RunFailed, match=f"make {EACH} pairs") as refused:
        run(plan(), given, checkpoint=tmp_path / "c", max_join_rows=EACH - 1).wait()
    assert refused.value.code == "JOIN_ROWS_TOO_MANY"


def test_rows_are_counted_and_not_pairs(tmp_path: Path) -> None:
    """A semi join has a row per row of one side, however many matches that has."""
    started = run(
        plan("left_semi"), sources(tmp_path), checkpoint=tmp_path / "c", max_join_rows=KEYS * EACH
    )
    started.wait()
    assert started.progress.version >= 0
    assert started.progress.join is None


def test_a_negative_bound_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        run(plan(), sources(tmp_path), checkpoint=tmp_path / "c", max_join_rows=-1)
    assert refused.value.code == "OPTION_INVALID"


def watched_job(tmp_path: Path) -> Any:
    """The job of the join in the first batch with rows."""
    jobs = []
    watched = join_watch.JoinWatch.watch

    def count_and_watch(self: join_watch.JoinWatch, job: Any) -> Any:
        jobs.append(job)
        return watched(self, job)

    with patch.object(join_watch.JoinWatch, "watch", count_and_watch):
        run(plan(), sources(tmp_path), checkpoint=tmp_path / "c").wait()
    return next(job for job in jobs if job.node.id == 0)


def test_rows_are_reported_while_the_join_is_computed(tmp_path: Path) -> None:
    job, seen, told = watched_job(tmp_path), list[JoinProgress | None](), Event()

    def report() -> None:
        seen.append(watch.progress)
        told.set()

    watch = join_watch.JoinWatch(report=report, seconds=0.001)
    with watch.watch(job) as watched:
        assert watch.progress is None
        for task, rows in zip(watched.tasks(raw=True), (2_000_000, 1_000_000), strict=True):
            assert task.join_rows is not None
            task.join_rows.share(rows)
        told.clear()
        assert told.wait(60)
    assert seen[-1] is not None
    assert (seen[-1].operator, seen[-1].rows) == (0, 3_000_000)
    assert watch.progress is None
    line = progress_line(Progress(version=3, join=seen[-1]))
    assert line.startswith("version 4: 3,000,000 rows so far of the inner join of table orders")


def test_an_error_of_the_report_fails_the_batch(tmp_path: Path) -> None:
    job, told = watched_job(tmp_path), Event()

    def report() -> None:
        told.set()
        raise KeyError("of the caller")

    watch = join_watch.JoinWatch(report=report, seconds=0.001)

    def compute() -> None:
        with watch.watch(job) as watched:
            assert watched.join_rows is not None
            watched.join_rows.share(1)
            assert told.wait(60)

    with pytest.raises(KeyError, match="of the caller"):
        compute()


@pytest.mark.spark
@pytest.mark.parametrize("driver_bytes", [None, "0"])
def test_the_bound_on_spark(tmp_path: Path, spark: SparkSession, driver_bytes: str | None) -> None:
    """The driver and the tasks of Spark stop at the bound, and a larger one continues the run."""
    setting = "spark.substraitAgg.driverBytes"
    if driver_bytes is not None:
        spark.conf.set(setting, driver_bytes)
    try:
        error = failure(tmp_path, start=sa.run, spark=spark, max_join_rows=ROWS - 1, partitions=2)
        assert "the inner join of table orders with table clients" in error.message
        sa.run(
            plan(), sources(tmp_path), checkpoint=tmp_path / "c", spark=spark, partitions=2
        ).wait()
    finally:
        spark.conf.unset(setting)
    assert Checkpoint(tmp_path / "c").versions() == [0, 1]
    assert sa.open_view(tmp_path / "c").to_arrow().num_rows == ROWS
