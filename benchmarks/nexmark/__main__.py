"""Nexmark: each query as a view that is kept batch by batch, and computed again by Spark and by DuckDB.

``python -m benchmarks.nexmark --events 500000 --json FILE`` writes the events as Parquet files, a file per table and
batch, and prints a table: a batch of ours, and an answer over all events from nothing by the others. Events per second
and core are those of a batch by the processor time that it took, of all processes of an engine, so that other work on
the machine counts little. The view is compared with the answer of DuckDB, row by row.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession

import substrait_agg as sa
from benchmarks.check import WrongView
from benchmarks.data.data_sets import FOLDER
from benchmarks.data.nexmark import SIDE_INPUT, Nexmark, write
from benchmarks.engines import on_spark
from benchmarks.engines.commits import Commits
from benchmarks.nexmark.queries import NAMES, for_duckdb, query, tables_of
from benchmarks.results import machine
from benchmarks.stream_joins import BatchClock
from substrait_agg.metrics import Progress
from substrait_agg.spark.catalyst.sql import PLANNING_CONF

WARM = 3
"""Batches at the start of a run that do not count, in which Spark compiles."""
TIMES = 3
"""Answers from nothing, of which the median counts; one before them does not."""


@dataclass(frozen=True)
class Cost:
    """What a batch, or an answer from nothing, takes.

    Attributes:
        seconds: the median by the clock.
        cpu: the mean processor time in seconds, of all processes.
    """

    seconds: float
    cpu: float


@dataclass(frozen=True)
class Result:
    """A query.

    Attributes:
        query: its name.
        events: events of a batch, of all tables.
        rows: rows of the view at the end.
        ours: a batch.
        spark: an answer by Spark over the events of all batches.
        duckdb: the same by DuckDB.
    """

    query: str
    events: int
    rows: int
    ours: Cost
    spark: Cost
    duckdb: Cost

    def rate(self, cost: Cost) -> float:
        """Return the events per second and core, if each batch has this cost."""
        return self.events / max(cost.cpu, 1e-9)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.nexmark", description=__doc__.partition("\n")[0]
    )
    made.add_argument("--events", type=int, default=500_000, help="of all batches")
    made.add_argument("--batches", type=int, default=10, help="the first ones do not count")
    made.add_argument("--only", default=",".join(NAMES), help="queries")
    made.add_argument("--json", type=Path, help="file that figures are kept in")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and show."""
    options = parser().parse_args(arguments)
    generated = Nexmark(options.events, options.batches)
    FOLDER.mkdir(parents=True, exist_ok=True)
    results = []
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        folder = Path(name)
        write(folder, generated.changes())
        for chosen in options.only.split(","):
            results.append(measure(chosen, folder, generated))
            print(row(results[-1]), file=sys.stderr, flush=True)
    print(markdown(results))
    if options.json:
        body = {"machine": machine(), "events": options.events, "batches": options.batches}
        kept = {**body, "queries": [asdict(result) for result in results]}
        options.json.write_text(json.dumps(kept, indent=1) + "\n")
    return 0


def measure(name: str, folder: Path, generated: Nexmark) -> Result:
    """Measure a query.

    Raises:
        WrongView: the view is not what DuckDB computes.
    """
    spark = on_spark.session()
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        checkpoint = Path(scratch) / "checkpoint"
        ours = _keep(spark, name, folder, checkpoint)
        rows = check(name, folder, checkpoint)
    return Result(
        name, generated.events // generated.batches, rows, ours, _by_spark(spark, name, folder), _by_duckdb(name, folder)
    )  # fmt: skip


def sources(name: str, folder: Path) -> dict[str, str]:
    """Return the sources of the tables of a query."""
    return {
        table: f"parquet:{folder / table}?{'static=true' if table == SIDE_INPUT else 'batch-files=1'}"
        for table in tables_of(name)
    }


def _keep(spark: SparkSession, name: str, folder: Path, checkpoint: Path) -> Cost:
    """Return the cost of a batch of a view."""
    given = sources(name, folder)
    plan = sa.sql(query(name), given, spark=spark)
    clock, commits = BatchClock(), Commits()

    def committed(progress: Progress) -> None:
        commits(progress)
        if len(commits.batches) > len(clock.batches):
            clock.tick()

    sa.run(
        plan, given, checkpoint=checkpoint, spark=spark, partitions=on_spark.CORES,
        outputs=["none"], progress=committed,
    ).wait()  # fmt: skip
    counted = commits.batches[WARM:]
    seconds = statistics.median(batch.seconds for batch in counted)
    return Cost(seconds, statistics.fmean(clock.batches[-len(counted) :]))


def _repeat(answer: Callable[[], object]) -> Cost:
    """Return the cost of an answer."""
    answer()
    seconds, clock = [], BatchClock()
    for _ in range(TIMES):
        began = time.perf_counter()
        answer()
        seconds.append(time.perf_counter() - began)
        clock.tick()
    return Cost(statistics.median(seconds), statistics.fmean(clock.batches))


def _by_spark(spark: SparkSession, name: str, folder: Path) -> Cost:
    session = spark.newSession()
    for option, value in {**PLANNING_CONF, on_spark.PARTITIONS: str(on_spark.CORES)}.items():
        session.conf.set(option, value)
    for table in tables_of(name):
        session.read.parquet(str(folder / table)).createOrReplaceTempView(table)
    text = query(name)
    return _repeat(lambda: session.sql(text).write.format("noop").mode("overwrite").save())


def _opened(name: str, folder: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f"SET threads = {on_spark.CORES}")
    for table in tables_of(name):
        files = f"read_parquet('{folder / table}/*.parquet')"
        connection.execute(f"CREATE VIEW {table} AS FROM {files}")
    return connection


def _by_duckdb(name: str, folder: Path) -> Cost:
    with _opened(name, folder) as connection:
        text = f"CREATE OR REPLACE TABLE answer AS {for_duckdb(name)}"
        return _repeat(lambda: connection.execute(text))


def check(name: str, folder: Path, checkpoint: Path) -> int:
    """Return the number of rows of a view.

    Raises:
        WrongView: they are not those that DuckDB computes.
    """
    with _opened(name, folder) as connection:
        connection.register("kept", sa.open_view(checkpoint).to_arrow())
        connection.execute(f"CREATE TABLE answer AS {for_duckdb(name)}")
        ((differing, rows),) = connection.execute(
            "SELECT (SELECT count(*) FROM (FROM kept EXCEPT ALL FROM answer))"
            " + (SELECT count(*) FROM (FROM answer EXCEPT ALL FROM kept)), (SELECT count(*) FROM kept)"
        ).fetchall()
    if differing:
        raise WrongView(f"the view of {name} differs from DuckDB in {differing} rows")
    return int(rows)


def row(result: Result) -> str:
    """Return a row of the table."""
    costs = (result.ours, result.spark, result.duckdb)
    cells = (f"{cost.seconds:.2f} | {result.rate(cost):,.0f}" for cost in costs)
    return f"| {result.query} | {result.rows:,} | {' | '.join(cells)} |"


def markdown(results: Sequence[Result]) -> str:
    """Return the table."""
    engines = ("ours, a batch", "Spark, from nothing", "DuckDB, from nothing")
    names = (part for engine in engines for part in (f"{engine} (s)", "events/s and core"))
    head = ["query", "rows", *names]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *map(row, results)]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
