"""Processor time of the tasks of a batch, without Spark: reading, exchange and transfer are left out.

``python -m benchmarks.kernel --queries q15,q16,q17 --tree before=FOLDER`` runs the queries over generated rows, in this
checkout and in others in turns, and prints the mean of a batch. ``--profile`` prints the functions that take it.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

import substrait_agg as sa
from benchmarks.data.bids import bids
from benchmarks.data.data_sets import ChangeFile
from benchmarks.data.rows import wide, with_key
from benchmarks.queries import QUERIES, plan_of
from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.commit.hash_ranges import partition_range, sort_hash
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.tasks.task import MURMUR, OTHER, run_task
from substrait_agg.commit.tasks.task_plan import TaskPlan
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.registry import operator_of
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.spark.inputs.arrow_inputs import prepared_rows, with_hashes

PARTITIONS = 2
SKIPPED = 4
"""Batches that are not counted: caches are filled and the first groups appear in them."""


def _rows(table: str, rows: int, batches: int) -> Iterator[pa.Table]:
    drawn = [("rows", rows)] * batches
    made: dict[str, Callable[[], Iterator[ChangeFile]]] = {
        "bids": lambda: bids(drawn),
        "wide": lambda: wide(max(1, rows // 2), drawn),
        "t": lambda: with_key(2 * rows, 0, drawn),
    }
    return (file.rows for file in made[table]())


class KernelStream:
    """A query whose tasks take batch after batch, as on Spark without partial sums.

    Args:
        query: name of a query.
        folder: of its checkpoint.
    """

    def __init__(self, query: str, folder: Path) -> None:
        node = lower(sa.load(plan_of(query)).bind()).operators[0]
        self._node, self._operator = node, operator_of(node)
        self._checkpoint = Checkpoint(folder)
        self._checkpoint.create(PlanDocument("b" * 64, ("append_only",), (), "", (), 1, 1))
        self._state, self._version = OperatorState(), 0

    def step(self, rows: pa.Table, profile: cProfile.Profile | None = None) -> float:
        """Apply a batch; returns the seconds of processor time of its tasks."""
        plans = list(self._tasks(rows))
        if profile is not None:
            profile.enable()
        began = time.process_time()
        results = [run_task(plan, batches) for plan, batches in plans]
        taken = time.process_time() - began
        if profile is not None:
            profile.disable()
        self._state = OperatorState.union(result.state for result in results)
        self._version += 1
        return taken

    def _tasks(self, rows: pa.Table) -> Iterator[tuple[TaskPlan, list[pa.RecordBatch]]]:
        branch = self._node.branches[0]
        columns = {
            f"c{i}": rows.column(name).cast(to_arrow(type_))
            for i, (name, type_) in enumerate(
                zip(branch.origin.names, branch.origin.types, strict=True)  # type: ignore[union-attr]
            )
        }
        columns[WEIGHT] = pa.array(np.ones(rows.num_rows, np.int64))
        operator, node = self._operator, self._node
        given = with_hashes([prepared_rows(pa.table(columns), node, branch)], operator.spec)
        hashes = sort_hash(*(given.column(name).to_numpy() for name in (MURMUR, OTHER)))
        for partition in range(PARTITIONS):
            low, high = partition_range(partition, PARTITIONS)
            inside = (hashes >= np.uint64(low)) & (hashes <= np.uint64(high))
            plan = TaskPlan(
                checkpoint=str(self._checkpoint.folder), node=0, operator=operator, low=low, high=high,
                state=self._state.within(low, high), version=self._version,
                columns=tuple((n, n) for n in operator.spec.output.names), final=True, unaggregated=True,
            )  # fmt: skip
            yield plan, given.filter(pa.array(inside)).combine_chunks().to_batches()


def measured(
    query: str, rows: int, batches: int, profile: cProfile.Profile | None = None
) -> list[float]:
    """Return the seconds of processor time of each batch, without the first ones."""
    taken = []
    with tempfile.TemporaryDirectory() as folder:
        stream = KernelStream(query, Path(folder) / "checkpoint")
        for i, batch in enumerate(_rows(QUERIES[query].table, rows, batches + SKIPPED)):
            taken.append(stream.step(batch, profile if i >= SKIPPED else None))
    return taken[SKIPPED:]


def _in_tree(tree: Path, query: str, rows: int, batches: int) -> list[float]:
    """Measure a query with another checkout of ours, in a process of its own."""
    arguments = ["--one", query, "--rows", str(rows), "--batches", str(batches)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(_HERE)])}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), *arguments],
        check=True, capture_output=True, text=True, env=environment, cwd=tree,
    )  # fmt: skip
    told: list[float] = json.loads(done.stdout)
    return told


_HERE = Path(__file__).resolve().parents[1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a line per query."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", default="q15,q16,q17,wide_one,wide_all")
    parser.add_argument("--rows", type=int, default=100_000, help="of a batch")
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tree", action="append", default=[], help="NAME=FOLDER of a checkout")
    parser.add_argument("--profile", type=int, default=0, help="functions to print")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(measured(given.one, given.rows, given.batches)))
        return
    trees = {"here": _HERE} | {n: Path(p) for n, _, p in (t.partition("=") for t in given.tree)}
    for query in given.queries.split(","):
        if given.profile:
            profile = cProfile.Profile(time.process_time)
            measured(query, given.rows, given.batches, profile)
            pstats.Stats(profile).sort_stats("tottime").print_stats(given.profile)
            continue
        times: dict[str, list[float]] = {name: [] for name in trees}
        for _ in range(given.rounds):
            for name, tree in trees.items():
                times[name] += _in_tree(tree, query, given.rows, given.batches)
        means = {name: statistics.mean(taken) for name, taken in times.items()}
        text = ", ".join(
            f"{name} {1000 * m:.0f} ms ({m / means['here']:.2f})" for name, m in means.items()
        )
        print(f"{query}: {text}", flush=True)


if __name__ == "__main__":
    main()
