"""Check before the first batch that the Python workers of a session can run the tasks.

A session started here runs workers with the Python of this process. In a session started by the
caller, Spark uses ``PYSPARK_PYTHON`` as it was at the start of the session, else the first
``python3`` on PATH. That is often the system's Python instead of the virtual environment, and a
batch would fail on a missing package.
"""

from __future__ import annotations

import json
import platform
import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from substrait_agg.errors import RunFailed
from substrait_agg.spark.execution.task_runner import run_on_partitions
from substrait_agg.spark.session.errors import python_differs

_OF_PYTHON = ("WORKER_PYTHON_DIFFERS", "PACKAGE_NOT_ON_WORKERS")


def check_worker_python(spark: SparkSession) -> None:
    """Refuse a session whose Python workers cannot run the tasks.

    No job runs if the workers use the Python of this process.

    Raises:
        RunFailed: WORKER_PYTHON_DIFFERS, or the error of a task.
    """
    worker = str(spark.sparkContext.pythonExec)
    if is_this_python(worker):
        return
    try:
        (answer,) = run_on_partitions(spark.range(0, 1, 1, 1), lambda _partition, _rows: _version())
    except RunFailed as error:
        if error.code not in _OF_PYTHON:
            raise
        raise python_differs(
            f"{error.message}: they run {worker}, but this process runs {sys.executable}"
        ) from error
    version = json.loads(answer)["version"]
    if version != _minor():
        raise python_differs(
            f"the Python workers of Spark run {worker}, Python {version}, but this process runs {sys.executable}, Python {_minor()}"
        )


def is_this_python(command: str) -> bool:
    """Return whether a command starts the Python of this process, with the same packages."""
    path = shutil.which(command)
    if path is None:
        return False
    # The folder of the link identifies a virtual environment: all links resolve to the same Python.
    here, started = Path(sys.executable), Path(path)
    return here.parent == started.parent and here.resolve() == started.resolve()


def _version() -> str:
    return json.dumps({"version": _minor()})


def _minor() -> str:
    return ".".join(platform.python_version_tuple()[:2])
