"""What all engines on Spark share: the session, the stream of files, the table of a batch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.data.data_sets import WEIGHT
from benchmarks.engines.job import EngineJob
from substrait_agg.spark.session.session import get_session

CORES = 2
RECENT = "spark.sql.streaming.numRecentProgressUpdates"
PARTITIONS = "spark.sql.shuffle.partitions"
MEMORY = "BENCHMARKS_JVM_MEMORY"

DDL = {
    "int64": "long", "int32": "int", "double": "double", "string": "string", "large_string": "string",
    "string_view": "string", "timestamp[us]": "timestamp_ntz", "date32[day]": "date",
}  # fmt: skip


def session(conf: Mapping[str, str] | None = None, cores: int = CORES) -> SparkSession:
    """A Spark on some cores of this machine, with further settings."""
    settings = {
        RECENT: "10000",
        "spark.driver.memory": os.environ.get(MEMORY, "3g"),
        PARTITIONS: str(cores),
        "spark.ui.retainedJobs": "10000",
        "spark.ui.retainedStages": "10000",
        "spark.sql.ui.retainedExecutions": "10000",
        "spark.ui.liveUpdate.period": "0",
        **(conf or {}),
    }
    return get_session(f"local[{cores}]", settings)


def schema(job: EngineJob) -> str:
    """The columns of the table for Spark, and the weight if the job reads it."""
    columns = [f"{n} {_ddl(t)}" for n, t in job.columns.items()]
    return ", ".join([*columns, *([f"{WEIGHT} long"] if job.weighted else [])])


def _ddl(arrow: str) -> str:
    return arrow.replace("decimal128", "decimal") if arrow.startswith("decimal") else DDL[arrow]


def stream(spark: SparkSession, job: EngineJob) -> DataFrame:
    """The files of a job as a stream of batches."""
    reader = spark.readStream.schema(schema(job)).option("maxFilesPerTrigger", job.batch_files)
    return reader.parquet(job.folder)


def queried(frame: DataFrame, job: EngineJob) -> DataFrame:
    """The query of a job over rows, in their session."""
    frame.createOrReplaceTempView(job.table)
    return frame.sparkSession.sql(job.sql)


def rows_of(spark: SparkSession, job: EngineJob, paths: Sequence[str]) -> DataFrame:
    """Files as a table."""
    return spark.read.schema(schema(job)).parquet(*paths)


def ended(progress: dict[str, Any]) -> float:
    """When a batch was over, in seconds since 1970."""
    triggered = datetime.fromisoformat(progress["timestamp"]).timestamp()
    return triggered + float(progress["durationMs"]["triggerExecution"]) / 1000


def progress_of(query: Any) -> list[dict[str, Any]]:
    """Spark's account of the batches that had rows."""
    return [p for p in query.recentProgress if p["numInputRows"]]
