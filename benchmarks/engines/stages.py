"""Spark's own account of the jobs of a run: how long their stages took, and what of that was reading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.phases import Jobs, JobStage

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_TIME = re.compile(r"([0-9.,]+) (ms|s|min|m|h)\b")
_SCANNED = 20
"""Batches whose reading is asked for: it takes many calls, and the others are like them."""


def stages_of(spark: SparkSession, batches: Sequence[tuple[float, float]]) -> list[Jobs]:
    """The jobs of each batch, given its begin and its end in seconds since 1970."""
    # The account arrives a moment later than the results.
    spark._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsc.sc().statusStore()
    ended = [job for job in _each(store.jobsList(None)) if job.completionTime().isDefined()]
    by_batch = [[job for job in ended if _began_within(job, *batch)] for batch in batches]
    scans = _scan_stages(spark, {int(j.jobId()) for jobs in by_batch[-_SCANNED:] for j in jobs})
    return [_jobs(store, jobs, scans) for jobs in by_batch]


def _began_within(job: Any, begin: float, end: float) -> bool:
    return begin <= float(job.submissionTime().get().getTime()) / 1e3 < end


def _jobs(store: Any, jobs: list[Any], scans: Mapping[int, float]) -> Jobs:
    ids = [int(job.jobId()) for job in jobs]
    wall = sum(_between(job.submissionTime(), job.completionTime()) for job in jobs)
    numbers = [n for job in jobs for n in str(job.stageIds().mkString(",")).split(",")]
    stages = [_stage(store.lastStageAttempt(int(number))) for number in numbers]
    scan = sum(scans[i] for i in ids) if ids and all(i in scans for i in ids) else None
    return Jobs(wall, tuple(stage for stage in stages if stage is not None), scan)


def _stage(told: Any) -> JobStage | None:
    if not told.completionTime().isDefined():
        return None  # skipped
    return JobStage(
        wall=_between(told.submissionTime(), told.completionTime()),
        tasks=told.executorRunTime() / 1e3,
        exchange=told.shuffleWriteTime() / 1e9,
        maps=told.shuffleWriteBytes() > 0,
    )


def _scan_stages(spark: SparkSession, jobs: set[int]) -> dict[int, float]:
    """Per job the seconds of reading."""
    store = spark._jsparkSession.sharedState().statusStore()
    found: dict[int, float] = {}
    for execution in _each(store.executionsList()):
        own = {int(n) for n in re.findall(r"(\d+) ->", str(execution.jobs().mkString(",")))}
        if not own & jobs:
            continue
        values = store.executionMetrics(execution.executionId())
        seconds = sum(
            _seconds(_text(values.get(metric.accumulatorId())))
            for metric in _each(execution.metrics())
            if metric.name() == "scan time"
        )
        found |= dict.fromkeys(own, seconds / len(own))
    return found


def _seconds(shown: str) -> float:
    """A duration as Spark shows it; of several tasks it shows the total first, on a line of its own."""
    found = _TIME.search(shown.rpartition("\n")[2])
    return float(found.group(1).replace(",", "")) * _UNITS[found.group(2)] if found else 0.0


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(i) for i in range(sequence.size()))


def _text(option: Any) -> str:
    return str(option.get()) if option.isDefined() else ""


def _between(begin: Any, end: Any) -> float:
    return float(end.get().getTime() - begin.get().getTime()) / 1e3
