"""The answer computed from scratch, by Spark and by DuckDB; and Spark's batch aggregation of a batch's own rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession

from benchmarks.engines import on_spark
from benchmarks.engines.job import EngineJob, TimedBatch


class DuckDB:
    """A table that takes the changes, and the query over all of it, into another table.

    Only the batches that are sampled run the query; each of these is timed with the changes it brings.
    """

    def __init__(self) -> None:
        self._tables: dict[str, StoredTable] = {}

    def run(self, job: EngineJob) -> list[TimedBatch]:
        """Run the batches."""
        table = self._tables.setdefault(
            job.lane, StoredTable(job, Path(f"{job.checkpoint}.duckdb"))
        )
        taken = []
        for ordinal, files in enumerate(job.batches, job.samples - len(job.batches)):
            began = time.perf_counter()
            table.take(job.paths(files))
            applied = time.perf_counter() - began
            if ordinal >= 0:
                table.query(job.sql)
                seconds = time.perf_counter() - began
                parts = {"changes": applied, "query": seconds - applied}
                taken.append(TimedBatch(files[0], seconds, parts))
        return taken


class StoredTable:
    """The rows alive, in a database file.

    Args:
        job: any job over it.
        path: of the file.
    """

    def __init__(self, job: EngineJob, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = duckdb.connect(str(path))
        self._connection.execute(f"SET threads = {on_spark.CORES}")
        self._job = job
        self._columns = ", ".join([*job.columns, *(["id"] if job.changes else [])])
        self._made = False

    def take(self, paths: Sequence[str]) -> None:
        """Apply changes: rows that leave, then rows that come."""
        source = f"read_parquet({list(paths)})"
        run = self._connection.execute
        if not self._made:
            run(
                f"CREATE OR REPLACE TABLE {self._job.table} AS SELECT {self._columns} FROM {source} LIMIT 0"
            )
            self._made = True
        came = ""
        if self._job.changes:
            run(
                f"DELETE FROM {self._job.table} WHERE id IN"
                f" (SELECT id FROM {source} WHERE op = 'delete')"
            )
            came = " WHERE op = 'insert'"
        run(f"INSERT INTO {self._job.table} SELECT {self._columns} FROM {source}{came}")

    def query(self, sql: str) -> None:
        """Compute the answer, and keep it."""
        self._connection.execute(f"CREATE OR REPLACE TABLE answer AS {sql}")

    def save(self, path: Path) -> None:
        """Write the rows alive as Parquet."""
        columns = ", ".join(self._job.columns)
        self._connection.execute(
            f"COPY (SELECT {columns} FROM {self._job.table}) TO '{path}' (FORMAT parquet)"
        )


class Spark:
    """The query over all rows alive, for the batches that are sampled, with the answer going nowhere.

    Where rows leave, the rows alive are written by DuckDB beforehand: that is not timed.
    """

    def __init__(self) -> None:
        self._spark = on_spark.session()
        self._seen: dict[str, list[str]] = {}
        self._tables: dict[str, StoredTable] = {}

    def run(self, job: EngineJob) -> list[TimedBatch]:
        """Run the batches."""
        taken = []
        for ordinal, files in enumerate(job.batches, job.samples - len(job.batches)):
            paths = self._alive(job, files, wanted=ordinal >= 0)
            if ordinal >= 0:
                taken.append(TimedBatch(files[0], _aggregated(self._spark, job, paths)))
        return taken

    def _alive(self, job: EngineJob, files: Sequence[str], *, wanted: bool) -> list[str]:
        new = job.paths(files)
        if not job.changes:
            self._seen.setdefault(job.lane, []).extend(new)
            return self._seen[job.lane]
        path = Path(f"{job.checkpoint}.alive.duckdb")
        table = self._tables.setdefault(job.lane, StoredTable(job, path))
        table.take(new)
        saved = path.with_suffix(".parquet")
        if wanted:
            table.save(saved)
        return [str(saved)]


class SparkBatch:
    """Spark's batch aggregation of the rows of each batch alone, as if there were no others."""

    def __init__(self) -> None:
        self._spark = on_spark.session()

    def run(self, job: EngineJob) -> list[TimedBatch]:
        """Run the batches."""
        return [
            TimedBatch(files[0], _aggregated(self._spark, job, job.paths(files)))
            for files in job.batches
        ]


def _aggregated(spark: SparkSession, job: EngineJob, paths: Sequence[str]) -> float:
    began = time.perf_counter()
    frame = on_spark.queried(on_spark.rows_of(spark, job, paths), job)
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began
