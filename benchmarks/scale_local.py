"""A run of `benchmarks.scale` without Spark: its tasks and commits, one partition after another, in this process.

Rows, hashes, runs, merges, changes and snapshots are those of a run on Spark, so are the counts. What
Spark itself takes is missing, so a state can be built that is too large for the time of a run on Spark.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

import substrait_agg as sa
from benchmarks.queries import plan_of
from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.documents.snapshot import OperatorState, Snapshot
from substrait_agg.commit.hash_ranges import partition_range, sort_hash
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.retention import Retention
from substrait_agg.commit.log.sweep import tidy
from substrait_agg.commit.tasks.task import MURMUR, OTHER, run_task
from substrait_agg.commit.tasks.task_plan import TaskPlan
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.registry import operator_of
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.spark.inputs.arrow_inputs import prepared_rows, with_hashes

COUNTERS = {
    "groups_touched": "touched", "run_probes": "run_probes", "page_reads": "page_reads", "merges": "merges",
    "merged_rows": "merged_rows", "merged_bytes": "merged_bytes", "written_bytes": "written_bytes",
}  # fmt: skip
"""Metric of an operator -> counter of its tasks."""
TIMERS = {
    "lookup_seconds": "lookup_us", "fold_seconds": "fold_us", "write_seconds": "write_us",
    "merge_seconds": "merge_us",
}  # fmt: skip
FINGERPRINT = "b" * 64


class LocalState:
    """The state of a query of one operator, which takes batch after batch.

    Args:
        query: name of the query.
        folder: of its checkpoint.
        partitions: of the state.
    """

    def __init__(self, query: str, folder: Path, partitions: int) -> None:
        self._node = lower(sa.load(plan_of(query)).bind()).operators[0]
        self._operator = operator_of(self._node)
        self._partitions = partitions
        self._retention = Retention(versions=2)
        self.checkpoint = Checkpoint(folder)
        self.checkpoint.create(PlanDocument(FINGERPRINT, ("append_only",), (), "", (), 1, 1))
        self._state, self._version = OperatorState(), -1

    def step(self, rows: pa.Table) -> dict[str, float]:
        """Apply a batch and commit it; returns its metrics."""
        began = time.perf_counter()
        self._version += 1
        results = [run_task(plan, batches) for plan, batches in self._tasks(rows)]
        computed = time.perf_counter() - began
        self._state = OperatorState.union(result.state for result in results)
        changes = tuple(change for result in results for change in result.changes)
        snapshot = Snapshot(
            self._version, FINGERPRINT, (self._state,), changes,
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )  # fmt: skip
        committing = time.perf_counter()
        self.checkpoint.publish(snapshot)
        committed = time.perf_counter() - committing
        tidy(
            self.checkpoint, snapshot, [change.name for change in changes],
            sweeps=self._retention.due(self._version), retention=self._retention,
        )  # fmt: skip
        found = {n: float(sum(r.counters[c] for r in results)) for n, c in COUNTERS.items()}
        found |= {n: sum(r.counters[c] for r in results) / 1e6 for n, c in TIMERS.items()}
        runs = self._state.trees["group"]
        sizes = {run.name: (run.rows, run.bytes) for run in runs}
        name = self.checkpoint.snapshots.names()[-1]
        return found | {
            "job_seconds": computed,
            "commit_seconds": committed,
            "seconds": time.perf_counter() - began,
            "state_rows": float(sum(rows for rows, _ in sizes.values())),
            "state_bytes": float(sum(size for _, size in sizes.values())),
            "runs": float(len(runs)),
            "snapshot_bytes": float(self.checkpoint.snapshots.size(name)),
            "change_rows": float(sum(change.rows for change in changes)),
            "change_bytes": float(sum(change.bytes for change in changes)),
        }

    def _tasks(self, rows: pa.Table) -> Iterator[tuple[TaskPlan, list[pa.RecordBatch]]]:
        branch, node, operator = self._node.branches[0], self._node, self._operator
        if not isinstance(branch.origin, TableOrigin):
            raise TypeError("the operator reads no table")
        names = zip(branch.origin.names, branch.origin.types, strict=True)
        columns = {f"c{i}": rows.column(n).cast(to_arrow(t)) for i, (n, t) in enumerate(names)}
        columns[WEIGHT] = pa.array(np.ones(rows.num_rows, np.int64))
        given = with_hashes([prepared_rows(pa.table(columns), node, branch)], operator.spec)
        hashes = sort_hash(*(given.column(name).to_numpy() for name in (MURMUR, OTHER)))
        for partition in range(self._partitions):
            low, high = partition_range(partition, self._partitions)
            inside = (hashes >= np.uint64(low)) & (hashes <= np.uint64(high))
            plan = TaskPlan(
                checkpoint=str(self.checkpoint.folder), node=0, operator=operator, low=low, high=high,
                state=self._state.within(low, high), version=self._version,
                columns=tuple((n, n) for n in operator.spec.output.names), final=True, unaggregated=True,
            )  # fmt: skip
            yield plan, given.filter(pa.array(inside)).combine_chunks().to_batches()
