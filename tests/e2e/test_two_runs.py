"""A second run of a checkpoint is refused while the first one lives, and changes nothing."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.commit.log.locking import LOCK
from substrait_agg.errors import CommitConflict, StateRefused
from tests.e2e.files import write_in_order
from tests.e2e.killing import PATIENCE, Command, kill_session, newest, signal_session
from tests.e2e.plans import Builder, aggregate, column, read
from tests.e2e.rows import view_rows
from tests.e2e.running import maintain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from substrait_agg.spark.query.handle import Run

pytestmark = pytest.mark.spark


def counts() -> str:
    """SELECT k, count(*) FROM t GROUP BY k."""
    builder = Builder()
    source = read("t", {"k": "string"})
    return builder.plan(
        aggregate(source, [column(0)], [builder.measure("count", output="i64!")]), "k", "n"
    )


def rows(key: str) -> list[pa.Table]:
    return [pa.table({"k": [key]})]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def await_version(checkpoint: Path, version: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while newest(checkpoint) < version:
        assert time.monotonic() < deadline, newest(checkpoint)
        time.sleep(0.01)


def endless(spark: SparkSession, source: dict[str, str], checkpoint: Path) -> Run:
    return sa.run(counts(), source, checkpoint=checkpoint, spark=spark, until="100ms")


def test_a_second_run_in_the_same_session(spark: SparkSession, tmp_path: Path) -> None:
    """The first run reads later files. When it has stopped, another one can start."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write_in_order(folder, rows("a"))
    source = {"t": f"parquet:{folder}"}
    first = endless(spark, source, checkpoint)
    try:
        await_version(checkpoint, 1)
        with pytest.raises(StateRefused) as refused:
            endless(spark, source, checkpoint)
        assert refused.value.code == "CHECKPOINT_BUSY"
        write_in_order(folder, rows("b"), 1)
        await_version(checkpoint, 2)
    finally:
        first.stop()
    first.wait()
    assert view_rows(checkpoint) == Counter({("a", 1): 1, ("b", 1): 1})
    write_in_order(folder, rows("c"), 2)
    maintain(spark, counts(), source, checkpoint)
    assert view_rows(checkpoint) == Counter({("a", 1): 1, ("b", 1): 1, ("c", 1): 1})


def test_a_failed_run_leaves_no_lock(spark: SparkSession, tmp_path: Path) -> None:
    """The next run of the process starts at once after a batch that failed, and after a start that failed."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "a.csv").write_text("k\na\n")
    (folder / "b.csv").write_text("k\na,b\n")
    source = {"t": f"csv:{folder}"}
    for _ in range(2):
        with pytest.raises(sa.errors.RunFailed):
            maintain(spark, counts(), source, checkpoint)
    (folder / "b.csv").write_text("k\nb\n")
    maintain(spark, counts(), source, checkpoint)
    assert view_rows(checkpoint) == Counter({("a", 1): 1, ("b", 1): 1})


def test_a_run_that_was_taken_over_says_so(spark: SparkSession, tmp_path: Path) -> None:
    """Where no lock is shared the second run takes over; `wait` of the first one raises."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write_in_order(folder, rows("a"))
    source = {"t": f"parquet:{folder}"}
    first = endless(spark, source, checkpoint)
    await_version(checkpoint, 1)
    (checkpoint / LOCK).unlink()
    second = endless(spark, source, checkpoint)
    try:
        with pytest.raises(CommitConflict) as lost:
            first.wait()
    finally:
        second.stop()
    assert lost.value.code == "COMMIT_CONFLICT"


def test_a_second_process(tmp_path: Path) -> None:
    """It ends before it changes anything, also while the first one is suspended. After a kill of
    the first one, the next starts at once.
    """
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write_in_order(folder, rows("a"))
    plan = tmp_path / "plan.json"
    plan.write_text(counts())
    arguments = (
        str(plan),
        "--source",
        f"t=parquet:{folder}",
        "--no-progress",
        "--master",
        "local[1]",
    )
    first = Command((*arguments, "--every", "100ms"), checkpoint, tmp_path / "first.log")
    second = Command(arguments, checkpoint, tmp_path / "second.log")
    process = first.start()
    try:
        await_version(checkpoint, 1)
        signal_session(process, signal.SIGSTOP)
        before, refused = contents(checkpoint), second.start()
        try:
            assert refused.wait(PATIENCE) == 1
        finally:
            kill_session(refused)
        assert contents(checkpoint) == before
        said = second.log.read_text()
        assert "CHECKPOINT_BUSY" in said
        assert f"process {process.pid} " in said
    finally:
        kill_session(process)
    write_in_order(folder, rows("b"), 1)
    second.finish()
    assert view_rows(checkpoint) == Counter({("a", 1): 1, ("b", 1): 1})
