"""Pathway: a stream of CSV files, and an answer that goes nowhere.

A batch begins when its files appear in the folder that Pathway watches, or are removed from it. It
ends when the answer is complete at a time at which the tables have the rows of the batch. Nothing is
written to disk: there is no commit.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.engines.job import EngineJob, TimedBatch
from benchmarks.peers.peer_input import NEVER, PeerInput

PATIENCE = 600
"""Seconds that a batch may take."""
COMMIT_MS = 20
TYPES = {"int64": int, "int32": int, "double": float}
"""Arrow type -> type of Pathway; decimals are floats, everything else is a text."""

Summary = dict[str, tuple[int, int]]
"""Table -> number of its rows, and the sum of its first column."""


class Pathway:
    """One computation that runs until the process ends, so a process runs one lane."""

    def __init__(self) -> None:
        self._summaries: queue.Queue[Summary | BaseException] = queue.Queue()
        self._folder: Path | None = None
        self._input: PeerInput | None = None
        self._last: Summary = {}

    def run(self, job: EngineJob) -> list[TimedBatch]:
        """Run the batches."""
        if self._folder is None or self._input is None:
            self._input = PeerInput.read(Path(job.converted))
            self._folder = Path(job.checkpoint).with_name("input")
            for table in job.tables:
                (self._folder / "in" / table).mkdir(parents=True)
            (self._folder / "gone").mkdir()
            os.environ["PATHWAY_THREADS"] = str(job.partitions)
            if job.bounded:
                return self._run_to_end(job, self._input, self._folder)
            threading.Thread(target=self._guarded, args=(job,), daemon=True).start()
        return [self._batch(job, self._input, self._folder, name) for name in job.files]

    def _run_to_end(self, job: EngineJob, given: PeerInput, folder: Path) -> list[TimedBatch]:
        for name in job.files:
            for table, _ in given.changed(name, job.tables):
                for file in given.files(name, table):
                    (folder / "in" / table / f"{name}-{file.name}").hardlink_to(file)
        self._compute(job)
        return []

    def _batch(self, job: EngineJob, given: PeerInput, folder: Path, name: str) -> TimedBatch:
        moves: list[tuple[Path, Path]] = []
        wanted: Summary = {}
        for table, change in given.changed(name, job.tables):
            wanted[table] = (change.alive, change.checksum)
            watched = folder / "in" / table
            for file in given.files(name, table):
                staged = folder / f"{table}-{name}-{file.name}"
                staged.hardlink_to(file)
                leaves = watched / file.stem
                leaves.mkdir(exist_ok=True)
                moves.append((staged, leaves / f"{name}.csv"))
            if name != NEVER and (watched / name).is_dir():
                moves.append((watched / name, folder / "gone" / f"{table}-{name}"))
        began = time.perf_counter()
        for source, target in moves:
            source.rename(target)
        self._wait(wanted, began)
        return TimedBatch(name, time.perf_counter() - began)

    def _wait(self, wanted: Summary, began: float) -> None:
        """Wait until the tables are as wanted."""
        while any(self._last.get(table) != found for table, found in wanted.items()):
            left = PATIENCE - (time.perf_counter() - began)
            found = self._summaries.get(timeout=max(left, 0.01))
            if isinstance(found, BaseException):
                raise found
            self._last = found

    def _guarded(self, job: EngineJob) -> None:
        try:
            self._compute(job)
        except BaseException as error:
            self._summaries.put(error)

    def _compute(self, job: EngineJob) -> None:
        import pathway as pw

        from benchmarks.peers import pathway_nexmark, pathway_queries

        if self._input is None or self._folder is None:
            raise RuntimeError("no input")
        tables = {}
        for name in job.tables:
            columns = self._input.tables[name].columns
            schema = pw.schema_from_types(**{n: _type(kind) for n, kind in columns.items()})
            tables[name] = pw.io.csv.read(
                str(self._folder / "in" / name),
                schema=schema,
                mode="static" if job.bounded else "streaming",
                autocommit_duration_ms=COMMIT_MS,
            )
        answer = {**pathway_queries.QUERIES, **pathway_nexmark.QUERIES}[job.query](tables)
        if job.answer:
            Path(job.answer).mkdir(parents=True)
            pw.io.csv.write(answer, str(Path(job.answer, "answer.csv")))
        else:
            pw.io.null.write(answer)
        pw.io.subscribe(self._summary(tables, answer), on_change=self._changed)
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)

    def _summary(self, tables: Mapping[str, Any], answer: Any) -> Any:
        """Return a row with the summary of all tables.

        It is joined with the number of rows of the answer, so that Pathway shows it for a time only
        when the answer of that time is complete.
        """
        import pathway as pw

        found = answer.reduce(rows=pw.reducers.count()).with_columns(same=0)
        for name, table in tables.items():
            key = next(iter(table.column_names()))
            counted = table.reduce(
                same=0,
                **{
                    f"rows_{name}": pw.reducers.count(),
                    f"keys_{name}": pw.reducers.sum(table[key]),
                },
            )
            joined = counted.join_left(found, counted.same == found.same)
            others = [found[n] for n in found.column_names() if n not in ("rows", "same")]
            found = joined.select(*[counted[n] for n in counted.column_names()], *others)
        return found

    def _changed(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            tables = [name.removeprefix("rows_") for name in row if name.startswith("rows_")]
            values = {t: (row[f"rows_{t}"], row[f"keys_{t}"]) for t in tables}
            self._summaries.put({t: v for t, v in values.items() if None not in v})


def _type(arrow: str) -> type:
    return float if arrow.startswith("decimal") else TYPES.get(arrow, str)
