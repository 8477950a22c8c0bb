"""The driver's own part of the batches of a workload, without Spark: read the file, run all operators, commit.

``python -m benchmarks.lane_driver --workload W8 --lanes ours@q16,ours@q17 --tree before=FOLDER`` prints processor time per batch, of this checkout
and of others that have the command, in turns. The driver computes all batches, whatever their size. ``--profile 40`` shows the functions with most processor time of their own.
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
from collections.abc import Sequence
from pathlib import Path

from benchmarks.data.data_sets import FOLDER, OP, WEIGHT, DataSet, make
from benchmarks.queries import QUERIES, plan_of
from benchmarks.refresh_driver import DriverRun
from benchmarks.workload import Lane, Sizes
from benchmarks.workloads import WORKLOADS

SKIPPED = 4
"""Batches that are not counted: everything is done for the first time in them."""
_HERE = Path(__file__).resolve().parents[1]


def _run(lane: Lane, data: DataSet, checkpoint: Path) -> DriverRun:
    change = (f"&weight={WEIGHT}" if lane.weighted else f"&op={OP}") if data.changes else ""
    sources = {QUERIES[lane.query].table: f"parquet:{data.folder}?batch-files=1{change}"}
    files = [data.folder / file.name for file in data.files]
    return DriverRun(plan_of(lane.query), sources, lambda _, number: files[number], checkpoint)


def measured(
    workload: str, name: str, sizes: Sizes, root: Path, profile: cProfile.Profile | None = None
) -> list[float]:
    """Return the seconds of processor time of each batch of a lane, without the first ones.

    Args:
        workload: id of the workload.
        name: the lane.
        sizes: sizes of the workload.
        root: folder of the data sets.
        profile: profiles the batches that count.
    """
    chosen = WORKLOADS[workload](sizes)
    lane = next(lane for lane in chosen.lanes if lane.name == name)
    source = chosen.data[lane.data]
    data = make(source.name, source.generator, source.parameters, root)
    seconds = []
    with tempfile.TemporaryDirectory(dir=root) as folder:
        run = _run(lane, data, Path(folder) / "checkpoint")
        for number in range(len(data.files)):
            used = time.process_time()
            if profile is not None and number >= SKIPPED:
                profile.runcall(run.batch, number)
            else:
                run.batch(number)
            seconds.append(time.process_time() - used)
    return seconds[SKIPPED:]


def _in_tree(tree: Path, workload: str, lane: str, scale: float) -> list[float]:
    """Measure a lane with another checkout of ours, in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--one", lane, "--workload", workload, "--scale", str(scale)],
        check=True, capture_output=True, text=True, cwd=tree,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(_HERE)])},
    )  # fmt: skip
    seconds: list[float] = json.loads(done.stdout)
    return seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a line per lane: the median over batches of the least time in any round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", required=True, choices=sorted(WORKLOADS))
    parser.add_argument("--lanes", help="names of lanes, such as ours@q16")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tree", action="append", default=[], help="NAME=FOLDER of a checkout")
    parser.add_argument("--profile", type=int, default=0, help="functions to print")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    workload, sizes = options.workload, Sizes(scale=options.scale)
    if options.one:
        print(json.dumps(measured(workload, options.one, sizes, FOLDER)))
        return
    trees = {"here": _HERE} | {n: Path(p) for n, _, p in (t.partition("=") for t in options.tree)}
    for lane in options.lanes.split(","):
        if options.profile:
            profile = cProfile.Profile(time.process_time)
            measured(workload, lane, sizes, FOLDER, profile)
            pstats.Stats(profile).sort_stats("tottime").print_stats(options.profile)
            continue
        times: dict[str, list[list[float]]] = {name: [] for name in trees}
        for _ in range(options.rounds):
            for name, tree in trees.items():
                times[name].append(_in_tree(tree, workload, lane, options.scale))
        least = {
            name: statistics.median(map(min, zip(*rounds, strict=True)))
            for name, rounds in times.items()
        }
        text = ", ".join(f"{name} {1000 * value:.0f} ms" for name, value in least.items())
        print(f"{lane}: {text}", flush=True)


if __name__ == "__main__":
    main()
