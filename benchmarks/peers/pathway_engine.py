"""Pathway: a stream of CSV files, the totals per key, which go nowhere, and the sum of all counts, which tells when a batch is done."""

from __future__ import annotations

import os
import queue
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.engines.job import EngineJob, TimedBatch
from benchmarks.peers import csv_files

os.environ["PATHWAY_THREADS"] = "2"

PATIENCE = 600
"""Seconds that a batch may take."""


class Pathway:
    """One computation that runs until the process ends; a batch is a file that appears in its folder."""

    def __init__(self) -> None:
        self._totals: queue.Queue[int] = queue.Queue()
        self._rows = 0
        self._folder: Path | None = None

    def run(self, job: EngineJob) -> list[TimedBatch]:
        """Run the batches."""
        csv_files.check(job.sql)
        if self._folder is None:
            self._folder = Path(job.checkpoint, "in")
            self._folder.mkdir(parents=True)
            threading.Thread(target=self._compute, args=(str(self._folder),), daemon=True).start()
        return [self._batch(job, self._folder, files) for files in job.batches]

    def _batch(self, job: EngineJob, folder: Path, files: tuple[str, ...]) -> TimedBatch:
        # Converted beside the folder; what is timed begins when the file appears in it.
        ready = folder.parent / "ready" / f"{files[0]}.csv"
        self._rows += csv_files.convert(job.paths(files), ready, header=True)
        began = time.perf_counter()
        ready.rename(folder / ready.name)
        while self._totals.get(timeout=PATIENCE) != self._rows:
            pass
        return TimedBatch(files[0], time.perf_counter() - began)

    def _compute(self, folder: str) -> None:
        import pathway as pw

        schema = pw.schema_from_types(k=int, i=int, x=float)
        rows = pw.io.csv.read(folder, schema=schema, mode="streaming", autocommit_duration_ms=20)
        totals = rows.groupby(pw.this.k).reduce(
            pw.this.k,
            n=pw.reducers.count(),
            s=pw.reducers.sum(pw.this.i),
            a=pw.reducers.avg(pw.this.x),
        )
        pw.io.null.write(totals)
        every = totals.reduce(n=pw.reducers.sum(pw.this.n))
        pw.io.subscribe(every, on_change=self._summary)
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)

    def _summary(self, row: dict[str, Any], is_addition: bool, **_: Any) -> None:
        if is_addition:
            self._totals.put(int(row["n"]))
