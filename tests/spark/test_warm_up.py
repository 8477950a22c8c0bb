"""The preparation of Spark during the planning of a run, and the modules of workers."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import substrait_agg as sa
from substrait_agg.flow.passes.lower import lower
from substrait_agg.spark.execution.driver import DRIVER_BYTES
from substrait_agg.spark.execution.task_runner import run_on_partitions
from substrait_agg.spark.query import warm_up
from substrait_agg.spark.query.warm_up import driver_limit, first_bytes, warm_workers

BENCH = Path(__file__).parents[2] / "plans" / "bench"


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


@pytest.mark.parametrize(
    ("plan", "has_readers", "expected"),
    [("q17", False, 1), ("q17", True, 32), ("cube", True, 2)],
)
def test_files_that_the_driver_reads_need_no_workers_up_to_its_limit(
    plan: str, has_readers: bool, expected: int
) -> None:
    """A cube of four columns repeats every row sixteen times."""
    flow = lower(sa.load(BENCH / f"{plan}.bin").bound())
    assert driver_limit(flow, has_readers=has_readers) == expected * DRIVER_BYTES


def test_a_batch_of_one_file_is_planned_before_the_first_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_hidden.parquet", ".0.parquet.crc"):
        (tmp_path / name).touch()
    asked: list[str] = []
    monkeypatch.setattr(warm_up, "_once", lambda _what, spark, work: work(spark))

    def warm(*sources: str) -> None:
        inputs: Any = SimpleNamespace(streams=sources, batch_of_file=asked.append)
        warm_up.warm_scan(Any, inputs)  # type: ignore[arg-type]

    folder = f"parquet:{tmp_path}?batch-files=1"
    warm(folder)
    assert asked == []
    (tmp_path / "0.parquet").touch()
    warm(folder, folder)
    warm("parquet:s3a://bucket/x")
    assert asked == []
    warm(folder)
    assert asked == [str(tmp_path / "0.parquet")]


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
