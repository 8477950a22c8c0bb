"""What was measured, as data and as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 1


@dataclass(frozen=True)
class MeasuredBatch:
    """A batch that counts.

    Attributes:
        round: the turn it was in.
        kind: of batch.
        rows: of its files.
        seconds: it took.
        parts: seconds by phase, where they are known.
    """

    round: int
    kind: str
    rows: int
    seconds: float
    parts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LaneResult:
    """A lane.

    Attributes:
        lane: its name.
        engine: of it.
        query: of it.
        batches: those that count.
        loaded: seconds that loading took, all batches added up; 0 without a load.
        written: bytes of state, changes and commits in the measured turns; None for engines that keep nothing.
        read: bytes of the files of these turns.
        memory: peak bytes of the engine's processes in this workload: ``jvm``, ``driver``, ``workers``, and
            ``workers_own`` without pages of mapped files.
        held: groups or rows loaded before.
        cpu: mean seconds of processor time of a batch, of all processes of the engine; None where a
            batch does not have the work of every other one.
    """

    lane: str
    engine: str
    query: str
    batches: tuple[MeasuredBatch, ...]
    loaded: float
    written: int | None
    read: int
    memory: dict[str, int]
    held: int = 0
    cpu: float | None = None

    def seconds(self, kind: str | None = None) -> list[float]:
        """Of all batches, or those of a kind."""
        return [b.seconds for b in self.batches if kind in (None, b.kind)]

    def median(self, kind: str | None = None) -> float | None:
        """Seconds of a batch; None where there is none."""
        taken = self.seconds(kind)
        return statistics.median(taken) if taken else None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of the batches, in order."""
        return tuple(dict.fromkeys(b.kind for b in self.batches))

    def rate(self, kind: str | None = None, cores: int = 2) -> float | None:
        """Rows per second and core: the median of the batches."""
        rates = [b.rows / b.seconds / cores for b in self.batches if kind in (None, b.kind)]
        return statistics.median(rates) if rates else None

    def phases(self) -> dict[str, float]:
        """Mean seconds per phase: means add up to the mean of the batch."""
        told = [b.parts for b in self.batches if b.parts]
        names = dict.fromkeys(name for parts in told for name in parts)
        return {n: statistics.fmean(parts.get(n, 0.0) for parts in told) for n in names}


@dataclass(frozen=True)
class WorkloadResult:
    """A workload.

    Attributes:
        id: of it.
        what: of it.
        lanes: in the order of the table.
        absent: lane -> why it is not there, or what it failed with.
        checked: lanes whose answer was compared with DuckDB's.
    """

    id: str
    what: str
    lanes: tuple[LaneResult, ...]
    absent: dict[str, str]
    checked: tuple[str, ...] = ()

    def lane(self, name: str) -> LaneResult | None:
        """A lane by name."""
        return next((lane for lane in self.lanes if lane.lane == name), None)


@dataclass(frozen=True)
class Results:
    """A run of the benchmarks: on what, with which options, and its workloads."""

    machine: dict[str, Any]
    options: dict[str, Any]
    workloads: tuple[WorkloadResult, ...] = ()

    def lane(self, workload: str, name: str) -> LaneResult | None:
        """A lane by workload and name."""
        found = next((w for w in self.workloads if w.id == workload), None)
        return found.lane(name) if found is not None else None

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n")


def load(paths: Iterable[Path]) -> Results:
    """Results from their files, of several runs as one: of a workload that is in several, the last one counts.

    Raises:
        ValueError: a file is of another format.
    """
    machine: dict[str, Any] = {}
    options: dict[str, Any] = {}
    workloads: dict[str, WorkloadResult] = {}
    for path in paths:
        body = json.loads(path.read_text())
        if body["format"] != FORMAT:
            raise ValueError(f"{path} is of format {body['format']}, not {FORMAT}")
        machine, options = body["machine"], body["options"]
        workloads |= {w["id"]: _workload(w) for w in body["workloads"]}
    return Results(machine, options, tuple(workloads.values()))


def _workload(body: dict[str, Any]) -> WorkloadResult:
    lanes = tuple(
        LaneResult(**{**lane, "batches": tuple(MeasuredBatch(**b) for b in lane["batches"])})
        for lane in body["lanes"]
    )
    return WorkloadResult(**{**body, "lanes": lanes, "checked": tuple(body["checked"])})


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    from importlib.metadata import version

    packages = ("pyspark", "pyarrow", "numpy", "duckdb", "pandas")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memory": memory,
        "system": platform.platform(terse=True),
        "processor": _processor(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "load": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")
