"""Many small batches without Spark: files, bytes written per row, time, memory and open files as versions go by.

The operator's own tasks and commits run as in a stream: additive measures and an ordered tree, insertions and deletions, several
partitions, and as much there as there was before. ``python -m benchmarks.batches --batches 2000`` prints a line per tenth of the batches;
``--json FILE`` keeps them, and ``python -m benchmarks.plot FILE --to PICTURE`` draws them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import substrait_agg as sa
from substrait_agg.bind.bound import BoundMeasure, Column
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.documents.snapshot import OperatorState, Snapshot
from substrait_agg.commit.hash_ranges import partition_range
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.retention import Retention
from substrait_agg.commit.log.sweep import sweep
from substrait_agg.commit.tasks.task import run_task
from substrait_agg.commit.tasks.task_plan import TaskPlan, TaskResult
from substrait_agg.flow.graph.aggregate import Aggregate
from substrait_agg.flow.graph.measures import state_layout
from substrait_agg.flow.graph.nodes import Port
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.registry import operator_of
from substrait_agg.plan.types import I64, decimal

KEY, VALUE = Column(I64, 0), Column(I64, 1)
TOTAL = decimal(38, 0)
MEASURES = (
    BoundMeasure("count", (), None, I64, "count", "n"),
    BoundMeasure("sum", (VALUE,), None, TOTAL, "sum", "s"),
    BoundMeasure("max", (VALUE,), None, I64, "max", "m"),
)


@dataclass(frozen=True)
class BatchSpan:
    """Some batches in a row.

    Attributes:
        batches: done by then.
        seconds: median of a batch.
        cpu: the same, of processor time.
        slowest: of a batch, in seconds.
        state_files: in the folder at its end.
        state_bytes: of them.
        change_files: of all versions that still have theirs.
        folder_bytes: of all files of the checkpoint: state, changes and snapshots.
        snapshot_bytes: of the newest version.
        amplification: bytes of state written in it, merges included, for a byte of new runs.
        open_files: of the process at its end.
        memory: resident, bytes.
    """

    batches: int
    seconds: float
    cpu: float
    slowest: float
    state_files: int
    state_bytes: int
    change_files: int
    folder_bytes: int
    snapshot_bytes: int
    amplification: float
    open_files: int
    memory: int


class BatchStream:
    """A checkpoint that takes batch after batch.

    Args:
        folder: of the checkpoint.
        rows: of a batch: one half comes, the other takes back what came `stay` batches before.
        keys: that they are spread over.
        partitions: of the state.
        retention: which versions keep their state.
        stay: for how many batches rows are there.

    Attributes:
        read: bytes of the last batch: its keys, values and weights.
    """

    def __init__(
        self,
        folder: Path,
        rows: int,
        keys: int,
        partitions: int,
        retention: Retention,
        stay: int = 200,
    ) -> None:
        arguments, groups = state_layout(MEASURES, "changelog")
        node = Aggregate(
            id=0, inputs=(Port((), (KEY,), arguments),), groups=groups, types=(I64, I64, TOTAL, I64),
            weight="changelog", path="",
        )  # fmt: skip
        self.folder = folder
        self.checkpoint = Checkpoint(folder)
        self.checkpoint.create(PlanDocument("b" * 64, ("changelog",), (), "", (), 1, 1))
        self._node, self._operator = node, operator_of(node)
        self._rows, self._keys, self._partitions = rows, keys, partitions
        self._retention = retention
        self._random = np.random.default_rng(1)
        self._there: deque[tuple[npt.NDArray[np.int64], ...]] = deque()
        self._stay = stay
        self._state = OperatorState()
        self.version = -1
        self.results: list[TaskResult] = []
        self.read = 0

    def step(self) -> float:
        """Compute a batch and commit it; returns the seconds it took."""
        batch = self._batch()
        self.read = sum(batch.column(name).nbytes for name in ("k0", "x0", WEIGHT))
        began = time.perf_counter()
        self.version += 1
        self.results = [self._task(p, batch) for p in range(self._partitions)]
        self._state = OperatorState.union(r.state for r in self.results)
        snapshot = Snapshot(
            self.version, "b" * 64, (self._state,),
            tuple(c for r in self.results for c in r.changes),
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )  # fmt: skip
        self.checkpoint.publish(snapshot)
        if self._retention.due(self.version):
            sweep(self.checkpoint, snapshot, self._retention)
        return time.perf_counter() - began

    @property
    def written(self) -> int:
        """Bytes of the runs, changes and the snapshot of the last batch, merges included."""
        files = sum(result.counters["written_bytes"] for result in self.results)
        return files + _newest_bytes(self.checkpoint.snapshots)

    def _batch(self) -> pa.RecordBatch:
        new = self._random.integers(0, self._keys, self._rows // 2)
        came = new, self._random.integers(0, 1000, len(new))
        self._there.append(came)
        gone = self._there.popleft() if len(self._there) > self._stay else (new[:0], new[:0])
        keys, values = (np.concatenate(pair) for pair in zip(came, gone, strict=True))
        weights = np.where(np.arange(len(keys)) < len(new), 1, -1)
        hashes = _mixed(keys)
        columns = {
            "__m": pa.array((hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32)),
            "__x": pa.array((hashes >> np.uint64(32)).astype(np.uint32).view(np.int32)),
            "k0": pa.array(keys),
        }
        for i, (value, _) in enumerate(self._node.arguments):
            columns[f"x{i}"] = pa.array(np.ones(len(keys), np.bool_) if value is None else values)
        return pa.RecordBatch.from_pydict({**columns, WEIGHT: pa.array(weights)})

    def _task(self, partition: int, batch: pa.RecordBatch) -> TaskResult:
        low, high = partition_range(partition, self._partitions)
        mine = batch.column("__m").to_numpy() % self._partitions == partition
        plan = TaskPlan(
            checkpoint=str(self.checkpoint.folder), node=0, operator=self._operator, low=low, high=high,
            state=self._state.within(low, high), version=self.version,
            columns=tuple((n, n) for n in self._operator.spec.output.names), final=True, unaggregated=True,
        )  # fmt: skip
        return run_task(plan, [batch.filter(pa.array(mine))])


def _mixed(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Well-mixed bits of keys (the finaliser of splitmix64, Steele et al. 2014)."""
    mixed = keys.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def measured(
    stream: BatchStream, batches: int, stretches: int = 10, vacuum_every: int = 0
) -> Iterator[BatchSpan]:
    """Run batches, and tell of them in stretches of the same length.

    Args:
        stream: what takes them.
        batches: how many.
        stretches: number of stretches in the report.
        vacuum_every: after so many batches the changes of all versions but the newest ten are deleted, as by
            ``state vacuum --changes``; 0: never.
    """
    for _ in range(stretches):
        times: list[float] = []
        cpu: list[float] = []
        results: list[list[TaskResult]] = []
        for _ in range(batches // stretches):
            if vacuum_every and stream.version > 0 and stream.version % vacuum_every == 0:
                sa.open_state(stream.folder).vacuum(keep=10, changes=True)
            began = time.process_time()
            times.append(stream.step())
            cpu.append(time.process_time() - began)
            results.append(stream.results)
        state = stream.checkpoint.state
        names = state.names()
        yield BatchSpan(
            batches=stream.version + 1,
            seconds=round(float(np.median(times)), 4),
            cpu=round(float(np.median(cpu)), 4),
            slowest=round(max(times), 4),
            state_files=len(names),
            state_bytes=sum(map(state.size, names)),
            change_files=len(stream.checkpoint.changes.names()),
            folder_bytes=_folder_bytes(stream.folder),
            snapshot_bytes=_newest_bytes(stream.checkpoint.snapshots),
            amplification=_amplification(results, stream.version),
            open_files=len(list(Path("/proc/self/fd").iterdir())),
            memory=_resident(),
        )


def _amplification(results: Sequence[Sequence[TaskResult]], newest: int) -> float:
    """Return bytes of runs and merges per byte of runs. Tasks without merges give the bytes of runs."""
    runs: list[int] = []
    merged = tasks = 0
    for version, made in enumerate(results, newest + 1 - len(results)):
        for result in made:
            tasks += 1
            merged += result.counters["merged_bytes"]
            if not result.counters["merges"]:
                runs.append(
                    sum(f.bytes for f in result.state.runs if f"-{version:012d}-" in f.name)
                )
    new = float(np.mean(runs)) * tasks if runs else 1.0
    return round((new + merged) / new, 2)


def _newest_bytes(snapshots: FolderFiles) -> int:
    return snapshots.size(snapshots.names()[-1])


def _folder_bytes(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--stretches", type=int, default=10, help="lines that are printed")
    parser.add_argument("--vacuum-every", type=int, default=0, help="batches; 0: never")
    parser.add_argument("--json", type=Path, help="file that keeps the lines")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        stream = BatchStream(
            Path(folder) / "ckpt", given.rows, given.keys, given.partitions, Retention()
        )
        told = []
        for stretch in measured(stream, given.batches, given.stretches, given.vacuum_every):
            told.append(asdict(stretch))
            print(json.dumps(told[-1]), flush=True)
    if given.json:
        lines = ",\n".join(json.dumps(stretch) for stretch in told)
        given.json.write_text(f"[\n{lines}\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
