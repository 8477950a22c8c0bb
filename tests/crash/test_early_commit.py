"""A run ends after the driver has committed a batch early, and before Spark calls the function of ``foreachBatch`` with it.

The version is there, but Spark's log does not record the batch as finished. So the next run gets the batch again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import substrait_agg as sa
from substrait_agg.errors import RunFailed
from tests.e2e.feeds import Change, Feed
from tests.e2e.killing import ROOT
from tests.e2e.rows import Bag, bag, changes_by_version
from tests.e2e.running import check_versions
from tests.e2e.test_small_batch_reads import LEFT, RIGHT, plan
from tests.executors import drivers
from tests.kills.process_killer import strike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW, MANY = 4, 12
PATIENCE, SECONDS = 240.0, 20.0

PROGRAM = '''
"""Run a plan; if there is a second argument, die after the first batch that is committed before Spark calls for it."""
import os, sys
from pathlib import Path
import substrait_agg as sa
from substrait_agg.spark.query.planned_batches import PlannedBatches
from tests.crash.test_early_commit import start
from tests.kills.process_killer import strike

finish = PlannedBatches._finish

def finish_and_die(self, batch):
    finish(self, batch)
    if self.has_computed(batch) and self._taken < batch:
        Path(sys.argv[2]).write_text(str(batch))
        strike(os.getsid(0), "all")

if len(sys.argv) > 2:
    PlannedBatches._finish = finish_and_die
start(None, Path(sys.argv[1])).wait()
'''


def feeds(batches: int) -> tuple[Feed, Feed]:
    """Two tables with insertions and deletions in every batch."""

    def changes(name: str) -> list[list[Change]]:
        rows = [(n % 3, f"{name}{n}") for n in range(batches)]
        return [
            [(row, 1), *([(rows[n - 2], -1)] if n > 1 and n % 2 else [])]
            for n, row in enumerate(rows)
        ]

    return Feed("l", LEFT, "op", changes("a")), Feed("r", RIGHT, "op", changes("b"))


def answer(batches: int, version: int) -> Bag:
    """The rows of the plan at a version, by its definition."""
    left, right = (feed.after(version) for feed in feeds(batches))
    rows: Bag = Counter()
    for (k, a), n in left.items():
        matches = [(b, m) for (other, b), m in right.items() if other == k]
        for b, m in matches:
            for c, o in matches:
                rows[a, b, c] += n * m * o
    return rows


def start(spark: SparkSession | None, folder: Path, **options: Any) -> Any:
    sources = {name: f"parquet:{folder / name}?batch-files=1&op=change" for name in "lr"}
    return sa.run(
        plan().encode(),
        sources,
        checkpoint=folder / "checkpoint",
        spark=spark,
        master=None if spark else "local[2]",
        partitions=2,
        outputs=[f"stream-json={folder / 'out.jsonl'}"],
        **options,
    )


def finished(folder: Path) -> list[int]:
    """Return the batches that Spark's log records as finished."""
    names = (path.name for path in (folder / "checkpoint").glob("spark/commits/*"))
    return sorted(int(name) for name in names if name.isdigit())


def newest(folder: Path) -> int:
    return max(sa.open_view(folder / "checkpoint").versions())


def test_a_batch_that_was_committed_before_spark_called_is_not_computed_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends where Spark would call for the second batch; the next one continues behind it."""
    from substrait_agg.spark.execution.driver import Driver
    from substrait_agg.spark.query.planned_batches import PlannedBatches

    for feed in feeds(FEW):
        feed.write(tmp_path)
    views: dict[int, Bag] = {}

    def keep(progress: Any) -> None:
        assert progress.version not in views
        view = sa.open_view(tmp_path / "checkpoint")
        views[progress.version] = bag(view.to_arrow(progress.version))

    with monkeypatch.context() as patched:
        wait = PlannedBatches.wait

        def lost(self: PlannedBatches, batch: int) -> None:
            ends = time.monotonic() + SECONDS
            while batch == 1 and newest(tmp_path) < 2 and time.monotonic() < ends:
                time.sleep(0.01)
            wait(self, batch)
            if batch == 1:
                assert self.has_computed(batch)
                raise RuntimeError("Spark never called")

        patched.setattr(PlannedBatches, "wait", lost)
        with drivers(Driver()), pytest.raises(RunFailed, match="Spark never called"):
            start(spark, tmp_path, progress=keep).wait()
    assert newest(tmp_path) == 2
    assert finished(tmp_path) == [0]
    with drivers(Driver()):
        start(spark, tmp_path, progress=keep).wait()
    assert finished(tmp_path) == list(range(FEW))
    check_versions(tmp_path / "checkpoint", views, [answer(FEW, v) for v in range(FEW + 1)])


@pytest.mark.soak
def test_a_process_that_is_killed_after_an_early_commit_leaves_no_trace(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two kills (``kill -9`` of all processes) of this kind: view, changes and lines are those of an undisturbed run."""
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for folder in (killed, whole):
        for feed in feeds(MANY):
            feed.write(folder)
    start(spark, whole).wait()
    for kill in range(2):
        mark = tmp_path / f"mark{kill}"
        assert _run(tmp_path / "log", killed, mark) != 0
        batch = int(mark.read_text())
        assert newest(killed) == batch + 1
        assert batch not in finished(killed)
    assert _run(tmp_path / "log", killed) == 0, (tmp_path / "log").read_text()[-3000:]
    views = [sa.open_view(folder / "checkpoint") for folder in (killed, whole)]
    assert views[0].versions() == views[1].versions()
    assert bag(views[0].to_arrow()) == answer(MANY, MANY)
    assert changes_by_version(views[0].changes()) == changes_by_version(views[1].changes())
    lines = [sorted((f / "out.jsonl").read_text().splitlines()) for f in (killed, whole)]
    assert lines[0] == lines[1]


def _run(log: Path, folder: Path, *mark: Path) -> int:
    """Run `PROGRAM` in a session of its own, and return its exit status."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), *map(str, mark)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
    try:
        return process.wait(PATIENCE)
    finally:
        strike(process.pid, "all")
        process.wait()
