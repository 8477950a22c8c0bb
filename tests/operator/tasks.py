"""An operator with its folder: batches go through its tasks, which write real runs and change files."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.commit.hash_ranges import partition_range
from substrait_agg.commit.tasks.task import run_task
from substrait_agg.commit.tasks.task_plan import TaskPlan, TaskResult
from substrait_agg.state.tree import KeyedTree

SPREAD = 2**32


def hash_of(key: Any, spread: int = SPREAD) -> int:
    """One of `spread` hashes of a key, as 32 bits with a sign."""
    hashed = zlib.crc32(repr(key).encode()) % spread * 2654435761 & 0xFFFFFFFF
    return hashed - (1 << 32) if hashed >> 31 else hashed


@dataclass(frozen=True)
class Version:
    """The content of a snapshot of the operator."""

    number: int = 0
    state: OperatorState = field(default_factory=OperatorState)


class TaskRunner:
    """Runs the tasks of an operator version by version.

    Args:
        operator: what the tasks execute.
        folder: where the files go.
        columns: the columns of the operator that are in change files.
        final: whether the changes are those of the view.
        cut: rows per Arrow batch.
    """

    def __init__(
        self, operator: Any, folder: Path, columns: Iterable[str], *, final: bool, cut: int
    ) -> None:
        self.operator, self.folder, self.final, self.cut = operator, folder, final, cut
        self.columns = tuple((name, name) for name in columns)
        self.now = Version()
        for name in ("state", "changes"):
            (folder / name).mkdir(exist_ok=True)

    @property
    def state(self) -> OperatorState:
        """The trees of the newest version."""
        return self.now.state

    @property
    def files(self) -> FolderFiles:
        """The files of the trees."""
        return FolderFiles(self.folder / "state")

    def run(
        self, rows: pa.RecordBatch | None, partitions: int = 1, *, again: bool = False, **plan: Any
    ) -> list[TaskResult]:
        """Make a version of rows with their hashes; with `again` it is the second pass of the newest one."""
        number = self.now.number + (not again)
        plan["watermark_pass"] = again
        results = [
            run_task(self.plan(p, partitions, number, **plan), self.cut_rows(rows, p, partitions))
            for p in range(partitions)
        ]
        self.now = Version(number, OperatorState.union(r.state for r in results))
        return results

    def plan(self, p: int, partitions: int, number: int, **more: Any) -> TaskPlan:
        """The task of a partition in a version."""
        low, high = partition_range(p, partitions)
        given = {"unaggregated": True, **more}
        groups = given.pop("initial_groups", ())
        return TaskPlan(
            checkpoint=str(self.folder),
            node=0,
            operator=self.operator,
            low=low,
            high=high,
            state=self.state.within(low, high),
            version=number,
            columns=self.columns,
            final=self.final,
            initial_groups=tuple(g for g in groups if low <= g[0] <= high),
            **given,
        )

    def cut_rows(
        self, rows: pa.RecordBatch | None, p: int, partitions: int
    ) -> list[pa.RecordBatch]:
        """The rows of a partition in several batches."""
        if rows is None:
            return []
        mine = rows.filter(pa.array(rows.column("__m").to_numpy() % partitions == p))
        return [mine.slice(i, self.cut) for i in range(0, mine.num_rows, self.cut)]

    def changes_of(self, results: Iterable[TaskResult]) -> Iterator[pa.Table]:
        """The content of the change files, each by one thread."""
        for change in (c for r in results for c in r.changes):
            file = pq.ParquetFile(self.folder / "changes" / change.name)
            yield file.read(use_threads=False)

    def scan(self, tree: str, schema: pa.Schema, keys: int) -> Iterator[pa.Table]:
        """The rows of a tree of groups."""
        return KeyedTree(self.files, self.state[tree], schema, keys).scan()
