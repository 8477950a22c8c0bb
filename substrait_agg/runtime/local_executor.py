"""Execute the operators of a batch in this process, without Spark.

Rows are Arrow tables. The tasks, the state and the changes are those of a run on Spark: only the
exchange is missing, because one process has all rows. The hashes of keys are not those of Spark, so
a run on Spark cannot continue a checkpoint of this executor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import ChangeFile, SideFile
from substrait_agg.commit.evolution.task import MigrationPlan, MigrationResult, migrate
from substrait_agg.commit.hash_ranges import sort_hash
from substrait_agg.commit.tasks.consolidate import Consolidated, Consolidation
from substrait_agg.commit.tasks.difference import DifferencePlan
from substrait_agg.commit.tasks.task import MURMUR, OTHER
from substrait_agg.commit.tasks.task_plan import TaskPlan
from substrait_agg.files.locations import Location
from substrait_agg.flow.graph.graph import Branch
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.operator.common.names import POSITION
from substrait_agg.operator.common.spec import InputSpec
from substrait_agg.runtime.executor import BranchInput
from substrait_agg.runtime.in_process import consolidate_here, difference_here, run_here
from substrait_agg.runtime.job import JobResult, OperatorJob, acts_alone
from substrait_agg.runtime.left_out import Lateness, LeftOut, SideKind, side_writer
from substrait_agg.state.keys.canonical import canonical
from substrait_agg.state.keys.keys import Component, encode
from substrait_agg.state.keys.rows import whole
from substrait_agg.state.keys.variable_keys import byte_hashes

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


Hashes = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]
HashFunction = Callable[[Sequence[pa.Array]], Hashes]
"""Returns two independent hashes of rows of keys, the second one without a sign."""


class LinearSteps(Protocol):
    """Applies the linear steps between operators to Arrow tables."""

    def changes(
        self,
        below: Node,
        node: Node,
        branch: Branch,
        paths: Sequence[Location],
        lateness: Lateness,
    ) -> BranchInput[pa.Table]:
        """Return the changes of another operator as input rows, as `Executor.changes`."""


class LocalExecutor:
    """The `Executor` that runs everything in this process.

    Args:
        steps: applies the linear steps between operators.
        hashes: returns the two hashes of rows of keys, as `key_hashes`. They are part of the state:
            a checkpoint is continued with the hashes that it was begun with.
    """

    def __init__(self, steps: LinearSteps, hashes: HashFunction | None = None) -> None:
        self._steps = steps
        self._hashes = hashes or key_hashes

    def initial_groups(self, spec: InputSpec) -> tuple[tuple[int, int], ...]:
        """Return (sort hash, grouping set index) of every group that always exists."""
        if spec.is_global:
            return ((0, 0),)
        nulls = [pa.nulls(len(spec.always), type_) for type_ in spec.keys[:-1]]
        hashes = sort_hash(*self._hashes([*nulls, pa.array(spec.always, pa.int32())]))
        return tuple((int(h), index) for h, index in zip(hashes, spec.always, strict=True))

    def changes(
        self,
        below: Node,
        node: Node,
        branch: Branch,
        paths: Sequence[Location],
        lateness: Lateness,
    ) -> BranchInput[pa.Table]:
        """See `Executor`."""
        return self._steps.changes(below, node, branch, paths, lateness)

    def run(
        self,
        job: OperatorJob,
        inputs: Sequence[pa.Table],
        branches: Sequence[BranchInput[pa.Table]] = (),
    ) -> JobResult:
        """Run an operator over the prepared rows of a batch, one task per hash range.

        Raises:
            RunFailed: a value does not fit.
        """
        inputs = [*inputs, *(part.prepared for part in branches)]
        tasks = job.tasks(raw=True)
        if not inputs:
            return job.finish([run_here(task) for task in tasks if acts_alone(task)])
        whole = pa.concat_tables(inputs, promote_options="default")
        rows = _hash_rows(whole, job.spec, self._hashes)
        hashes = sort_hash(*(rows.column(name).to_numpy() for name in (MURMUR, OTHER)))
        return job.finish([run_here(task, _within(task, rows, hashes)) for task in tasks])

    def consolidate(self, work: Consolidation, partitions: int) -> Consolidated | None:
        """See `Executor`."""
        return consolidate_here(work)

    def migrate(self, plans: Sequence[MigrationPlan]) -> list[MigrationResult]:
        """See `Executor`."""
        return [migrate(plan) for plan in plans]

    def difference(self, plans: Sequence[DifferencePlan]) -> list[Consolidated]:
        """See `Executor`."""
        return [difference_here(plan) for plan in plans]

    def write_left_out(
        self,
        kind: SideKind,
        left_out: Sequence[LeftOut[pa.Table]],
        files: FolderFiles,
        version: int,
    ) -> tuple[SideFile, ...]:
        """Write the rows that a batch leaves out, one file per part."""
        written = []
        for part in left_out:
            rows = part.rows()
            write = side_writer(kind, rows.column_names, files.root, version)
            for answer in write(iter(rows.to_batches())):
                file = ChangeFile(**json.loads(answer.column("file")[0].as_py()))
                written.append(SideFile(part.table, file))
        return tuple(written)


def key_hashes(keys: Sequence[pa.Array]) -> Hashes:
    """Return two independent hashes of rows of keys, the second one without a sign.

    Equal keys have equal hashes: so do all NaN, and 0.0 and -0.0.
    """
    encoded = encode([canonical(k) for k in keys], [Component(k.type, nullable=True) for k in keys])
    words = encoded.words if encoded.rest is None else (byte_hashes(encoded.rest),)
    mixed = np.zeros(len(encoded), np.uint64)
    for word in words:
        mixed = (mixed ^ word) * _MULTIPLIER
        mixed ^= mixed >> _HALF
    other = (mixed & np.uint64(0x7FFFFFFF)).astype(np.int32)
    return (mixed >> _HALF).astype(np.uint32).view(np.int32), other


def _hash_rows(rows: pa.Table, spec: InputSpec, hashes: HashFunction) -> pa.Table:
    """Return the rows of a batch as the exchange would hand them to tasks."""
    rows = rows.combine_chunks()
    if spec.by_arrival:
        rows = rows.append_column(POSITION, pa.array(np.arange(rows.num_rows)))
    read = {f"x{argument}" for tree in spec.trees for argument in tree.arguments}
    keys = [f"k{i}" for i in range(len(spec.keys))]
    for name in {*read, *keys} & {f.name for f in rows.schema if f.type.num_fields}:
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, canonical(whole(rows, name)))
    murmur = other = np.zeros(rows.num_rows, np.int32)
    if keys and rows.num_rows:
        murmur, other = hashes([whole(rows, key) for key in keys])
    return rows.append_column(MURMUR, pa.array(murmur)).append_column(OTHER, pa.array(other))


def _within(task: TaskPlan, rows: pa.Table, hashes: npt.NDArray[np.uint64]) -> list[pa.RecordBatch]:
    """Return the rows in the hash range of a task."""
    inside = (hashes >= np.uint64(task.low)) & (hashes <= np.uint64(task.high))
    return list(rows.filter(pa.array(inside)).combine_chunks().to_batches())
