"""Ours: the plan, incrementally, with state, exact changes and a snapshot on disk in every batch."""

from __future__ import annotations

import time
from pathlib import Path

import substrait_agg as sa
from benchmarks.engines import on_spark
from benchmarks.engines.commits import Commits
from benchmarks.engines.job import EngineJob, TimedBatch
from benchmarks.engines.stages import stages_of
from benchmarks.phases import phases
from substrait_agg.commit.documents.file_names import snapshot_name


class Ours:
    """Substrait-agg, with default settings."""

    def __init__(self) -> None:
        self._spark = on_spark.session()

    def run(self, job: EngineJob) -> list[TimedBatch]:
        """Run the batches."""
        began, commits = time.time(), Commits()
        change = "&weight=w" if job.weighted else "&op=op" if job.changes else ""
        sa.run(
            job.plan,
            {job.table: f"parquet:{job.folder}?batch-files={job.batch_files}{change}"},
            checkpoint=job.checkpoint,
            spark=self._spark,
            partitions=job.partitions,
            progress=commits,
        ).wait()
        batches = commits.of(len(job.batches))
        stages = stages_of(self._spark, [(b.ended - b.seconds, b.ended) for b in batches])
        snapshots = Path(job.checkpoint, "snapshots")
        return [
            TimedBatch(
                files[0],
                batch.seconds,
                phases(batch.seconds, batch.before, batch.after, jobs),
                batch.written + (snapshots / snapshot_name(batch.after.version)).stat().st_size,
                since=batch.ended - began,
            )
            for files, batch, jobs in zip(job.batches, batches, stages, strict=True)
        ]
