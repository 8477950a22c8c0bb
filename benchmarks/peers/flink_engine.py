"""PyFlink, Table API: an endless job per lane that reads files as they arrive, with a checkpoint per batch.

A batch begins when its files appear in the folder that the job watches. It ends when the checkpoint is
complete that Flink takes after its sources have read all rows. Mini-batches are on, the answer goes
nowhere, and state is in RocksDB or on the heap.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.engines.job import EngineJob, TimedBatch
from benchmarks.peers import flink_sql
from benchmarks.peers.peer_input import PeerInput

MEMORY = "BENCHMARKS_JVM_MEMORY"
os.environ.setdefault("JAVA_TOOL_OPTIONS", f"-Xmx{os.environ.get(MEMORY, '3g')}")

SETTINGS = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "100000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "taskmanager.memory.managed.size": "1g",
    "taskmanager.numberOfTaskSlots": "2",
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.interval": "1 h",
    "restart-strategy.type": "none",
    "metrics.fetcher.update-interval": "5",
}
"""What Flink's guide to performance recommends for aggregates; checkpoints are asked for by batch."""

MONITOR = "20 ms"
POLL, POLL_SHARE = 0.005, 0.05
"""Seconds between two questions to Flink at least, and share of the time so far: answers take processor time."""
PATIENCE = 600
"""Seconds that a batch may take."""
WRITTEN = 60
"""Seconds in which the files of an answer are renamed."""
STARTING = "is not being executed at the moment"
"""Flink refuses a checkpoint with these words while a task starts."""


class FlinkJob:
    """An endless job.

    Args:
        job: the first job of a lane.
        backend: of the state, ``rocksdb`` or ``hashmap``.
    """

    def __init__(self, job: EngineJob, backend: str) -> None:
        self._input = PeerInput.read(Path(job.converted))
        self._tables = job.tables
        self._checkpoint = Path(job.checkpoint)
        self._folder = self._checkpoint.with_name("input")
        self._answer = Path(job.answer) if job.answer else None
        self._lines = 0
        for table in self._tables:
            (self._folder / "in" / table).mkdir(parents=True)
        if job.bounded:
            for name in job.files:
                self._arrive(name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._client = self._start(job, backend, port)
        self._url = f"http://127.0.0.1:{port}/jobs/{self._client.get_job_id()}"
        self._sources = dict[str, str]()
        self._request = ""

    def _start(self, job: EngineJob, backend: str, port: int) -> Any:
        from pyflink.common import Configuration
        from pyflink.table import EnvironmentSettings, TableEnvironment

        configuration = Configuration()
        settings = {
            **SETTINGS,
            "parallelism.default": str(job.partitions),
            "rest.address": "127.0.0.1",
            "rest.port": str(port),
            "rest.bind-port": str(port),
            "state.backend.type": backend,
            "execution.checkpointing.dir": f"file://{self._checkpoint}",
        }
        for name, value in settings.items():
            configuration.set_string(name, value)
        made = EnvironmentSettings.new_instance().in_streaming_mode()
        environment = TableEnvironment.create(made.with_configuration(configuration).build())
        for statement in self._script(job):
            environment.execute_sql(statement)
        view, options = "answer", {"connector": "blackhole"}
        if self._answer is not None:
            environment.execute_sql(flink_sql.changes_of(view))
            view = flink_sql.CHANGES
            path = f"file://{self._answer}"
            options = {"connector": "filesystem", "path": path, "format": "csv"}
        columns = _columns(environment.from_path(view))
        if self._answer is not None:
            self._answer.mkdir(parents=True)
            names = [name for name, _ in columns]
            (self._answer / "_columns.json").write_text(json.dumps(names))
        environment.execute_sql(flink_sql.sink("sink", columns, options))
        result = environment.execute_sql(f"INSERT INTO sink SELECT * FROM {view}")
        return result.get_job_client()

    def _script(self, job: EngineJob) -> list[str]:
        """Return the statements that create the tables and the view ``answer``."""
        folder = self._folder / "in"
        if job.script:
            return [statement.replace("{folder}", str(folder)) for statement in job.script]
        made: list[str] = []
        for table in self._tables:
            made += flink_sql.source(table, self._input.tables[table], folder / table, MONITOR)
        tables = [self._input.tables[table] for table in self._tables]
        return [*made, f"CREATE VIEW answer AS {flink_sql.query(job.sql, tables)}"]

    def batch(self, name: str) -> TimedBatch:
        """Run a batch: it counts from the arrival of its files to the checkpoint with its rows."""
        began, arrived = self._arrive(name)
        self._wait(self._read_all, began)
        read = time.perf_counter() - began
        self._request = ""
        self._wait(self._is_committed, began)
        seconds = time.perf_counter() - began
        for target in arrived:
            shutil.rmtree(target)
        completed = self._ask("checkpoints")["latest"]["completed"]
        parts = {"read": read, "checkpoint": seconds - read}
        return TimedBatch(name, seconds, parts, int(completed["checkpointed_size"]))

    def _arrive(self, name: str) -> tuple[float, list[Path]]:
        """Let the files of a batch appear; return when, and their folders."""
        ready: list[tuple[Path, Path]] = []
        for table, change in self._input.changed(name, self._tables):
            staged = self._folder / "staged" / table / name
            staged.mkdir(parents=True)
            for file in self._input.files(name, table):
                (staged / file.name).hardlink_to(file)
            ready.append((staged, self._folder / "in" / table / name))
            self._lines += change.lines
        began = time.perf_counter()
        for staged, target in ready:
            staged.rename(target)
        return began, [target for _, target in ready]

    def join(self) -> None:
        """Wait until a bounded job has ended."""
        self._client.get_job_execution_result().result()

    def end(self) -> None:
        """Stop the job."""
        if self._answer is not None:
            # Files are renamed some time after the checkpoint that they belong to.
            began = time.perf_counter()
            while (
                any(self._answer.rglob("*.inprogress*")) and time.perf_counter() - began < WRITTEN
            ):
                time.sleep(0.1)
            time.sleep(1)
        self._client.cancel().result()

    def _wait(self, condition: Callable[[], bool], began: float) -> None:
        looked = time.perf_counter()
        while not condition():
            time.sleep(max(POLL, POLL_SHARE * (time.perf_counter() - began)))
            now = time.perf_counter()
            if now - began > PATIENCE:
                raise TimeoutError("Flink takes too long")
            if now - looked > 1:
                looked = now
                self._check_running()

    def _check_running(self) -> None:
        state = self._ask("")["state"]
        if state not in ("INITIALIZING", "CREATED", "RUNNING"):
            cause = self._ask("exceptions").get("root-exception") or ""
            lines = [line for line in cause.splitlines() if not line.startswith("\tat")]
            raise RuntimeError(f"the job is {state}: {' '.join(lines)[-400:]}")

    def _read_all(self) -> bool:
        """Return whether the sources have read the rows of all batches."""
        if len(self._sources) < len(self._tables) and not self._find_sources():
            return False
        found = 0
        for vertex, metric in self._sources.items():
            path = f"vertices/{vertex}/subtasks/metrics?get={metric}&agg=sum"
            found += int(sum(float(m["sum"]) for m in self._ask(path)))
        return found >= self._lines

    def _find_sources(self) -> bool:
        """Look up the metric of each source that counts its rows; return whether all are there."""
        found = dict[str, str]()
        for vertex in self._ask("")["vertices"]:
            metrics = self._ask(f"vertices/{vertex['id']}/subtasks/metrics")
            names = [
                m["id"]
                for m in metrics
                if m["id"].startswith("Source") and m["id"].endswith(".numRecordsIn")
            ]
            if names:
                found[vertex["id"]] = names[0]
        if len(found) == len(self._tables):
            self._sources = found
        return bool(self._sources)

    def _is_committed(self) -> bool:
        """Return whether a checkpoint is complete, asked for if there is none."""
        if not self._request:
            asked = self._ask("checkpoints", {"checkpointType": "CONFIGURED"})
            self._request = asked["request-id"]
        found = self._ask(f"checkpoints/{self._request}")
        failure = str((found.get("operation") or {}).get("failureCause") or "")
        if STARTING in failure:
            self._request = ""
        elif failure:
            raise RuntimeError(f"a checkpoint failed: {failure[:400]}")
        return bool(found["status"]["id"] == "COMPLETED" and not failure)

    def _ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self._url}/{path}".rstrip("/"), data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


def _columns(table: Any) -> list[tuple[str, str]]:
    """Return the names and types of the columns of a table."""
    schema = table._j_table.getResolvedSchema()
    types = [
        kind.getLogicalType().copy(True).asSerializableString()
        for kind in schema.getColumnDataTypes()
    ]
    return list(zip(schema.getColumnNames(), types, strict=True))


class Flink:
    """A job per lane.

    Args:
        backend: of the state, ``rocksdb`` or ``hashmap``.
    """

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._jobs: dict[str, FlinkJob] = {}

    def run(self, job: EngineJob) -> list[TimedBatch]:
        """Run the batches; a lane that writes its answer ends with them, and one that has its last ones."""
        if job.bounded:
            FlinkJob(job, self._backend).join()
            return []
        if job.lane not in self._jobs:
            self._jobs[job.lane] = FlinkJob(job, self._backend)
        running = self._jobs[job.lane]
        taken = [running.batch(name) for name in job.files]
        if job.answer or job.last:
            with suppress(Exception):  # it is cancelled
                running.end()
            del self._jobs[job.lane]
        return taken


def rocksdb() -> Flink:
    """State in RocksDB."""
    return Flink("rocksdb")


def heap() -> Flink:
    """State on the heap."""
    return Flink("hashmap")
