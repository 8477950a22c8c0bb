"""States of any size: measured on Spark, and simulated.

``python -m benchmarks.scale measure --groups 1000000 --rows 100000 --batches 20 --json FILE`` runs W2's
plan and keeps what it counted. ``python -m benchmarks.scale compare FILE...`` shows the counts beside
those of the simulation, ``predict`` the times of each run with the costs of the others. ``python -m
benchmarks.scale simulate FILE...`` shows large states, with the costs of the measured runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import substrait_agg as sa
from benchmarks.data.rows import with_key
from benchmarks.queries import plan_of
from benchmarks.results import machine
from benchmarks.scale_local import LocalState
from benchmarks.scale_model import BatchCounts, RowBytes, StateCase, mean, simulate, written_bytes
from benchmarks.workloads import MEASURED
from substrait_agg.commit.log.checkpoint import Checkpoint

COUNTS = (
    "groups_touched", "run_probes", "page_reads", "merges", "merged_rows", "merged_bytes", "written_bytes",
    "lookup_seconds", "fold_seconds", "write_seconds", "merge_seconds", "job_seconds",
)  # fmt: skip
"""Metrics of the operator that are kept by batch."""

ON_TASKS = {"spark.substraitAgg.driverBytes": "0"}
"""No batch is computed on the driver, which would make one partition of all."""

TERMS = ("spark", "lookup", "fold", "write", "merge", "commit")
WITHOUT_SPARK = "none"
"""Master of a run without Spark."""
LOAD = 2_000_000
"""Rows of a file of the load, as `benchmarks.data.rows` writes them."""


@dataclass(frozen=True)
class Measured:
    """A measured run.

    Attributes:
        case: the state and the batches.
        master: of Spark.
        machine: the machine and its load.
        batches: metrics by batch, without the first version.
    """

    case: StateCase
    master: str
    machine: dict[str, Any]
    batches: list[dict[str, float]]

    @property
    def loads(self) -> int:
        """Return the number of batches of the load."""
        return -(-self.case.groups // self.case.load)


def measure(case: StateCase, master: str, memory: str, folder: Path) -> Measured:
    """Run a case on Spark."""
    data, checkpoint = folder / "t", folder / "checkpoint"
    data.mkdir()
    batches = [(MEASURED, case.rows)] * case.batches
    for number, file in enumerate(with_key(case.groups, case.groups, batches)):
        pq.write_table(file.rows, data / f"{number:04}.parquet")
        time.sleep(0.002)  # files of one millisecond are read by name
    found: list[dict[str, float]] = []
    before = dict.fromkeys((*COUNTS, "commit_seconds"), 0.0)

    def keep(progress: Any) -> None:
        nonlocal before
        if progress.version == 0:
            return
        now = {name: getattr(progress.operators[0], name) for name in COUNTS}
        now["commit_seconds"] = progress.commit_seconds
        found.append(
            {
                **{name: now[name] - before[name] for name in now},
                "seconds": progress.batch_seconds,
                "state_rows": sum(tree.rows for tree in progress.trees),
                "state_bytes": sum(tree.bytes for tree in progress.trees),
                **_snapshot(Checkpoint(checkpoint)),
            }
        )
        before = now
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)

    sa.run(
        plan_of("count_sum_avg").read_bytes(), {"t": f"parquet:{data}?batch-files=1"}, checkpoint=checkpoint,
        progress=keep, partitions=case.partitions, master=master, keep_versions=2,
        conf={"spark.driver.memory": memory, "spark.ui.enabled": "false", **ON_TASKS},
    ).wait()  # fmt: skip
    return Measured(case, master, machine(), found)


def measure_local(case: StateCase, folder: Path) -> Measured:
    """Run a case without Spark; its counts are those of a run on Spark, its times are not."""
    state = LocalState("count_sum_avg", folder / "checkpoint", case.partitions)
    found: list[dict[str, float]] = []
    batches = [(MEASURED, case.rows)] * case.batches
    for file in with_key(case.groups, case.groups, batches):
        found.append(state.step(file.rows))
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    return Measured(case, WITHOUT_SPARK, machine(), found)


def _snapshot(checkpoint: Checkpoint) -> dict[str, float]:
    """Return counts of the newest version that no metric has."""
    newest = checkpoint.newest_snapshot()
    if newest is None:
        raise ValueError("no version")
    path = Path(str(checkpoint.folder)) / "snapshots" / f"{newest.version:020}.json"
    files = [*(Path(str(checkpoint.folder)) / "snapshots").glob("*.json")]
    size = path.stat().st_size if path.exists() else max(f.stat().st_size for f in files)
    return {
        "runs": len(newest.operators[0].trees["group"]),
        "snapshot_bytes": size,
        "change_rows": sum(change.rows for change in newest.view_changes),
        "change_bytes": sum(change.bytes for change in newest.view_changes),
    }


def loaded(paths: Iterable[Path]) -> list[Measured]:
    """Read measured runs, the smallest state first."""
    found = []
    for path in paths:
        kept = json.loads(path.read_text())
        case = StateCase(**kept["case"])
        found.append(Measured(case, kept["master"], kept["machine"], kept["batches"]))
    return sorted(found, key=lambda run: run.case.groups)


def row_bytes(run: Measured) -> RowBytes:
    """Return the bytes of rows in the files of a run."""
    merged = [b for b in run.batches if b["merged_rows"]]
    plain = [b for b in run.batches[run.loads :] if not b["merges"]]
    small = sum(b["written_bytes"] - b["change_bytes"] for b in plain)
    sizes = [(b["runs"], b["snapshot_bytes"]) for b in run.batches]
    entry, header = _line(sizes)
    return RowBytes(
        run=sum(b["merged_bytes"] for b in merged) / sum(b["merged_rows"] for b in merged),
        small=small / sum(b["groups_touched"] for b in plain),
        change=sum(b["change_bytes"] for b in plain) / sum(b["change_rows"] for b in plain),
        entry=entry,
        header=header,
    )


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return slope and intercept of the line through points."""
    if len({x for x, _ in points}) < 2:
        return 0.0, points[0][1]
    slope, intercept = statistics.linear_regression(*zip(*points, strict=True))
    return slope, intercept


def predicted(runs: Sequence[Measured]) -> str:
    """Return a table of the mean seconds of the batches after the load, predicted and measured.

    The costs of a run are those of the other runs.
    """
    lines = ["| groups | rows a batch | partitions | " + " | ".join(TERMS) + " | sum | measured |"]
    lines.append("|---" * (5 + len(TERMS)) + "|")
    for run in runs:
        others = [other for other in runs if other is not run]
        expected = mean(list(simulate(run.case))[run.loads + 1 :])
        seconds = terms(expected, run.case, costs(others), row_bytes(others[0]), CORES)
        measured = statistics.mean(b["seconds"] for b in run.batches[run.loads + 1 :])
        shown = " | ".join(f"{s:.2f}" for s in (*seconds.values(), sum(seconds.values()), measured))
        case = run.case
        lines.append(f"| {case.groups:,} | {case.rows:,} | {case.partitions} | {shown} |")
    return "\n".join(lines)


def compare(runs: Sequence[Measured]) -> str:
    """Return a table of the counts of runs beside those of the simulation, sums over all batches.

    Bytes are predicted with the bytes per row of the smallest run.
    """
    size = row_bytes(runs[0])
    names = {
        "groups_touched": "groups_touched", "run_probes": "run_probes", "page_reads": "page_reads", "merges": "merges",
        "merged_rows": "merged_rows", "state_rows": "state_rows", "runs": "runs",
    }  # fmt: skip
    lines = ["| groups | count | run | simulation | ratio |", "|---|---|---|---|---|"]
    for run in runs:
        expected = list(simulate(run.case))
        rows = [
            (name, sum(b[name] for b in run.batches), sum(getattr(c, own) for c in expected))
            for name, own in names.items()
        ]
        predicted = sum(written_bytes(c, size, run.case.partitions) for c in expected)
        rows.append(("written_bytes", sum(b["written_bytes"] for b in run.batches), predicted))
        lines += [
            f"| {run.case.groups:,} | {name} | {got:,.0f} | {wanted:,.0f} | {wanted / got:.3f} |"
            for name, got, wanted in rows
        ]
    return "\n".join(lines)


@dataclass(frozen=True)
class Costs:
    """What a unit of work costs. A part with "of a core" is shared by all cores.

    Attributes:
        batch: seconds of a batch of Spark without rows and tasks.
        task: seconds of a core for a task: starting it, and handing rows over to Python.
        row: seconds of a core for reading a row, exchanging it and handing it over.
        probe: seconds of a core for searching a key in a run.
        group: seconds of a core for applying rows to a group and computing its values.
        written: seconds of a core for writing a byte of a run or of changes.
        merged: seconds of a core for merging a row.
        commit: seconds of a commit without files.
        file: seconds of a commit for each file.
    """

    batch: float
    task: float
    row: float
    probe: float
    group: float
    written: float
    merged: float
    commit: float
    file: float


CORES = 2
"""Cores of the machine of the measured runs."""


def costs(runs: Sequence[Measured]) -> Costs:
    """Return the costs over the batches after the load, of all runs together.

    The first of these batches is left out. Costs of Spark and of commits are lines through the
    batches, so the runs need different numbers of rows and of partitions.
    """
    batches = [(run, b) for run in runs for b in run.batches[run.loads + 1 :]]

    def total(name: str) -> float:
        return sum(b[name] for _, b in batches)

    spark = [
        ((1.0, run.case.partitions / CORES, run.case.rows / CORES), _spark_seconds(b))
        for run, b in batches
    ]
    batch, task, row = _least_squares(spark)
    file, commit = _line(
        [(2 * run.case.partitions + b["merges"], b["commit_seconds"]) for run, b in batches]
    )
    return Costs(
        batch=batch,
        task=task,
        row=row,
        probe=total("lookup_seconds") / total("run_probes"),
        group=(total("fold_seconds") - total("lookup_seconds")) / total("groups_touched"),
        written=total("write_seconds") / (total("written_bytes") - total("merged_bytes")),
        merged=total("merge_seconds") / total("merged_rows"),
        commit=max(commit, 0.0),
        file=max(file, 0.0),
    )


def _least_squares(points: Sequence[tuple[tuple[float, ...], float]]) -> tuple[float, ...]:
    """Return the coefficients that fit the points best; none is negative."""
    left, right = np.array([x for x, _ in points]), np.array([y for _, y in points])
    scale = np.abs(left).max(axis=0)
    found = np.linalg.lstsq(left / scale, right, rcond=None)[0] / scale
    return tuple(max(float(c), 0.0) for c in found)


def _spark_seconds(batch: dict[str, float]) -> float:
    """Return the seconds of a job without those in which tasks do our work."""
    tasks = batch["fold_seconds"] + batch["write_seconds"] + batch["merge_seconds"]
    return max(batch["job_seconds"] - tasks / CORES, 0.0)


def terms(
    counts: BatchCounts, case: StateCase, cost: Costs, size: RowBytes, cores: int
) -> dict[str, float]:
    """Return the seconds of a batch by term."""
    own = written_bytes(counts, size, case.partitions) - counts.merged_rows * size.run
    return {
        "spark": cost.batch + cost.task * case.partitions / cores + cost.row * case.rows / cores,
        "lookup": cost.probe * counts.run_probes / cores,
        "fold": cost.group * counts.groups_touched / cores,
        "write": cost.written * own / cores,
        "merge": cost.merged * counts.merged_rows / cores,
        "commit": cost.commit + cost.file * counts.files,
    }


@dataclass(frozen=True)
class Cluster:
    """Machines that a simulated run has, with the partitions of its state."""

    name: str
    machines: int
    cores: int
    partitions: int


SMALL = Cluster("1 machine, 2 cores", 1, 2, 2)
MIDDLE = Cluster("1 machine, 16 cores", 1, 16, 16)
HUNDRED = Cluster("100 machines, 800 cores", 100, 800, 1024)

LARGE = (
    (50_000_000, 100_000, SMALL), (200_000_000, 100_000, SMALL), (200_000_000, 10_000_000, MIDDLE),
    (10_000_000_000, 1_000_000, HUNDRED), (10_000_000_000, 100_000_000, HUNDRED),
)  # fmt: skip
"""Groups, rows of a batch, machines."""


def first_reads(state: float, cluster: Cluster, batch: int) -> float:
    """Return the expected bytes that a machine reads in a batch because it has not read them before.

    Spark starts the task of a partition on any machine. One that gets a partition for the first
    time reads its runs whole, to verify them.
    """
    return state / cluster.machines * (1 - 1 / cluster.machines) ** (batch - 1)


def large(runs: Sequence[Measured], batches: int) -> str:
    """Return a table of simulated states, with the costs of measured runs."""
    size, cost = row_bytes(runs[0]), costs(runs)
    lines = [
        "| groups | machines | rows a batch | state, GB | written, MB | merged, M rows | probes a key | runs of a partition | files | snapshot, MB | "
        + " | ".join(f"{t}, s" for t in TERMS) + " |",
        "|---" * (10 + len(TERMS)) + "|",
    ]  # fmt: skip
    again = [
        "| groups | machines | state of a machine, GB | first reads of a machine in batch 1, GB | in batch 100 | in batch 500 |",
        "|---|---|---|---|---|---|",
    ]
    for groups, rows, cluster in LARGE:
        cores, partitions = cluster.cores, cluster.partitions
        case = StateCase(groups, max(groups // 25, LOAD), rows, batches, partitions)
        counts = mean(list(simulate(case))[-batches:])
        seconds = terms(counts, case, cost, size, cores)
        worst = max(seconds.values())
        shown = [f"**{s:.2f}**" if s == worst else f"{s:.2f}" for s in seconds.values()]
        state = counts.state_rows * size.run
        lines.append(
            f"| {groups:,} | {cluster.name} | {rows:,} | {state / 1e9:,.1f} | "
            f"{written_bytes(counts, size, partitions) / 1e6:,.0f} | {counts.merged_rows / 1e6:,.2f} | "
            f"{counts.run_probes / counts.groups_touched:.1f} | {counts.runs / partitions:.1f} | {counts.files:,.0f} | "
            f"{(size.header + size.entry * counts.runs) / 1e6:,.2f} | {' | '.join(shown)} |"
        )
        reads = [f"{first_reads(state, cluster, n) / 1e9:,.1f}" for n in (1, 100, 500)]
        again.append(
            f"| {groups:,} | {cluster.name} | {state / cluster.machines / 1e9:,.1f} | {' | '.join(reads)} |"
        )
    return "\n".join([*lines, "", *again])


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.scale", description=__doc__.partition("\n")[0]
    )
    modes = made.add_subparsers(dest="mode", required=True)
    run = modes.add_parser("measure", help="run W2's plan on Spark")
    run.add_argument("--groups", type=int, default=1_000_000)
    run.add_argument("--rows", type=int, default=100_000, help="of each batch")
    run.add_argument("--batches", type=int, default=20)
    run.add_argument("--partitions", type=int, default=2)
    run.add_argument("--master", default="local[2]")
    run.add_argument("--without-spark", action="store_true", help="run the tasks in this process")
    run.add_argument("--memory", default="2g", help="of the driver")
    run.add_argument("--folder", type=Path, help="for data and state; default: a temporary one")
    run.add_argument("--json", type=Path, required=True)
    modes_of_files = {
        "compare": "counts beside the simulation",
        "predict": "times of each run, with the costs of the others",
        "simulate": "large states",
    }
    for name, what in modes_of_files.items():
        mode = modes.add_parser(name, help=what)
        mode.add_argument("files", type=Path, nargs="+")
        mode.add_argument("--batches", type=int, default=200, help="simulated batches")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, compare or simulate."""
    options = parser().parse_args(arguments)
    if options.mode == "measure":
        case = StateCase(
            options.groups,
            min(LOAD, options.groups),
            options.rows,
            options.batches,
            options.partitions,
        )
        folder = Path(tempfile.mkdtemp(dir=options.folder))
        try:
            if options.without_spark:
                run = measure_local(case, folder)
            else:
                run = measure(case, options.master, options.memory, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        options.json.write_text(json.dumps(asdict(run)))
        return 0
    runs = loaded(options.files)
    if options.mode != "compare":
        runs = [run for run in runs if run.master != WITHOUT_SPARK]
    shown = {"compare": compare, "predict": predicted}.get(options.mode)
    print(shown(runs) if shown is not None else large(runs, options.batches))
    return 0


if __name__ == "__main__":
    sys.exit(main())
