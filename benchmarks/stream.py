"""Ours against Spark's own streaming aggregation, interleaved in one run: median seconds per batch, and ratios.

Run it with ``make bench``; the options choose workloads and sizes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.contenders import CONTENDERS
from benchmarks.data import write_batches
from substrait_agg.spark.session import get_session

LOAD_ROWS = 2_000_000
RECENT = "spark.sql.streaming.numRecentProgressUpdates"
SETTINGS = {RECENT: "1000", "spark.driver.memory": "8g", "spark.sql.shuffle.partitions": "2"}


@dataclass(frozen=True)
class Workload:
    """A stream: `held` groups loaded first, then `batches` of `rows` rows over `keys` keys, per contender."""

    id: str
    what: str
    batches: int
    rows: int
    keys: int
    held: int
    contenders: tuple[str, ...]
    rounds: int = 1


ALL = ("ours", "rocksdb", "default", "floor")
WORKLOADS = (
    Workload("a", "10 batches x 500 k rows, 1 M keys", 10, 500_000, 1_000_000, 0, ALL, 2),
    Workload("b1", "1 M groups held, batches of 100 k", 10, 100_000, 1_000_000, 1_000_000, ALL),
    Workload("b5", "5 M groups held, batches of 100 k", 10, 100_000, 5_000_000, 5_000_000, ALL[:2]),
    Workload(
        "b20", "20 M groups held, batches of 100 k", 10, 100_000, 20_000_000, 20_000_000, ALL[:2]
    ),
    Workload("c", "batches of 1 k rows, 100 k keys", 40, 1_000, 100_000, 0, ALL),
)


@dataclass(frozen=True)
class Result:
    """Median seconds per batch of a contender in a workload, without the first batch of each round."""

    workload: str
    contender: str
    median: float
    batches: int


def measure(spark: SparkSession, workload: Workload, folder: Path) -> list[Result]:
    """Run a workload: load every contender, then take turns."""
    data = folder / workload.id
    load = data / "load"
    if workload.held:
        write_batches(
            load,
            -(-workload.held // LOAD_ROWS),
            min(LOAD_ROWS, workload.held),
            workload.held,
            seed=1,
            distinct=True,
        )
    seconds: dict[str, list[float]] = {name: [] for name in workload.contenders}
    inputs = {name: data / f"in-{name}" for name in workload.contenders}
    for name in workload.contenders:
        _link(load, inputs[name])
        if workload.held:
            CONTENDERS[name](spark, inputs[name], data / f"ckpt-{name}-0")
    # Without a load, a first turn that does not count lets the JVM compile what all contenders run.
    unmeasured = 0 if workload.held else 1
    for turn in range(unmeasured + workload.rounds):
        rows = write_batches(
            data / f"rows-{turn}", workload.batches, workload.rows, workload.keys, seed=2 + turn
        )
        for name in workload.contenders:
            if not workload.held:
                shutil.rmtree(inputs[name], ignore_errors=True)
            _link(rows, inputs[name])
            ckpt = data / f"ckpt-{name}-{0 if workload.held else turn}"
            taken = CONTENDERS[name](spark, inputs[name], ckpt)
            seconds[name] += taken[1:] if turn >= unmeasured else []
            print(f"  {workload.id} {name}: {' '.join(f'{s:.2f}' for s in taken)}", file=sys.stderr)
    shutil.rmtree(data)
    return [
        Result(workload.id, name, statistics.median(taken), len(taken))
        for name, taken in seconds.items()
    ]


def _link(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("*.parquet")):
        link = target / f"{source.name}-{path.name}"
        if not link.exists():
            link.hardlink_to(path)


def table(results: Iterable[Result], workloads: Sequence[Workload]) -> str:
    """The results as a Markdown table: seconds and how many times ours is faster."""
    found = {(r.workload, r.contender): r.median for r in results}
    lines = [
        "| workload | " + " | ".join(ALL) + " | rocksdb / ours | default / ours | ours / floor |"
    ]
    lines.append("|---" * 8 + "|")
    for workload in workloads:
        medians = {name: found.get((workload.id, name)) for name in ALL}
        cells = [f"{m:.2f} s" if m is not None else "-" for m in medians.values()]
        own = medians["ours"]
        ratios = [
            _ratio(medians["rocksdb"], own),
            _ratio(medians["default"], own),
            _ratio(own, medians["floor"]),
        ]
        lines.append(f"| {workload.what} | " + " | ".join([*cells, *ratios]) + " |")
    return "\n".join(lines)


def _ratio(over: float | None, under: float | None) -> str:
    return f"{over / under:.2f}" if over and under else "-"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the chosen workloads and print the table; optionally keep the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="comma-separated workload ids", default="a,b1,b5,b20,c")
    parser.add_argument("--contenders", help="comma-separated, default all of the workload")
    parser.add_argument("--json", type=Path, help="file for the figures")
    chosen = parser.parse_args(arguments)
    workloads = [w for w in WORKLOADS if w.id in chosen.only.split(",")]
    spark = get_session("local[2]", SETTINGS)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="substrait-agg-bench-") as folder:
        for workload in workloads:
            wanted = (chosen.contenders or ",".join(ALL)).split(",")
            names = tuple(n for n in workload.contenders if n in wanted)
            results += measure(spark, replace(workload, contenders=names), Path(folder))
    print(table(results, workloads))
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(r) for r in results], indent=1))


if __name__ == "__main__":
    main()
