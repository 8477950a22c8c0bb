"""Refresh pairs of TPC-H: a batch of ours against a small aggregate, and against recomputation by DuckDB and Spark.

``python -m benchmarks.refresh --scale 0.1 --queries 3,5,10,18,21 --json FILE`` runs the plans of DataFusion over the tables
with refreshes, and prints ratios within the run.
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
from typing import Any

import duckdb

import substrait_agg as sa
from benchmarks.check import WrongView
from benchmarks.conduct import EngineSettings
from benchmarks.data import data_sets, refreshes, tpch
from benchmarks.data.rows import with_key
from benchmarks.driver import Profiled, show
from benchmarks.engines import on_spark
from benchmarks.engines.commits import Commits
from benchmarks.peers import refresh_pairs
from benchmarks.peers.conversion import LAYOUTS
from benchmarks.queries import QUERIES, plan_of
from benchmarks.results import machine
from substrait_agg.commit.documents.file_names import snapshot_name

CHOSEN = (3, 5, 10, 18, 21)
AGGREGATE = "count_sum_avg"
AGGREGATE_ROWS, AGGREGATE_KEYS = 1_000, 100_000
WARM = 4
"""Batches at the start of a run that are not counted: the load, and those in which Spark compiles."""
RECOMPUTED = 3
"""Measured times of a recomputation, after one that does not count."""


@dataclass(frozen=True)
class StreamTimes:
    """The batches of a run that count.

    Attributes:
        seconds: of each batch, from when it is taken until it is committed.
        written: bytes written by each: state, changes and snapshot.
        state: bytes of the state after the last one.
    """

    seconds: tuple[float, ...]
    written: tuple[int, ...]
    state: int


@dataclass(frozen=True)
class QueryResult:
    """A query of the benchmark: medians in seconds, and bytes.

    Attributes:
        query: its number.
        refresh: time of a refresh batch.
        aggregate: time of a batch of a single aggregate, measured just before.
        duckdb: time in which DuckDB computes the query again.
        spark: time in which Spark computes the query again.
        written: bytes written per byte of the files of the refreshes.
        state: bytes of the state.
        peers: engine -> time of a refresh batch.
        absent: engine -> why it has no time.
    """

    query: int
    refresh: float
    aggregate: float
    duckdb: float
    spark: float
    written: float
    state: int
    peers: Mapping[str, float] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.refresh", description=__doc__.partition("\n")[0]
    )
    made.add_argument("--scale", type=float, default=0.1, help="scale factor, such as 0.1, 1 or 10")
    made.add_argument("--queries", default=",".join(map(str, CHOSEN)), help="numbers of queries")
    made.add_argument("--pairs", type=int, default=14, help="refresh pairs; some are not counted")
    made.add_argument("--share", type=float, default=0.001, help="of the orders, in and out")
    made.add_argument("--json", type=Path, help="file that figures are kept in")
    made.add_argument(
        "--contenders", default="", help=f"peers besides DuckDB and Spark: {', '.join(LAYOUTS)}"
    )
    made.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="ENGINE=PATH",
        help="Python that runs a peer",
    )
    made.add_argument("--profile", type=int, metavar="ROWS", help="only profile the driver")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and show; the exit status is 1 if a view is wrong, 2 if the call is."""
    options = parser().parse_args(arguments)
    chosen = [int(query) for query in options.queries.split(",")]
    if options.pairs <= WARM:
        print(f"give more than {WARM} --pairs", file=sys.stderr)
        return 2
    data = refreshes.make(options.scale, options.pairs, options.share)
    if options.profile:
        for query in chosen:
            with Profiled() as profiled:
                _run_query(query, data)
            show(profiled, options.profile)
        return 0
    done: list[QueryResult] = []
    peers = [name for name in options.contenders.split(",") if name]
    setting = EngineSettings(pythons=dict(p.split("=", 1) for p in options.python))
    for query in chosen:
        try:
            done.append(measure(query, data, peers, setting))
        except WrongView as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        print(f"  {done[-1]}", file=sys.stderr, flush=True)
        if options.json:
            kept = {"machine": machine(), "scale": options.scale, "share": options.share}
            kept["queries"] = [asdict(result) for result in done]
            options.json.write_text(json.dumps(kept, indent=1))
    print(table(done))
    return 0


def measure(
    query: int,
    data: refreshes.Refreshes,
    peers: Sequence[str] = (),
    setting: EngineSettings | None = None,
) -> QueryResult:
    """Measure a query, and a single aggregate before it.

    Raises:
        WrongView: the view is not what DuckDB computes.
    """
    aggregate = _run_aggregate()
    ours = _run_query(query, data)
    read = data.bytes(tpch.tables_of(query), data.pairs - len(ours.written))
    others = refresh_pairs.measure(query, data, peers, setting or EngineSettings(), skipped=WARM)
    return QueryResult(
        query,
        refresh=statistics.median(ours.seconds),
        aggregate=statistics.median(aggregate.seconds),
        duckdb=_by_duckdb(query, data),
        spark=_by_spark(query, data),
        written=sum(ours.written) / sum(read),
        state=ours.state,
        peers=others.seconds,
        absent=others.failed,
    )


def _run_aggregate() -> StreamTimes:
    parameters = {
        "keys": AGGREGATE_KEYS,
        "held": AGGREGATE_KEYS,
        "batches": [("rows", AGGREGATE_ROWS)] * (2 * WARM + 6),
    }
    data = data_sets.make("keyed", with_key, parameters)
    sources = {QUERIES[AGGREGATE].table: f"parquet:{data.folder}?batch-files=1"}
    with tempfile.TemporaryDirectory(dir=data_sets.FOLDER) as folder:
        return _stream(plan_of(AGGREGATE), sources, Path(folder) / "checkpoint")


def _run_query(query: int, data: refreshes.Refreshes) -> StreamTimes:
    """Run the plan of a query over the load and all refreshes, and compare the last view."""
    sources = {
        table: f"parquet:{data.changes(table)}?batch-files=1&op=op"
        for table in tpch.tables_of(query)
    }
    with tempfile.TemporaryDirectory(dir=data_sets.FOLDER) as folder:
        checkpoint = Path(folder) / "checkpoint"
        times = _stream(tpch.plan_path(query), sources, checkpoint)
        check_view(query, data, checkpoint)
    return times


def check_view(query: int, data: refreshes.Refreshes, checkpoint: Path) -> None:
    """Compare the view of a query after all refreshes with what DuckDB computes.

    Raises:
        WrongView: they differ.
    """
    view = sa.open_view(checkpoint).to_arrow()
    shown = list(zip(*(column.to_pylist() for column in view.columns), strict=True))
    with _final(data) as connection:
        expected = connection.execute(tpch.sql(query)).fetchall()
    if not tpch.same_rows(shown, expected):
        raise WrongView(f"query {query} is not what DuckDB computes")


def _stream(plan: Path, sources: Mapping[str, str], checkpoint: Path) -> StreamTimes:
    """Run a plan over all files, and return the batches after the first `WARM`."""
    commits = Commits()
    sa.run(
        plan,
        sources,
        checkpoint=checkpoint,
        spark=on_spark.session(),
        partitions=on_spark.CORES,
        progress=commits,
    ).wait()
    batches, snapshots = commits.batches[WARM:], checkpoint / "snapshots"
    sizes = [(snapshots / snapshot_name(b.after.version)).stat().st_size for b in batches]
    newest = sa.open_state(checkpoint).at()
    state = sum(file.bytes for operator in newest.operators for file in operator.runs)
    return StreamTimes(
        tuple(batch.seconds for batch in batches),
        tuple(batch.written + size for batch, size in zip(batches, sizes, strict=True)),
        state,
    )


def _final(data: refreshes.Refreshes) -> Any:
    """Return DuckDB with the tables as they are after all refreshes."""
    connection = duckdb.connect(str(data.folder / "final.duckdb"))
    for name in tpch.KEYS:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {name} AS FROM '{data.final(name)}'")
    return connection


def _by_duckdb(query: int, data: refreshes.Refreshes) -> float:
    with _final(data) as connection:
        return _recomputed(lambda: connection.execute(tpch.sql(query)).fetchall())


def _by_spark(query: int, data: refreshes.Refreshes) -> float:
    spark = on_spark.session()
    for name in tpch.tables_of(query):
        spark.read.parquet(str(data.final(name))).createOrReplaceTempView(name)
    text = tpch.sql(query).rstrip().rstrip(";")
    return _recomputed(lambda: spark.sql(text).collect())


def _recomputed(compute: Callable[[], Any]) -> float:
    """Return the median seconds of a recomputation."""
    seconds = []
    for _ in range(RECOMPUTED + 1):
        began = time.perf_counter()
        compute()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:])


def table(results: Sequence[QueryResult]) -> str:
    """Return the ratios as Markdown."""
    peers = list(dict.fromkeys(name for r in results for name in (*r.peers, *r.absent)))
    names = [
        "query", "refresh, to the aggregate", "DuckDB, to the refresh", "Spark, to the refresh",
        *(f"{peer}, to the refresh" for peer in peers), "bytes written for one of input", "state, MB",
    ]  # fmt: skip
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for r in results:
        ratios = (r.peers[p] / r.refresh if p in r.peers else None for p in peers)
        cells = (
            f"Q{r.query}", f"{r.refresh / r.aggregate:.1f}", f"{r.duckdb / r.refresh:.2f}",
            f"{r.spark / r.refresh:.1f}", *("-" if t is None else f"{t:.2f}" for t in ratios),
            f"{r.written:.1f}", f"{r.state / 1e6:.1f}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
