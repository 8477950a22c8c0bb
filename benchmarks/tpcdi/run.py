"""TPC-DI by batches: the models kept by changes, and computed again by Spark and by DuckDB.

``python -m benchmarks.tpcdi run --data DIR`` brings one batch after the other. After each of them every table is
compared with Spark's, in both directions, and with DuckDB's.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession

import substrait_agg as sa
from benchmarks import refresh_scales
from benchmarks.data.data_sets import FOLDER
from benchmarks.engines import on_spark
from benchmarks.results import machine
from benchmarks.tpcdi.generate import MADE
from benchmarks.tpcdi.models.texts import for_duckdb, queries, script, tables
from benchmarks.tpcdi.sizes import BATCHES
from substrait_agg.spark.catalyst.sql import PLANNING_CONF

SPARK_CONF = {
    **PLANNING_CONF,
    on_spark.PARTITIONS: str(on_spark.CORES),
    "spark.sql.constraintPropagation.enabled": "false",
}
"""Of the session that computes all models again: with constraints its optimizer takes minutes for histories."""


@dataclass(frozen=True)
class BatchResult:
    """A batch.

    Attributes:
        batch: its number.
        ours: seconds of the run in which the models take its changes, from its start to its end.
        applied: the part of them from reading the changes to the commit.
        spark: seconds in which Spark computes all models again.
        duckdb: the same for DuckDB.
        rows: of each model.
        differing: model -> engine -> rows that the engine has and ours does not, or the other way.
        refused: model -> why DuckDB does not compute it.
    """

    batch: int
    ours: float
    applied: float
    spark: float
    duckdb: float
    rows: Mapping[str, int]
    differing: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


def main(data: Path, kept: Path | None, metrics: Path | None = None) -> int:
    """Measure and show, and keep the figures in files; the exit status is 1 if a table differs."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    done = []
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        for result in run(data, Path(folder), metrics=metrics):
            done.append(result)
            print(row(result), file=sys.stderr, flush=True)
    print("\n".join([*HEAD, *map(row, done)]))
    if kept:
        keep(data, done, kept)
    for result in done:
        for name, counts in result.differing.items():
            print(f"batch {result.batch}: {name} differs: {counts}", file=sys.stderr)
        for name, reason in result.refused.items():
            print(f"batch {result.batch}: DuckDB, {name}: {reason}", file=sys.stderr)
    return int(any(result.differing for result in done))


def keep(data: Path, done: Sequence[BatchResult], kept: Path) -> None:
    """Write the figures of the scale of a data set to a file of all scales, and draw them beside it."""
    made = json.loads((data / MADE).read_text())
    batches = [asdict(result) for result in done]
    refresh_scales.store(kept, {**made, "machine": machine(), "batches": batches})
    refresh_scales.draw(kept)


HEAD = (
    "| batch | rows of all models | models equal | ours (s) | of it the batch (s) | Spark, from nothing (s) | DuckDB, from nothing (s) |",
    "|---|---|---|---|---|---|---|",
)


def row(result: BatchResult) -> str:
    """Return a row of the table."""
    total, equal = sum(result.rows.values()), len(result.rows) - len(result.differing)
    taken = (result.ours, result.applied, result.spark, result.duckdb)
    seconds = (f"{each:.2f}" for each in taken)
    return f"| {result.batch} | {total:,} | {equal} of {len(result.rows)} | {' | '.join(seconds)} |"


def run(
    data: Path, folder: Path, spark: SparkSession | None = None, metrics: Path | None = None
) -> Iterator[BatchResult]:
    """Bring the batches of a data set, one after the other.

    Args:
        data: folder that `generate` writes.
        folder: for the state and the tables.
        spark: the session; None starts one.
        metrics: file for the metrics of each batch.
    """
    spark = spark or on_spark.session()
    raw = folder / "raw"
    for table in tables():
        (raw / table).mkdir(parents=True)
    plans = sa.sql_views(script(), spark=spark)
    sources = {table: f"parquet:{raw / table}" for table in tables()}
    for batch in range(1, BATCHES + 1):
        for file in (data / f"batch{batch}").iterdir():
            (raw / file.stem / f"{batch}.parquet").symlink_to(file.resolve())
        began = time.perf_counter()
        taken = sa.run(
            plans, sources, checkpoint=folder / "checkpoint", spark=spark, partitions=on_spark.CORES,
            outputs=["none"], metrics=metrics,
        )  # fmt: skip
        taken.wait()
        ours = time.perf_counter() - began
        yield _compare(spark, folder, batch, (ours, taken.progress.batch_seconds))


def _compare(
    spark: SparkSession, folder: Path, batch: int, ours: tuple[float, float]
) -> BatchResult:
    """Compute all models again, and compare them."""
    by_spark = _by_spark(spark, folder)
    with _opened(folder / "raw") as connection:
        by_duckdb, refused = _by_duckdb(connection, folder / "tables")
        rows, differing = {}, {}
        for name in queries():
            connection.register("kept", sa.open_view(folder / "checkpoint", name).to_arrow())
            ((rows[name],),) = connection.execute("SELECT count(*) FROM kept").fetchall()
            others = {"Spark": f"read_parquet('{folder}/tables/{name}/*.parquet')"}
            if name not in refused:
                others["DuckDB"] = name
            counts = {engine: _differing(connection, other) for engine, other in others.items()}
            if any(counts.values()):
                differing[name] = counts
    return BatchResult(batch, *ours, by_spark, by_duckdb, rows, differing, refused)


def _differing(connection: duckdb.DuckDBPyConnection, other: str) -> int:
    ((count,),) = connection.execute(
        f"SELECT (SELECT count(*) FROM (FROM kept EXCEPT ALL FROM {other}))"
        f" + (SELECT count(*) FROM (FROM {other} EXCEPT ALL FROM kept))"
    ).fetchall()
    return int(count)


def _by_spark(spark: SparkSession, folder: Path) -> float:
    """Write the table of each model, and return the seconds."""
    session = spark.newSession()
    for option, value in SPARK_CONF.items():
        session.conf.set(option, value)
    for name, columns in tables().items():
        frame = session.read.schema(columns).parquet(str(folder / "raw" / name))
        frame.createOrReplaceTempView(name)
    began = time.perf_counter()
    for name, text in queries().items():
        path = str(folder / "tables" / name)
        session.sql(text).write.mode("overwrite").parquet(path)
        session.read.parquet(path).createOrReplaceTempView(name)
    return time.perf_counter() - began


@contextmanager
def _opened(raw: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a database with the raw tables."""
    with duckdb.connect(config={"threads": on_spark.CORES}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, columns in tables().items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
            if any((raw / name).iterdir()):
                connection.execute(
                    f"INSERT INTO {name} FROM read_parquet('{raw / name}/*.parquet')"
                )
        yield connection


def _by_duckdb(
    connection: duckdb.DuckDBPyConnection, written: Path
) -> tuple[float, dict[str, str]]:
    """Make the table of each model; one that DuckDB does not compute is that of Spark.

    Returns:
        the seconds, and why models are not computed.
    """
    refused = {}
    began = time.perf_counter()
    for name, text in queries().items():
        try:
            connection.execute(f"CREATE TABLE {name} AS {for_duckdb(text)}")
        except duckdb.Error as error:
            refused[name] = str(error).partition("\n")[0]
            connection.execute(f"CREATE TABLE {name} AS FROM read_parquet('{written}/{name}/*')")
    return time.perf_counter() - began, refused
