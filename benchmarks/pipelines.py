"""A pipeline of views after changes of its tables: a refresh of ours against a full one of spark-pipelines, in turns.

``python -m benchmarks.pipelines --trades 2000000 --json FILE`` runs the pipeline of docs/examples/pipeline in two processes, each
with a Spark of its own that stays up. In each round a share of the rows of all tables changes; then one process and
then the other brings all views up to date. At the end the tables of both are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest.mock import patch

import duckdb

import substrait_agg as sa
from benchmarks.data import brokerage
from benchmarks.data.data_sets import FOLDER
from benchmarks.engines.on_spark import CORES
from benchmarks.results import machine

ROOT = Path(__file__).parents[1]
PIPELINE = ROOT / "docs" / "examples" / "pipeline" / "transformations"
TARGET = 5.0
"""Times that a refresh has to be faster than a full one."""


@dataclass(frozen=True)
class Result:
    """Times in seconds, of the rounds that count.

    Attributes:
        trades: rows of the largest table.
        share: of the rows of each table that changes in a round.
        load: time of the first run of ours.
        refreshes: of ours, per round.
        full: of spark-pipelines, per round.
        views: rows of each view at the end, which are the same in both.
    """

    trades: int
    share: float
    load: float
    refreshes: tuple[float, ...]
    full: tuple[float, ...]
    views: dict[str, int]

    @property
    def ratio(self) -> float:
        """Return the median of the ratios of a round."""
        rounds = zip(self.full, self.refreshes, strict=True)
        return statistics.median(full / refresh for full, refresh in rounds)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.pipelines", description=__doc__.partition("\n")[0]
    )
    made.add_argument("--trades", type=int, default=2_000_000, help="rows of the largest table")
    made.add_argument(
        "--share", type=float, default=0.01, help="of the rows that change in a round"
    )
    made.add_argument("--rounds", type=int, default=5, help="that count, after two that do not")
    made.add_argument("--json", type=Path, help="file that figures are kept in")
    return made


WARM = 2
"""Rounds that do not count, in which Spark compiles."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and show; the exit status is 1 if the tables differ."""
    options = parser().parse_args(arguments)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        result = measure(Path(folder), options.trades, options.share, options.rounds)
    print(shown(result))
    if options.json:
        kept = {"machine": machine(), **asdict(result), "ratio": result.ratio}
        options.json.write_text(json.dumps(kept, indent=1))
    return 0


def shown(result: Result) -> str:
    """Return the result in two lines."""
    refresh, full = statistics.median(result.refreshes), statistics.median(result.full)
    return (
        f"{result.trades} trades, {result.share:.2%} changed: refresh {refresh:.2f} s, full run of spark-pipelines "
        f"{full:.2f} s; {result.ratio:.1f} times as fast (target {TARGET:.0f}); first run of ours {result.load:.2f} s\n"
        f"views: {', '.join(f'{name} {rows}' for name, rows in result.views.items())}"
    )


class Worker:
    """A process that refreshes when it is asked to."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from benchmarks.pipelines import {kind}; {kind}()", str(folder)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def refresh(self) -> float:
        """Return the seconds of a refresh, as the process measures them.

        Raises:
            RuntimeError: the process ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("refresh\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                return float(line.removeprefix(ANSWER))
        message = f"the process ended with status {self._process.wait()}"
        raise RuntimeError(message)

    def stop(self) -> None:
        """End the process."""
        self._process.communicate()


ANSWER = "seconds: "


def measure(folder: Path, trades: int, share: float, rounds: int) -> Result:
    """Run both in turns, every second round in the other order."""
    world = brokerage.Brokerage(trades)
    brokerage.write_load(folder / "changes", world)
    brokerage.write_tables(folder / "tables", world)
    ours, spark = Worker("maintain", folder), Worker("recompute", folder)
    try:
        load = ours.refresh()
        spark.refresh()
        taken: dict[Worker, list[float]] = {ours: [], spark: []}
        for turn in range(1, rounds + WARM + 1):
            brokerage.write_changes(folder / "changes", turn, world.change(share))
            brokerage.write_tables(folder / "tables", world)
            for worker in (ours, spark) if turn % 2 else (spark, ours):
                taken[worker].append(worker.refresh())
            print(f"  round {turn}: {taken[ours][-1]:.2f} s, {taken[spark][-1]:.2f} s", file=sys.stderr)  # fmt: skip
    finally:
        ours.stop()
        spark.stop()
    return Result(
        trades, share, load, tuple(taken[ours][WARM:]), tuple(taken[spark][WARM:]), compared(folder)
    )


def compared(folder: Path) -> dict[str, int]:
    """Return the rows of each view, which both have.

    Raises:
        SystemExit: the rows of a view differ.
    """
    found = {}
    for name in sorted(path.name for path in (folder / "warehouse").iterdir()):
        if name in brokerage.TABLES:
            continue
        connection = duckdb.connect()
        connection.register("ours", sa.open_view(folder / "checkpoint", name).to_arrow())
        files = f"read_parquet('{folder}/warehouse/{name}/*.parquet')"
        query = (
            f"SELECT count(*) FROM ((FROM ours EXCEPT ALL FROM {files})"
            f" UNION ALL (FROM {files} EXCEPT ALL FROM ours))"
        )
        ((differing,),) = connection.execute(query).fetchall()
        if differing:
            message = f"the view {name} differs in {differing} rows"
            raise SystemExit(message)
        ((found[name],),) = connection.execute("SELECT count(*) FROM ours").fetchall()
    return found


def _serve(refresh: Callable[[], None]) -> None:
    """Refresh once for every line of stdin, and answer with the seconds."""
    for _ in sys.stdin:
        start = time.perf_counter()
        refresh()
        print(f"{ANSWER}{time.perf_counter() - start}", flush=True)


def maintain() -> None:
    """Serve refreshes of ours: a run over the changes that are there, in a Spark that stays up."""
    from benchmarks.engines import on_spark

    folder = Path(sys.argv[1])
    spark = on_spark.session()
    sources = {
        name: f"parquet:{folder}/changes/{name}?weight={brokerage.WEIGHT}&batch-files=1"
        for name in brokerage.TABLES
    }

    def refresh() -> None:
        plans = sa.sql_views(PIPELINE, sources, spark=spark)
        sa.run(
            plans, sources, checkpoint=folder / "checkpoint", spark=spark, outputs=["none"]
        ).wait()

    _serve(refresh)


def recompute() -> None:
    """Serve full refreshes of spark-pipelines over the rows that are there, in a Spark that stays up."""
    from pyspark.pipelines import cli
    from pyspark.sql import SparkSession

    folder = Path(sys.argv[1])
    spec = folder / "spark-pipeline.yml"
    (folder / "transformations").symlink_to(PIPELINE)
    spec.write_text(
        f"name: brokerage\nstorage: file://{folder}/storage\nlibraries:\n"
        + "".join(
            f"  - glob: {{include: transformations/{path.relative_to(PIPELINE)}}}\n"
            for path in sorted(PIPELINE.rglob("*.sql"))
        )
    )
    settings = {
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "false",
    }
    # Spark Connect warns of the settings that only its server takes; it takes them when it starts.
    warnings.filterwarnings("ignore", message="Failed to set")
    builder = SparkSession.builder.remote(f"local[{CORES}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for name in brokerage.TABLES:
        spark.catalog.createTable(name, f"{folder}/tables/{name}", "parquet")

    def refresh() -> None:
        for name in brokerage.TABLES:
            spark.catalog.refreshTable(name)
        # The command stops its session, and with it the catalog in memory.
        with patch.object(type(spark), "stop", lambda _self: None):
            cli.run(spec, [], full_refresh_all=True, refresh=[], dry=False)

    _serve(refresh)


if __name__ == "__main__":
    sys.exit(main())
