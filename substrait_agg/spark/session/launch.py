"""Start Spark, and separate the output of its JVM and its Python workers from our own output."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import IO, Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from substrait_agg.errors import RunFailed
from substrait_agg.spark.session.errors import SPARK_ERRORS, reason_of
from substrait_agg.spark.session.java import incomplete, missing_module

_ERROR_LINE = re.compile(
    r"^(?:Exception in thread \"[^\"]*\" )?(?:[\w.$]+(?:Exception|Error): |Error: |(?=Invalid ))(.+)$",
    re.MULTILINE,
)


def start_spark(conf: Mapping[str, str], log: IO[bytes] | None = None) -> SparkSession:
    """Start Spark.

    Args:
        conf: the configuration of Spark, including the master.
        log: file for the whole output of the JVM and the workers; None for stdout and stderr.

    Raises:
        RunFailed: ``SPARK_NOT_STARTED``.
        UsageError: ``JAVA_INCOMPLETE``.
    """
    settings = SparkConf()
    for key, value in conf.items():
        settings.set(key, value)
    try:
        context = SparkContext(conf=settings, gateway=_gateway(settings, log))
        if log is not None:
            _quiet(context)
        session = SparkSession(context)
        # Spark validates SQL settings when it reads the first of them.
        session.conf.get("spark.app.name")
    except SPARK_ERRORS as error:
        printed = _printed(log)
        module = missing_module(printed)
        if module is not None:
            raise incomplete((module,)) from error
        found = _ERROR_LINE.search(printed)
        raise RunFailed(
            "SPARK_NOT_STARTED",
            f"Spark could not start: {found[1].strip() if found else reason_of(error)}",
            help="check --master and --conf; --debug shows what Spark printed",
        ) from error
    return session


def _quiet(context: Any) -> None:
    """Suppress the error output of py4j. The errors that a run raises report the failures."""
    # py4j logs the traceback of every exception that a batch raises.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # If the JVM is killed, py4j and the accumulator server print tracebacks.
    logging.getLogger().addFilter(lambda record: record.msg != "Exception while sending command.")
    if context._accumulatorServer is not None:
        context._accumulatorServer.handle_error = lambda *_: None


def _printed(log: IO[bytes] | None) -> str:
    """Return the output of a JVM that failed to start."""
    if log is None or SparkContext._gateway is not None:
        return ""
    log.seek(0)
    return log.read().decode(errors="replace")


def _gateway(settings: SparkConf, log: IO[bytes] | None) -> Any:
    # A JVM that a stopped Spark left running keeps its output streams.
    if log is None or SparkContext._gateway is not None:
        return None
    return launch_gateway(settings, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
