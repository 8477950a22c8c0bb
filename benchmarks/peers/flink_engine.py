"""PyFlink, Table API: mini-batches on, state in RocksDB or on the heap, answers go nowhere.

Flink knows no batches, so the files of a turn are one bounded job, whose time is divided among them. State does not go
from job to job: what comes before a turn is read again in it, and the time of a job that reads only that is taken off.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.engines.job import EngineJob, TimedBatch
from benchmarks.peers import csv_files

SETTINGS = {
    "parallelism.default": "2",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "100000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    "taskmanager.memory.managed.size": "1g",
    "state.backend.incremental": "true",
    "execution.checkpointing.interval": "1 s",
}

SOURCE = (
    "CREATE TABLE t (k BIGINT, i BIGINT, x DOUBLE)"
    " WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv')"
)
SINK = (
    "CREATE TABLE answer (k BIGINT, n BIGINT, s BIGINT, a DOUBLE) WITH ('connector' = 'blackhole')"
)


class Flink:
    """A job per turn.

    Args:
        backend: of the state, ``rocksdb`` or ``hashmap``.
    """

    def __init__(self, backend: str) -> None:
        self._backend = backend

    def run(self, job: EngineJob) -> list[TimedBatch]:
        """Run the batches. Each has the mean time of the turn."""
        csv_files.check(job.sql)
        folder = Path(job.checkpoint, "in")
        before = self._timed(folder, job) if folder.is_dir() else 0.0
        for files in job.batches:
            csv_files.convert(job.paths(files), folder / f"{files[0]}.csv", header=False)
        mean = (self._timed(folder, job) - before) / len(job.batches)
        return [TimedBatch(files[0], mean) for files in job.batches]

    def _timed(self, folder: Path, job: EngineJob) -> float:
        from pyflink.table import EnvironmentSettings, TableEnvironment

        environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        checkpoints = {"execution.checkpointing.dir": f"file://{Path(job.checkpoint)}/flink"}
        for name, value in {
            **SETTINGS, **checkpoints, "state.backend.type": self._backend
        }.items():  # fmt: skip
            environment.get_config().set(name, value)
        environment.execute_sql(SOURCE.format(folder=folder))
        environment.execute_sql(SINK)
        began = time.perf_counter()
        environment.execute_sql(
            f"INSERT INTO answer {job.sql.replace('count(*)', 'COUNT(*)')}"
        ).wait()
        return time.perf_counter() - began


def rocksdb() -> Flink:
    """State in RocksDB."""
    return Flink("rocksdb")


def heap() -> Flink:
    """State on the heap."""
    return Flink("hashmap")
