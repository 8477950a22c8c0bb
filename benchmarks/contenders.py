"""The ways to keep count, sum and average per key: ours, Spark's own with either state store, and Spark without state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import substrait_agg as sa

PLAN = Path(__file__).parents[1] / "plans" / "bench" / "count_sum_avg.bin"
SCHEMA = "k long, i long, x double"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DEFAULT = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

Contender = Callable[[SparkSession, Path, Path], list[float]]
"""Runs over all files of a folder that the checkpoint has not seen; seconds per batch."""


def _seconds(query: Any) -> list[float]:
    return [
        p["durationMs"]["triggerExecution"] / 1000
        for p in query.recentProgress
        if p["numInputRows"]
    ]


def _stream(spark: SparkSession, source: Path) -> DataFrame:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(source))


def _aggregated(frame: DataFrame) -> DataFrame:
    return frame.groupBy("k").agg(
        F.count("*").alias("n"), F.sum("i").alias("s"), F.avg("x").alias("a")
    )


def ours(spark: SparkSession, source: Path, checkpoint: Path) -> list[float]:
    """Substrait-agg."""
    run = sa.run(
        str(PLAN),
        {"t": f"parquet:{source}?batch-files=1"},
        checkpoint=checkpoint,
        spark=spark,
        partitions=2,
    )
    run.wait()
    return _seconds(run.query) if run.query is not None else []


def _native(provider: str) -> Contender:
    def run(spark: SparkSession, source: Path, checkpoint: Path) -> list[float]:
        session = spark.newSession()
        for name, value in {
            PROVIDER: provider,
            CHANGELOG: "true",
            "spark.sql.shuffle.partitions": "2",
        }.items():
            session.conf.set(name, value)
        writer = _aggregated(_stream(session, source)).writeStream.format("noop")
        query = (
            writer.outputMode("update")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return _seconds(query)

    return run


def floor(spark: SparkSession, source: Path, checkpoint: Path) -> list[float]:
    """The same rows aggregated, exchanged and handed over to Arrow, with no state and no output."""

    def drop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"rows": [sum(b.num_rows for b in batches)]})

    def batch(frame: DataFrame, _: int) -> None:
        _aggregated(frame).mapInArrow(drop, "rows long").collect()

    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    writer = _stream(session, source).writeStream.foreachBatch(batch)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return _seconds(query)


CONTENDERS: dict[str, Contender] = {
    "ours": ours,
    "rocksdb": _native(ROCKSDB),
    "default": _native(DEFAULT),
    "floor": floor,
}
