"""Where the time of one of our batches goes: phases that add up to the whole batch.

Times of tasks are added up over tasks that run beside each other, so within a stage they only say in which proportion its
time divides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from substrait_agg.metrics import Progress

PHASES: dict[str, str] = {
    "open": "our driver chooses the files of the batch and opens them",
    "driver": "our driver around the job: building the query, its analysis, reading the results",
    "schedule": "Spark starts the job and its stages",
    "read": "Spark reads the files",
    "partial": "Spark sums rows per key, or computes the columns to exchange",
    "exchange": "Spark writes the exchange",
    "hand-over": "Spark reads the exchange and hands Arrow over to Python and back",
    "lookup": "tasks look groups up",
    "kernel": "tasks fold rows into groups and compute values",
    "merge": "tasks merge runs",
    "write": "tasks write runs and changes",
    "commit": "the snapshot is published",
    "sweep": "what no version names is deleted",
}
"""Phase -> what happens in it, in order."""

OUTSIDE_JOB = ("open", "driver", "commit", "sweep")
"""What is not the Spark job."""


@dataclass(frozen=True)
class JobStage:
    """A stage of a job.

    Attributes:
        wall: seconds from its submission to its end.
        tasks: seconds of all its tasks.
        exchange: the part of them that writing to the exchange took.
        maps: whether it writes to an exchange.
    """

    wall: float
    tasks: float
    exchange: float
    maps: bool


@dataclass(frozen=True)
class Jobs:
    """The jobs of a batch.

    Attributes:
        wall: seconds, from submission to end, added up.
        stages: of all of them.
        scan: seconds of reading files, added up over tasks; None where nobody asked.
    """

    wall: float
    stages: tuple[JobStage, ...]
    scan: float | None


_TASKS = ("fold_seconds", "lookup_seconds", "merge_seconds", "write_seconds")


def phases(seconds: float, before: Progress, after: Progress, jobs: Jobs) -> dict[str, float]:
    """Seconds of each phase.

    Args:
        seconds: the duration of the batch, from when it was taken until it was committed.
        before: progress before the batch.
        after: progress after it.
        jobs: the batch's jobs.
    """
    commit = after.commit_seconds - before.commit_seconds
    sweep = after.sweep_seconds - before.sweep_seconds
    found = {
        "open": max(0.0, seconds - after.batch_seconds),
        "commit": commit,
        "sweep": sweep,
        **_parts(jobs, {n: _total(after, n) - _total(before, n) for n in _TASKS}),
    }
    walls = sum(stage.wall for stage in jobs.stages)
    found["schedule"] = max(0.0, jobs.wall - walls)
    found["driver"] = max(0.0, seconds - sum(found.values()))
    return {name: found[name] for name in PHASES}


def _total(progress: Progress, name: str) -> float:
    return sum(float(getattr(operator, name)) for operator in progress.operators)


def _parts(jobs: Jobs, task: Mapping[str, float]) -> dict[str, float]:
    """What stages did, and tasks; without an exchange the driver was the only task, once it had the rows."""
    if any(stage.maps for stage in jobs.stages):
        return {**_maps(jobs), **_results(jobs, task)}
    wall, tasks = (sum(getattr(s, name) for s in jobs.stages) for name in ("wall", "tasks"))
    scan = jobs.scan or 0.0
    read = _divided_by_parts(wall, {"read": scan, "hand-over": max(0.0, tasks - scan)})
    return {**read, "partial": 0.0, "exchange": 0.0, **_of_tasks(task)}


def _of_tasks(task: Mapping[str, float]) -> dict[str, float]:
    """What tasks counted."""
    return {
        "lookup": task["lookup_seconds"],
        "kernel": max(0.0, task["fold_seconds"] - task["lookup_seconds"]),
        "merge": task["merge_seconds"],
        "write": task["write_seconds"],
    }


def _maps(jobs: Jobs) -> dict[str, float]:
    """The stages that write to an exchange."""
    stages = [stage for stage in jobs.stages if stage.maps]
    wall, tasks = sum(s.wall for s in stages), sum(s.tasks for s in stages)
    exchange, scan = sum(s.exchange for s in stages), jobs.scan or 0.0
    partial = max(0.0, tasks - exchange - scan)
    return _divided_by_parts(wall, {"read": scan, "partial": partial, "exchange": exchange})


def _results(jobs: Jobs, task: Mapping[str, float]) -> dict[str, float]:
    """The stages in which the tasks of an operator run."""
    stages = [stage for stage in jobs.stages if not stage.maps]
    wall, tasks = sum(s.wall for s in stages), sum(s.tasks for s in stages)
    parts = _of_tasks(task)
    return _divided_by_parts(wall, {"hand-over": max(0.0, tasks - sum(parts.values())), **parts})


def _divided_by_parts(wall: float, parts: Mapping[str, float]) -> dict[str, float]:
    """A time divided in proportion to its parts."""
    total = sum(parts.values())
    return {name: wall * part / total if total else 0.0 for name, part in parts.items()}
