"""What workers load to have the functions that they are sent, and what they read of their input."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from substrait_agg.errors import RunFailed
from substrait_agg.spark.execution import operator_job, task_runner


def loaded_by(function: Any, folder: Path) -> set[str]:
    """Modules of the folder for Spark that a worker loads to have the function."""
    path = folder / "function.pickle"
    path.write_bytes(cloudpickle.dumps(function))  # type: ignore[no-untyped-call]
    program = f"import pickle, sys; pickle.load(open({str(path)!r}, 'rb')); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return {name for name in done.stdout.split() if name.startswith("substrait_agg.spark.")}


@pytest.mark.parametrize(
    ("module", "call"),
    [
        (operator_job, lambda: operator_job._on_spark(Any, ())),  # type: ignore[arg-type]
    ],
    ids=["a batch"],
)
def test_a_function_that_is_sent_does_not_import_the_driver(
    module: Any, call: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sent function contains its code; the modules that it refers to are imported."""
    sent: list[Any] = []

    def send(_frame: Any, work: Any, **_: Any) -> list[str]:
        sent.append(task_runner._worker(work))
        return []

    monkeypatch.setattr(module, "run_on_partitions", send)
    call()
    folder = "substrait_agg.spark"
    modules = {f"{folder}.execution", f"{folder}.execution.task_runner"}
    modules |= {f"{folder}.session", f"{folder}.session.errors"}
    assert loaded_by(sent[0], tmp_path) == modules


def _unread_rest(batches: Iterator[pa.RecordBatch]) -> str:
    return json.dumps({"rows": next(batches).num_rows})


def _refusal(batches: Iterator[pa.RecordBatch]) -> str:
    next(batches)
    raise RunFailed("BATCH_FAILED", "a row does not fit", help="correct it")


@pytest.mark.parametrize("work", [_unread_rest, _refusal])
@pytest.mark.parametrize(("batches", "ends"), [(1, True), (4, True), (100, False)])
def test_a_worker_reads_a_short_rest_of_its_input(
    work: Callable[[Iterator[pa.RecordBatch]], str], batches: int, ends: bool
) -> None:
    """Spark ends a worker that has not read the end of its input; a long rest takes longer to read than a worker to start."""
    ended: list[bool] = []

    def rows() -> Iterator[pa.RecordBatch]:
        yield from [pa.record_batch({"n": [1, 2]})] * batches
        ended.append(True)

    answers = task_runner._worker(lambda _partition, input_: work(input_))(rows())
    answer = json.loads(next(answers)["result"][0].as_py())
    assert ("error" in answer) == (work is _refusal)
    assert bool(ended) == ends


@pytest.mark.parametrize(("chosen", "kept"), [("", True), ("mimalloc", False)])
def test_a_process_keeps_memory_unless_the_pool_is_chosen(
    chosen: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both allocators are left alone if the user names Arrow's memory pool."""
    calls: list[Any] = []
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", chosen)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=print))
    monkeypatch.setattr(pa, "set_memory_pool", calls.append)
    task_runner.keep_memory.__wrapped__()
    assert [pool.backend_name for pool in calls] == (["system"] if kept else [])
