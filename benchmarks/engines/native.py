"""Spark's own streaming aggregation with either state store, and Spark without state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.engines import on_spark
from benchmarks.engines.job import EngineJob, TimedBatch
from substrait_agg.spark.session.session import SESSION_CONF

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
STATE = "org.apache.spark.sql.execution.streaming.state"
ROCKSDB = f"{STATE}.RocksDBStateStoreProvider"
DEFAULT = f"{STATE}.HDFSBackedStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
LOGS = "spark.sql.streaming.checkpointFileManagerClass"
"""How Spark writes its logs: ours sets it."""
LOGS_OF_SPARK = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
)


class Native:
    """Spark's streaming aggregation: updated rows go nowhere, state goes to the checkpoint.

    Args:
        provider: class of the state store.
        tuned: whether Spark writes its logs, and those of its state, in the way that ours sets, instead of its usual one.
    """

    def __init__(self, provider: str, *, tuned: bool = False) -> None:
        self._spark = on_spark.session()
        self._settings = {PROVIDER: provider, CHANGELOG: "true"}
        self._settings[LOGS] = SESSION_CONF[LOGS] if tuned else LOGS_OF_SPARK

    def run(self, job: EngineJob) -> list[TimedBatch]:
        """Run the batches."""
        began = time.time()
        spark = _session(self._spark, self._settings, job)
        writer = on_spark.queried(on_spark.stream(spark, job), job).writeStream
        if job.answer:
            _run(writer.foreachBatch(_keep(job.answer)).outputMode("complete"), job)
            return []
        return _taken(_run(writer.format("noop").outputMode("update"), job), job, began)


class Floor:
    """The same rows aggregated, exchanged and handed over to Arrow, with no state and no output."""

    def __init__(self) -> None:
        self._spark = on_spark.session()

    def run(self, job: EngineJob) -> list[TimedBatch]:
        """Run the batches."""
        began = time.time()
        spark = _session(self._spark, {LOGS: LOGS_OF_SPARK}, job)

        def batch(frame: DataFrame, _: int) -> None:
            on_spark.queried(frame, job).mapInArrow(_count, "rows long").collect()

        writer = on_spark.stream(spark, job).writeStream.foreachBatch(batch)
        return _taken(_run(writer, job), job, began)


def rocksdb() -> Native:
    """With RocksDB, changelog checkpoints on."""
    return Native(ROCKSDB)


def default() -> Native:
    """With the default store, which keeps state in memory."""
    return Native(DEFAULT)


def rocksdb_tuned() -> Native:
    """`rocksdb` with the logs as ours."""
    return Native(ROCKSDB, tuned=True)


def default_tuned() -> Native:
    """`default` with the logs as ours."""
    return Native(DEFAULT, tuned=True)


def _keep(folder: str) -> Callable[[DataFrame, int], None]:
    """Return what replaces the files of a folder by the whole answer of a batch."""

    def batch(frame: DataFrame, _: int) -> None:
        frame.write.mode("overwrite").parquet(folder)

    return batch


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"rows": [sum(b.num_rows for b in batches)]})


def _session(spark: SparkSession, settings: Mapping[str, str], job: EngineJob) -> SparkSession:
    made = spark.newSession()
    for name, value in {**settings, on_spark.PARTITIONS: str(job.partitions)}.items():
        made.conf.set(name, value)
    return made


def _run(writer: Any, job: EngineJob) -> Any:
    query = writer.option("checkpointLocation", job.checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def _taken(query: Any, job: EngineJob, began: float) -> list[TimedBatch]:
    told = on_spark.progress_of(query)
    return [
        TimedBatch(
            files[0],
            p["durationMs"]["triggerExecution"] / 1000,
            since=on_spark.ended(p) - began,
        )
        for files, p in zip(job.batches, told, strict=True)
    ]
