"""Spark sessions with the settings that the plans run here rely on."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import IO

from pyspark.sql import SparkSession

from substrait_agg.errors import UsageError
from substrait_agg.spark.session.errors import SPARK_ERRORS, reason_of
from substrait_agg.spark.session.java import require_java
from substrait_agg.spark.session.launch import start_spark

SESSION_CONF: dict[str, str] = {
    # Overflow, bad casts and division by zero are errors, never nulls.
    "spark.sql.ansi.enabled": "true",
    # Decimal operators keep the full scale of the exact result (`decimals.py` relies on it).
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.session.timeZone": "UTC",
    # The exchange has as many partitions as asked for, in every batch.
    "spark.sql.adaptive.enabled": "false",
    # Files written with another case still deliver their columns instead of nulls.
    "spark.sql.caseSensitive": "false",
    # The row-at-a-time Parquet reader rounds decimals of another scale without a word.
    "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
    "spark.sql.parquet.mergeSchema": "false",
    # A damaged file fails the batch, and so does one lost after it was listed (`planned.py` sees to those lost before).
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.streaming.schemaInference": "false",
    # Spark's logs are in a folder of this machine. The usual way of writing one there starts some six programs
    # (readlink, chmod) for every file, three files a batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""SQL settings, by session: they hold in the sessions made here and leave others as they are."""

OWN_SETTINGS = "spark.substraitAgg."
"""What settings of this program begin with."""
DRIVER_BYTES_SETTING = f"{OWN_SETTINGS}driverBytes"
"""Up to which size the driver computes a batch (`small`)."""

_NEW_CONTEXT_CONF: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
}
"""Further settings of a Spark that is started here."""

WORKER_PYTHON = "spark.pyspark.python"
"""The Python of the executors where it is not at the path of this one; Spark itself reads it in its own launcher only."""


def isolated(spark: SparkSession, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session of its own on the same Spark, with `SESSION_CONF`; the settings of `spark` stay as they are.

    Catalogue tables are shared; temporary views of `spark` are not visible (global temporary views are).
    A DataFrame keeps the session it was made in: expressions over it must be put into a session prepared with
    `prepare`, such as the one that a streaming query hands to ``foreachBatch``.
    """
    return prepare(spark.newSession(), conf)


def prepare(spark: SparkSession, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Put `SESSION_CONF`, and `conf` over it, into a session that is ours alone; returns the session.

    Raises:
        UsageError: ``SETTING_REFUSED``.
    """
    for key, value in {**SESSION_CONF, **(conf or {})}.items():
        if key.startswith(OWN_SETTINGS):
            own_setting(key, value)
        elif not spark.conf.isModifiable(key):
            continue
        try:
            spark.conf.set(key, value)
        except SPARK_ERRORS as error:
            message = f"Spark does not take the setting {key}: {reason_of(error)}"
            raise UsageError(
                "SETTING_REFUSED", message, help="correct it", path="--conf"
            ) from error
    return spark


def is_of_session(spark: SparkSession, key: str) -> bool:
    """Whether a setting can be put into a session: Spark's own are told by Spark, which does not know ours."""
    return key.startswith(OWN_SETTINGS) or spark.conf.isModifiable(key)


def own_setting(key: str, value: str) -> int:
    """The number that a setting of this program has.

    Raises:
        UsageError: SETTING_REFUSED where there is no such setting, or it is no number.
    """
    if key != DRIVER_BYTES_SETTING:
        message, help = (
            f"there is no setting {key}",
            f"{DRIVER_BYTES_SETTING} is the only one of this kind",
        )
    elif value.isascii() and value.isdigit():
        return int(value)
    else:
        message = f"{key} is a number of bytes, not {value!r}"
        help = "give a whole number, 0 for never"
    raise UsageError("SETTING_REFUSED", message, help=help, path="--conf")


def get_session(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    log: IO[bytes] | None = None,
) -> SparkSession:
    """A session prepared with `SESSION_CONF`: of `spark`, of the Spark that is running, or of a new one.

    Args:
        master: master URL for a new Spark, ``local[*]`` when None.
        conf: further Spark settings; those of the SQL session also reach a Spark that is running already.
        spark: the caller's session, which is left as it is (see `isolated`).
        log: file for what a new Spark prints, see `launch.start_spark`.

    Raises:
        UsageError: ``JAVA_MISSING``, ``JAVA_TOO_OLD``, ``JAVA_INCOMPLETE``.
        RunFailed: ``SPARK_NOT_STARTED``.
    """
    running = spark or SparkSession.getActiveSession()
    if running is not None:
        return isolated(running, conf)
    require_java()
    # Workers run this very interpreter, or one that was shipped to them: the code that they are sent was made for it.
    os.environ["PYSPARK_PYTHON"] = (conf or {}).get(WORKER_PYTHON, sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    own = {"spark.master": master or "local[*]", "spark.app.name": "substrait-agg"}
    session = start_spark({**own, **_NEW_CONTEXT_CONF, **SESSION_CONF, **(conf or {})}, log)
    session.sparkContext.setLogLevel("ERROR")
    # PySpark logs every failed query as a page of JSON besides raising it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    return session
