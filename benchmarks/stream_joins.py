"""The joins of TPC-H Q3 and Q5 over tables that only get rows: ours, and Spark's own stream-stream inner join.

The queries have no aggregate, because Spark's streaming aggregates over such joins need a watermark.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psutil
from pyspark.sql import DataFrame

import substrait_agg as sa
from benchmarks.check import WrongView
from benchmarks.data import data_sets, refreshes, tpch
from benchmarks.engines import on_spark
from benchmarks.engines.commits import Commits
from benchmarks.engines.native import CHANGELOG, LOGS, LOGS_OF_SPARK, PROVIDER, ROCKSDB
from substrait_agg.metrics import Progress

WARM = 4
"""Batches at the start of a run that are not counted: the load, and those in which Spark compiles."""

QUERIES: Mapping[int, tuple[tuple[str, ...], str]] = {
    3: (
        ("customer", "orders", "lineitem"),
        ("SELECT l_orderkey, l_extendedprice, l_discount, o_orderdate, o_shippriority FROM customer, orders, lineitem "
        "WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey "
        "AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'"),
    ),
    5: (
        ("customer", "orders", "lineitem", "supplier", "nation", "region"),
        ("SELECT n_name, l_extendedprice, l_discount FROM customer, orders, lineitem, supplier, nation, region "
        "WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey "
        "AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey "
        "AND r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'"),
    ),
}  # fmt: skip
"""Number of the query -> the tables in the order of their joins, and the join of its SQL."""


@dataclass(frozen=True)
class JoinRun:
    """A run of an engine; medians of the batches that count.

    Attributes:
        seconds: time of a batch.
        cpu: processor time of a batch, of this process and its JVM.
        state: bytes of the folder of the state at the end, with the earlier versions that are kept.
        rows: rows of the output.
    """

    seconds: float
    cpu: float
    state: int
    rows: int


@dataclass(frozen=True)
class JoinResult:
    """A join on both engines.

    Attributes:
        query: number of its query.
        ours: the run of ours.
        spark: the run of Spark's stream-stream join.
    """

    query: int
    ours: JoinRun
    spark: JoinRun


def measure(query: int, scale: float, pairs: int, share: float) -> JoinResult:
    """Measure both engines over the same files.

    Raises:
        WrongView: an engine does not have the rows that DuckDB computes.
    """
    data = refreshes.make(scale, pairs, share, deletes=False)
    tables, text = QUERIES[query]
    with duckdb.connect() as connection:
        for name in tables:
            connection.execute(f"CREATE VIEW {name} AS FROM '{data.final(name)}'")
        expected = connection.execute(text).fetchall()
    runs = [run(tables, text, data, expected) for run in (_ours, _spark)]
    return JoinResult(query, *runs)


def cpu_seconds() -> float:
    """Return the processor time of this process and of all processes below it, ended ones included."""
    own = psutil.Process()
    seconds = 0.0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class BatchClock:
    """Takes the processor time at the end of every batch."""

    def __init__(self) -> None:
        self._last = cpu_seconds()
        self.batches: list[float] = []

    def tick(self) -> None:
        """End a batch."""
        now = cpu_seconds()
        self.batches.append(now - self._last)
        self._last = now

    def median(self, batches: int) -> float:
        """Return the median of the batches that count, the last ones of all."""
        return statistics.median(self.batches[-batches:])


def _ours(
    tables: tuple[str, ...], text: str, data: refreshes.Refreshes, expected: list[Any]
) -> JoinRun:
    sources = {name: f"parquet:{data.changes(name)}?batch-files=1" for name in tables}
    with tempfile.TemporaryDirectory(dir=data_sets.FOLDER) as folder:
        checkpoint, clock, commits = Path(folder) / "checkpoint", BatchClock(), Commits()

        def committed(progress: Progress) -> None:
            commits(progress)
            if len(commits.batches) > len(clock.batches):
                clock.tick()

        sa.run(
            sa.sql(text, sources), sources, checkpoint=checkpoint, spark=on_spark.session(),
            partitions=on_spark.CORES, outputs=["none"], progress=committed,
        ).wait()  # fmt: skip
        view = sa.open_view(checkpoint).to_arrow()
        state = _folder_bytes(checkpoint / "state")
    rows = list(zip(*(column.to_pylist() for column in view.columns), strict=True))
    if not tpch.same_rows(rows, expected):
        raise WrongView("the view of the join is not what DuckDB computes")
    seconds = [batch.seconds for batch in commits.batches][WARM:]
    return JoinRun(statistics.median(seconds), clock.median(len(seconds)), state, len(rows))


def _spark(
    tables: tuple[str, ...], text: str, data: refreshes.Refreshes, expected: list[Any]
) -> JoinRun:
    spark = on_spark.session().newSession()
    for name, value in {
        PROVIDER: ROCKSDB, CHANGELOG: "true", LOGS: LOGS_OF_SPARK,
        on_spark.PARTITIONS: str(on_spark.CORES),
    }.items():  # fmt: skip
        spark.conf.set(name, value)
    for name in tables:
        schema = spark.read.parquet(str(data.changes(name))).schema
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        stream.parquet(str(data.changes(name))).createOrReplaceTempView(name)
    counts: list[int] = []
    clock = BatchClock()

    def batch(frame: DataFrame, _: int) -> None:
        counts.append(frame.count())
        clock.tick()

    with tempfile.TemporaryDirectory(dir=data_sets.FOLDER) as folder:
        writer = spark.sql(text).writeStream.outputMode("append").foreachBatch(batch)
        query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
        query.awaitTermination()
        state = _folder_bytes(Path(folder) / "state")
    if sum(counts) != len(expected):
        raise WrongView(f"Spark has {sum(counts)} rows of the join, DuckDB {len(expected)}")
    told = on_spark.progress_of(query)
    seconds = [batch["durationMs"]["triggerExecution"] / 1000 for batch in told][WARM:]
    return JoinRun(statistics.median(seconds), clock.median(len(seconds)), state, sum(counts))
