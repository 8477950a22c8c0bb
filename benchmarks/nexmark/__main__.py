"""Nexmark: each query as a view that is kept batch by batch, beside other engines.

``python -m benchmarks.nexmark --events 500000 --json FILE`` writes the events as Parquet files, a file per table and
batch, and prints a table: a batch of ours, and an answer over all events from nothing by Spark and by DuckDB. With
``--beside flink,pathway`` the others keep an answer batch by batch too. Events per second and core are those of a batch
by the processor time that it took, of all processes of an engine, so that other work on the machine counts little. The
view is compared with the answer of DuckDB, row by row; ``--answers`` compares those of Flink and Pathway.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import duckdb

import substrait_agg as sa
from benchmarks.check import WrongView
from benchmarks.data.data_sets import FOLDER
from benchmarks.data.nexmark import SIDE_INPUT, Nexmark, write
from benchmarks.engines import on_spark
from benchmarks.engines.commits import Commits
from benchmarks.nexmark.beside import PEERS, Peer
from benchmarks.nexmark.queries import NAMES, for_duckdb, query, tables_of
from benchmarks.process import EngineFailed
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
        others: engine -> a batch of Flink or Pathway, or an answer of Spark or DuckDB over the events of all batches.
        absent: engine -> why it has none.
    """

    query: str
    events: int
    rows: int
    ours: Cost
    others: Mapping[str, Cost]
    absent: Mapping[str, str] = field(default_factory=dict)

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
    made.add_argument("--beside", default="spark,duckdb", help="also: flink,pathway")
    for name in PEERS:
        made.add_argument(f"--{name}", default=f"{name}/bin/python", help=f"Python with {name}")
    made.add_argument("--cores", type=int, default=on_spark.CORES, help="threads of each engine")
    made.add_argument(
        "--answers", action="store_true", help="only compare those of Flink and Pathway"
    )
    made.add_argument("--json", type=Path, help="file that figures are kept in")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and show."""
    options = parser().parse_args(arguments)
    generated = Nexmark(options.events, options.batches)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        folder = Path(name)
        write(folder, generated.changes())
        engines = {e: _engine(e, options, folder) for e in options.beside.split(",")}
        queries = options.only.split(",")
        peers = [engine for engine in engines.values() if isinstance(engine, Peer)]
        try:
            if options.answers:
                return _answers(queries, peers)
            results = [
                _shown(measure(chosen, generated, folder, engines, options.cores, turn))
                for turn, chosen in enumerate(queries)
            ]
        finally:
            for peer in peers:
                peer.end()
    print(markdown(results))
    if options.json:
        body = {"machine": machine(), "events": options.events, "batches": options.batches}
        kept = {**body, "cores": options.cores, "queries": [asdict(result) for result in results]}
        options.json.write_text(json.dumps(kept, indent=1) + "\n")
    return 0


Engine = Peer | Callable[[str], Cost]
"""Keeps an answer to a query batch by batch, or returns the cost of one from nothing."""


def _engine(name: str, options: argparse.Namespace, folder: Path) -> Engine:
    if name in PEERS:
        python = str(Path(getattr(options, name)).absolute())
        return Peer(name, python, folder, options.cores)
    return {"spark": _by_spark, "duckdb": _by_duckdb}[name](folder, options.cores)


def _answers(queries: Sequence[str], peers: Sequence[Peer]) -> int:
    """Show which answers differ from those of DuckDB; return the number of them."""
    wrong = 0
    for query_name in queries:
        for peer in peers:
            try:
                rows, differing = peer.differing(query_name)
                told = f"{rows:,} rows{f', wrong: {differing}' if differing else ''}"
                wrong += bool(differing)
            except EngineFailed as error:
                told = f"does not run: {error}"
            print(f"{query_name} {peer.name}: {told}", flush=True)
    return wrong


def measure(
    name: str,
    generated: Nexmark,
    folder: Path,
    engines: Mapping[str, Engine],
    cores: int,
    turn: int = 0,
) -> Result:
    """Measure a query.

    Args:
        name: the query.
        generated: its events.
        folder: of their files.
        engines: by name, beside ours.
        cores: threads of ours.
        turn: which engine is first.

    Raises:
        WrongView: the view is not what DuckDB computes.
    """
    costs, absent, rows = dict[str, Cost](), dict[str, str](), 0
    order = ["ours", *engines]
    for place in range(len(order)):
        chosen = order[(turn + place) % len(order)]
        if chosen == "ours":
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                checkpoint = Path(scratch) / "checkpoint"
                costs[chosen] = _keep(name, folder, checkpoint, cores)
                rows = check(name, folder, checkpoint)
            continue
        try:
            costs[chosen] = _cost(engines[chosen], name)
        except EngineFailed as error:
            absent[chosen] = str(error)
    others = {engine: costs[engine] for engine in engines if engine in costs}
    return Result(name, generated.events // generated.batches, rows, costs["ours"], others, absent)


def _cost(engine: Engine, name: str) -> Cost:
    if not isinstance(engine, Peer):
        return engine(name)
    seconds, cpu = engine.batches(name)
    return Cost(statistics.median(seconds[WARM:]), statistics.fmean(cpu[WARM:]))


def sources(name: str, folder: Path) -> dict[str, str]:
    """Return the sources of the tables of a query."""
    return {
        table: f"parquet:{folder / table}?{'static=true' if table == SIDE_INPUT else 'batch-files=1'}"
        for table in tables_of(name)
    }


def _keep(name: str, folder: Path, checkpoint: Path, cores: int) -> Cost:
    """Return the cost of a batch of a view."""
    spark = on_spark.session(cores=cores)
    given = sources(name, folder)
    plan = sa.sql(query(name), given, spark=spark)
    clock, commits = BatchClock(), Commits()

    def committed(progress: Progress) -> None:
        commits(progress)
        if len(commits.batches) > len(clock.batches):
            clock.tick()

    sa.run(
        plan, given, checkpoint=checkpoint, spark=spark, partitions=cores,
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


def _by_spark(folder: Path, cores: int) -> Callable[[str], Cost]:
    def cost(name: str) -> Cost:
        session = on_spark.session(cores=cores).newSession()
        for option, value in {**PLANNING_CONF, on_spark.PARTITIONS: str(cores)}.items():
            session.conf.set(option, value)
        for table in tables_of(name):
            session.read.parquet(str(folder / table)).createOrReplaceTempView(table)
        text = query(name)
        return _repeat(lambda: session.sql(text).write.format("noop").mode("overwrite").save())

    return cost


def _opened(name: str, folder: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for table in tables_of(name):
        files = f"read_parquet('{folder / table}/*.parquet')"
        connection.execute(f"CREATE VIEW {table} AS FROM {files}")
    return connection


def _by_duckdb(folder: Path, cores: int) -> Callable[[str], Cost]:
    def cost(name: str) -> Cost:
        with _opened(name, folder) as connection:
            connection.execute(f"SET threads = {cores}")
            text = f"CREATE OR REPLACE TABLE answer AS {for_duckdb(name)}"
            return _repeat(lambda: connection.execute(text))

    return cost


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


def _shown(result: Result) -> Result:
    print(row(result), file=sys.stderr, flush=True)
    return result


def row(result: Result) -> str:
    """Return a row of the table."""
    names = sorted({**result.others, **result.absent}, key=list(TITLES).index)
    costs = [result.ours, *(result.others.get(name) for name in names)]
    cells = (
        f"{cost.seconds:.2f} | {result.rate(cost) / 1000:,.0f}" if cost else "- | -"
        for cost in costs
    )
    return f"| {result.query} | {result.rows:,} | {' | '.join(cells)} |"


TITLES = {
    "flink": "Flink, a batch", "pathway": "Pathway, a batch", "spark": "Spark, from nothing",
    "duckdb": "DuckDB, from nothing",
}  # fmt: skip
"""Engine -> what the table calls it, in order."""


def markdown(results: Sequence[Result]) -> str:
    """Return the table, and why an engine has no figures."""
    present = {name for result in results for name in (*result.others, *result.absent)}
    titles = ["ours, a batch", *(title for name, title in TITLES.items() if name in present)]
    head = ["query", "rows", *(f"{t} (s) | thousand events/s and core" for t in titles)]
    lines = [f"| {' | '.join(head)} |", "|---" * (2 + 2 * len(titles)) + "|", *map(row, results)]
    lines += [f"\n{r.query}, {name}: {why}" for r in results for name, why in r.absent.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
