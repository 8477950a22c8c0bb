"""Ours: the plan, incrementally, with state, exact changes and a snapshot on disk in every batch."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import substrait_agg as sa
from benchmarks.engines import on_spark
from benchmarks.engines.job import EngineJob, TimedBatch
from benchmarks.engines.stages import stages_of
from benchmarks.phases import Jobs, phases
from substrait_agg.commit.documents.file_names import snapshot_name
from substrait_agg.metrics import Progress


class Ours:
    """Substrait-agg, with default settings."""

    def __init__(self) -> None:
        self._spark = on_spark.session()

    def run(self, job: EngineJob) -> list[TimedBatch]:
        """Run the batches."""
        began = time.time()
        told: list[Move] = [(Progress(), 0)]
        written = 0

        def committed(progress: Progress) -> None:
            nonlocal written
            snapshot = Path(job.checkpoint, "snapshots", snapshot_name(progress.version))
            written += snapshot.stat().st_size
            told.append((progress, written + sum(o.written_bytes for o in progress.operators)))

        change = "&weight=w" if job.weighted else "&op=op" if job.changes else ""
        run = sa.run(
            job.plan,
            {job.table: f"parquet:{job.folder}?batch-files={job.batch_files}{change}"},
            checkpoint=job.checkpoint,
            spark=self._spark,
            partitions=job.partitions,
            progress=committed,
        )
        run.wait()
        if run.query is None:
            raise RuntimeError("nothing streamed")
        spark = on_spark.progress_of(run.query)
        if len(told) <= len(spark):
            raise RuntimeError("a batch was not committed")
        moves = list(zip(told[-len(spark) - 1 :], told[-len(spark) :], strict=False))
        stages = self._stages(str(run.query.runId), len(spark))
        return [
            replace(
                _taken(files[0], p, before, after, stages[ordinal]),
                since=on_spark.ended(p) - began,
            )
            for ordinal, (files, p, (before, after)) in enumerate(
                zip(job.batches, spark, moves, strict=True)
            )
        ]

    def _stages(self, run: str, batches: int) -> list[Jobs]:
        """Spark's account of the jobs, which arrives a moment later."""
        for _ in range(50):
            found = stages_of(self._spark, run)
            if len(found) >= batches:
                break
            time.sleep(0.1)
        # The account may lack the jobs of the first batches.
        return [Jobs(0.0, (), None)] * (batches - len(found)) + found


Move = tuple[Progress, int]
"""The progress at a version, and the bytes written by then."""


def _taken(file: str, spark: Any, before: Move, after: Move, jobs: Jobs) -> TimedBatch:
    durations = {name: ms / 1000 for name, ms in spark["durationMs"].items()}
    parts = phases(durations, before[0], after[0], jobs)
    return TimedBatch(file, durations["triggerExecution"], parts, after[1] - before[1])
