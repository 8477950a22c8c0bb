"""An engine in a process of its own: jobs come as JSON lines, answers go as JSON lines.

So each engine has its own JVM, its own memory to measure, and, where it needs other packages, another Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MARK = "benchmarks: "
"""Begins every answer: whatever else an engine prints on stdout is passed over."""

ENGINES: dict[str, tuple[str, str]] = {
    "ours": ("benchmarks.engines.ours", "Ours"),
    "rocksdb": ("benchmarks.engines.native", "rocksdb"),
    "default": ("benchmarks.engines.native", "default"),
    "rocksdb-tuned": ("benchmarks.engines.native", "rocksdb_tuned"),
    "default-tuned": ("benchmarks.engines.native", "default_tuned"),
    "floor": ("benchmarks.engines.native", "Floor"),
    "batch": ("benchmarks.engines.recompute", "SparkBatch"),
    "spark": ("benchmarks.engines.recompute", "Spark"),
    "duckdb": ("benchmarks.engines.recompute", "DuckDB"),
    "pathway": ("benchmarks.peers.pathway_engine", "Pathway"),
    "flink-rocksdb": ("benchmarks.peers.flink_engine", "rocksdb"),
    "flink-heap": ("benchmarks.peers.flink_engine", "heap"),
}
"""Engine -> where it is made."""


class EngineFailed(Exception):
    """An engine could not run a job."""


class Process:
    """A started engine.

    Args:
        engine: its name.
        log: file for what it prints on stderr.
        python: that runs it.
        memory: of its JVM, as Java takes it.
        root: the tree whose code runs.
    """

    def __init__(self, engine: str, log: Path, python: str, memory: str, root: Path = ROOT) -> None:
        self.engine, self._log = engine, log
        paths = [str(root), str(root / "cli"), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "BENCHMARKS_JVM_MEMORY": memory,
        }
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [python, "-m", "benchmarks.process", engine],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                cwd=log.parent,
            )

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def run(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        """The batches of a job.

        Raises:
            Failed: the engine raised, or is gone.
        """
        if self._process.stdin is None or self._process.stdout is None:
            raise EngineFailed(self.engine)
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise EngineFailed(f"{self.engine} has ended, see {self._log}") from error
        for line in self._process.stdout:
            if line.startswith(MARK):
                answer = json.loads(line.removeprefix(MARK))
                if "error" in answer:
                    raise EngineFailed(f"{self.engine}: {answer['error']}")
                return list(answer["taken"])
        raise EngineFailed(f"{self.engine} has ended, see {self._log}")

    def end(self) -> None:
        """Let it end, and wait for that."""
        # Who has ended already does not take what is still to be flushed.
        with suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def serve(make: Callable[[], Any]) -> None:
    """Run jobs from stdin until it ends."""
    from benchmarks.engines.job import job_of, to_json

    engine: Any = None
    for line in sys.stdin:
        try:
            engine = engine or make()
            answer: dict[str, Any] = {
                "taken": [to_json(t) for t in engine.run(job_of(json.loads(line)))]
            }
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error)[:500]}"}
        print(f"{MARK}{json.dumps(answer)}", flush=True)


def main() -> None:
    """Be the engine that the first argument names."""
    from importlib import import_module

    module, name = ENGINES[sys.argv[1]]
    serve(lambda: getattr(import_module(module), name)())


if __name__ == "__main__":
    main()
