"""Starting a Spark of our own, with what its JVM and its Python workers print kept apart from what we print."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import IO, Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from substrait_agg.errors import RunFailed
from substrait_agg.spark.reasons import reason_of


def start_spark(conf: Mapping[str, str], log: IO[bytes] | None = None) -> SparkSession:
    """Start a Spark.

    Args:
        conf: its configuration, the master included.
        log: file that takes what the JVM and the workers print, from the first byte on; None: stdout and stderr.

    Raises:
        RunFailed: ``SPARK_NOT_STARTED``.
    """
    settings = SparkConf()
    for key, value in conf.items():
        settings.set(key, value)
    try:
        context = SparkContext(conf=settings, gateway=_gateway(settings, log))
        if log is not None:
            # It logs the traceback of every exception that a batch raises, and the run raises it again.
            logging.getLogger("py4j").setLevel(logging.CRITICAL)
        return SparkSession(context)
    except (PySparkException, Py4JError) as error:
        raise RunFailed(
            "SPARK_NOT_STARTED",
            f"Spark could not start: {reason_of(error)}",
            help="check --master and --conf; --debug shows what Spark printed",
        ) from error


def _gateway(settings: SparkConf, log: IO[bytes] | None) -> Any:
    # A JVM that is there already, of a Spark that was stopped, keeps its streams.
    if log is None or SparkContext._gateway is not None:
        return None
    return launch_gateway(settings, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
