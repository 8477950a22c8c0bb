"""The preparation of Spark during the planning of a run, and the modules of workers."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from substrait_agg.spark.execution.driver import DRIVER_BYTES
from substrait_agg.spark.execution.task_runner import run_on_partitions
from substrait_agg.spark.query import warm_up
from substrait_agg.spark.query.warm_up import first_bytes, warm_workers


def test_the_size_of_a_first_batch_is_that_of_its_files(tmp_path: Path) -> None:
    for at, size in enumerate((10, 200, 3_000)):
        file = tmp_path / f"{at}.csv"
        file.write_bytes(b"x" * size)
        os.utime(file, (1_700_000_000 + at, 1_700_000_000 + at))
    (tmp_path / "_hidden.csv").write_bytes(b"x" * 40_000)
    assert first_bytes([f"csv:{tmp_path}"]) == 3_210
    assert first_bytes([f"csv:{tmp_path}?batch-files=2"]) == 210
    assert first_bytes([f"csv:{tmp_path}?batch-files=2", f"csv:{tmp_path / '1.csv'}"]) == 410
    for unknown in (f"csv:{tmp_path}/*.csv", "csv:s3a://bucket/x", "table:db.t", "kafka:topic"):
        assert first_bytes([f"csv:{tmp_path}", unknown]) is None


@pytest.mark.parametrize(
    ("size", "expected"), [(None, 1), (DRIVER_BYTES + 1, 1), (DRIVER_BYTES, 0), (0, 0)]
)
def test_workers_are_started_for_batches_that_the_driver_does_not_compute(
    size: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(warm_up, "_once", lambda what, *_: asked.append(what))
    warm_workers(Any, 2, size)  # type: ignore[arg-type]
    assert asked == ["workers"] * expected


class Failing:
    """A session whose Spark has ended."""

    def __init__(self) -> None:
        self.asked = 0
        self.sparkContext = self

    def setLocalProperty(self, *_: str) -> None:  # noqa: N802 - Spark's name
        self.asked += 1
        raise ConnectionRefusedError


def test_a_failed_warm_up_is_ignored_and_not_repeated() -> None:
    session = Failing()
    for _ in range(2):
        warm_up.warm_driver(session)  # type: ignore[arg-type]
        for thread in threading.enumerate():
            if thread.name.startswith("warm-up"):
                thread.join()
    assert session.asked == 1


def test_workers_have_loaded_the_modules_of_tasks(spark: Any) -> None:
    """Spark reuses the workers for the tasks of batches."""
    tasks = spark.sparkContext.defaultParallelism
    warm_up._workers(spark, tasks)

    def loaded(_partition: int, _batches: Any) -> str:
        return json.dumps({"loaded": "substrait_agg.operator.aggregate.step" in sys.modules})

    answers = run_on_partitions(spark.range(0, tasks, 1, tasks), loaded)
    assert '{"loaded": true}' in answers
