"""Benchmarks: ours, Spark's own streaming aggregation, a floor without state, and recomputing, in turns in one run.

``python -m benchmarks --only W1,W4 --contenders ours,rocksdb --scale 0.1 --rounds 3 --json FILE``
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import report, results
from benchmarks.check import WrongView
from benchmarks.conduct import EngineSettings, run
from benchmarks.data.data_sets import FOLDER
from benchmarks.process import ENGINES, EngineFailed
from benchmarks.workload import Sizes, Workload
from benchmarks.workloads import PEERS, WORKLOADS
from benchmarks.writes import writes

BUSY = 0.5
"""Load of a machine that something else runs on."""

WRITES = "B"
"""The workload that needs no engine."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.partition("\n")[0]
    )
    made.add_argument("--only", default=",".join([*WORKLOADS, WRITES]), help="workloads, by id")
    made.add_argument(
        "--contenders",
        default=",".join(e for e in ENGINES if e not in PEERS),
        help="engines, or lanes such as ours@x50; peers only when named",
    )
    made.add_argument("--large", action="store_true", help="the sizes of the table: hours")
    made.add_argument("--scale", type=float, default=1.0, help="factor on rows and groups")
    made.add_argument(
        "--batches", type=int, default=10_000, help="measured batches at most: for a quick look"
    )
    made.add_argument("--rounds", type=int, help="turns that the measured batches are divided into")
    made.add_argument("--memory", default="3g", help="of each JVM")
    made.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="ENGINE=PATH",
        help="Python that runs a peer",
    )
    made.add_argument(
        "--json", type=Path, default=FOLDER / "results.json", help="where figures are kept"
    )
    made.add_argument("--markdown", type=Path, help="file for the tables as Markdown")
    made.add_argument("--plots", type=Path, help="folder for plots")
    made.add_argument(
        "--show", type=Path, nargs="+", metavar="JSON", help="only show figures that were kept"
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and show; the exit status is 1 where an answer is wrong or ours fails, 2 where the call is wrong."""
    options = parser().parse_args(arguments)
    if options.show:
        _summary(results.load(options.show), options)
        return 0
    unknown = _unknown(options)
    if unknown:
        print(f"there is no {', no '.join(unknown)}", file=sys.stderr)
        return 2
    try:
        _measure(options)
    except (WrongView, EngineFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    _summary(results.load([options.json]), options)
    return 0


def _unknown(options: argparse.Namespace) -> list[str]:
    """Workloads and contenders that there are not."""
    lanes = {lane.name for made in WORKLOADS.values() for lane in made(Sizes()).lanes}
    workloads = set(options.only.split(",")) - {*WORKLOADS, WRITES}
    contenders = set(options.contenders.split(",")) - {*ENGINES, *lanes}
    return sorted([*(f"workload {w}" for w in workloads), *(f"contender {c}" for c in contenders)])


def _measure(options: argparse.Namespace) -> None:
    sizes = Sizes(options.large, options.scale, options.batches)
    setting = EngineSettings(
        pythons=dict(p.split("=", 1) for p in options.python), memory=options.memory
    )
    kept = {
        k: v
        for k, v in vars(options).items()
        if k in ("only", "contenders", "large", "scale", "batches", "rounds")
    }
    done: tuple[results.WorkloadResult, ...] = ()
    machine = results.machine()
    if machine["load"] > BUSY:
        print(f"the machine is busy: its load is {machine['load']}", file=sys.stderr)
    for name in options.only.split(","):
        began = time.monotonic()
        if name == WRITES:
            done = (*done, writes(setting))
        else:
            workload = _chosen(WORKLOADS[name](sizes), options)
            print(f"{workload.id}: {workload.what}", file=sys.stderr, flush=True)
            done = (*done, run(workload, setting)) if workload.lanes else done
        print(f"  {name} took {time.monotonic() - began:.0f} s", file=sys.stderr)
        # What is done is kept, whatever becomes of the rest.
        results.Results(machine, kept, done).save(options.json)


def _chosen(workload: Workload, options: argparse.Namespace) -> Workload:
    wanted = set(options.contenders.split(","))
    lanes = tuple(lane for lane in workload.lanes if {lane.name, lane.engine} & wanted)
    absent = {n: w for n, w in workload.absent.items() if {n, n.partition("@")[0]} & wanted}
    used = {lane.data for lane in lanes}
    data = {name: source for name, source in workload.data.items() if name in used}
    return replace(
        workload, lanes=lanes, absent=absent, data=data, rounds=options.rounds or workload.rounds
    )


def _summary(found: results.Results, options: argparse.Namespace) -> None:
    report.show(found)
    if options.markdown:
        options.markdown.write_text(report.markdown(found))
    if options.plots:
        from benchmarks import plots

        for path in plots.save(found, options.plots):
            print(path, file=sys.stderr)


if __name__ == "__main__":
    # So that engines and scratch files go where somebody ends it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
