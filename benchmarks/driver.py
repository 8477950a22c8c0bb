"""Which calls the driver's own time of a batch goes to: everything that is not the Spark job.

``python -m benchmarks.driver --workload W3`` profiles our batches and prints calls and milliseconds
of processor time per batch by function.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import substrait_agg as sa
from benchmarks.data.data_sets import LOAD, make
from benchmarks.engines import on_spark
from benchmarks.queries import QUERIES, plan_of
from benchmarks.workload import Sizes
from benchmarks.workloads import WORKLOADS
from substrait_agg.spark.query.handle import Run

SKIPPED = 10
"""Batches that are not counted: everything is done for the first time in them."""


class Profiled:
    """`Run._compute` with a profiler around it, in the thread that computes the batches.

    Attributes:
        stats: of the batches after the first `SKIPPED`.
        batches: how many those are.
    """

    def __init__(self) -> None:
        self.stats = cProfile.Profile(time.process_time)
        self.batches = 0
        self._seen = 0
        self._inner: Callable[..., None] = Run._compute

    def __enter__(self) -> Profiled:
        outer = self

        def compute(run: Run, *arguments: Any) -> None:
            outer._seen += 1
            if outer._seen <= SKIPPED:
                outer._inner(run, *arguments)
                return
            outer.batches += 1
            outer.stats.runcall(outer._inner, run, *arguments)

        Run._compute = compute  # type: ignore[method-assign,assignment]
        return self

    def __exit__(self, *_: object) -> None:
        Run._compute = self._inner  # type: ignore[method-assign]


def profile(workload: str, scale: float) -> Profiled:
    """Run the first of our lanes of a workload."""
    chosen = WORKLOADS[workload](Sizes(scale=scale))
    lane = next(lane for lane in chosen.lanes if lane.engine == "ours")
    source = chosen.data[lane.data]
    data = make(source.name, source.generator, source.parameters)
    spark = on_spark.session()
    with tempfile.TemporaryDirectory() as folder, Profiled() as profiled:
        inputs = Path(folder) / "in"
        inputs.mkdir()
        for file in data.files:
            (inputs / file.name).symlink_to(data.folder / file.name)
        change = "&op=op" if data.changes else ""
        sa.run(
            plan_of(lane.query),
            {QUERIES[lane.query].table: f"parquet:{inputs}?batch-files=1{change}"},
            checkpoint=Path(folder) / "checkpoint",
            spark=spark,
            partitions=2,
        ).wait()
    loaded = sum(file.kind == LOAD for file in data.files)
    if loaded > SKIPPED:
        print(f"{loaded - SKIPPED} of the batches are loads", file=sys.stderr)
    return profiled


def show(profiled: Profiled, rows: int) -> None:
    """Print, per function and batch: calls, milliseconds of processor time in it alone, milliseconds in it and below it."""
    stats = pstats.Stats(profiled.stats).stats  # type: ignore[attr-defined]
    ordered = sorted(stats.items(), key=lambda item: -item[1][3])
    print(f"{profiled.batches} batches; per batch:")
    print(f"{'calls':>8} {'own ms':>8} {'ms':>8}  function")
    for (file, line, name), (_, calls, own, total, _) in ordered[:rows]:
        place = "/".join(Path(file).parts[-2:])
        print(
            f"{calls / profiled.batches:8.1f} {1000 * own / profiled.batches:8.2f}"
            f" {1000 * total / profiled.batches:8.2f}  {place}:{line} {name}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Profile and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="W3", choices=sorted(WORKLOADS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rows", type=int, default=60)
    options = parser.parse_args(arguments)
    show(profile(options.workload, options.scale), options.rows)


if __name__ == "__main__":
    main()
