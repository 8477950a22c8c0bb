"""Bytes that many small batches write for a byte of input, without Spark."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.batches import BatchStream
from benchmarks.conduct import EngineSettings
from benchmarks.results import LaneResult, MeasuredBatch, WorkloadResult
from substrait_agg.commit.log.retention import Retention

BATCHES, ROWS, KEYS, PARTITIONS = 1_000, 1_000, 100_000, 2
WHAT = (
    f"{BATCHES:,} batches x {ROWS:,} rows over {KEYS:,} keys, half of them coming, half of them leaving: count, sum, max;"
    " no Spark"
)


def writes(setting: EngineSettings) -> WorkloadResult:
    """Run the batches; what is read are the columns of the rows as Arrow has them."""
    setting.root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=setting.root) as folder:
        stream = BatchStream(Path(folder) / "checkpoint", ROWS, KEYS, PARTITIONS, Retention())
        batches: list[MeasuredBatch] = []
        written = read = 0
        for _ in range(BATCHES):
            batches.append(MeasuredBatch(0, "rows", ROWS, round(stream.step(), 5)))
            written, read = written + stream.written, read + stream.read
    lane = LaneResult("ours", "ours", "count_sum_max", tuple(batches), 0.0, written, read, {})
    return WorkloadResult("B", WHAT, (lane,), {})
