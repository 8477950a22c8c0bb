"""The one Spark session that all tests share: starting a JVM takes longer than most tests."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from tests import jvm
from tests.sampling import register_profiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.stores.emulator import Emulator

pytest_plugins = ["tests.durations"]
register_profiles()


YOUNG, MIDDLE, OLD = 700, 10, 200
"""Thresholds of the garbage collector: the default ones, but for full collections."""


def pytest_configure() -> None:
    """Have every JVM start and compile quickly: Spark's launcher and ``spark-submit`` pass these on."""
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    for name in jvm.NAMES:
        os.environ.setdefault(name, jvm.options())


def pytest_collection_finish() -> None:
    """Take tests and modules out of the garbage collection: a quarter of the time of short tests went into visiting them."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """Give them back: DuckDB reports every object that is left when Python ends."""
    gc.unfreeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark all that starts a JVM (`tests.durations`)."""
    if {"spark", "spark_and_s3"} & set(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.spark)


SMALL = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "3g",
    # Spark clears 4 MB for every broadcast, one or more in each job, and up to 64 MB for a hash table.
    "spark.broadcast.blockSize": "64k",
    "spark.buffer.pageSize": "1m",
    # What the history of jobs and queries holds is copied in collections, and no test reads it.
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    # A young generation in which most garbage dies.
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -Xms2g -Xmn1200m",
}
"""Settings of a Spark for small data."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small local Spark, with the settings that plans rely on."""
    # Before the import: the JVM and its workers read these when they start.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["TZ"] = "UTC"
    from substrait_agg.spark.session.session import get_session

    session = get_session(
        master="local[2]",
        conf={**SMALL, "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))},
    )
    session.sparkContext.setLogLevel("ERROR")
    from py4j.java_gateway import JavaClass, JVMView
    from pyspark.sql.functions import builtin

    find = JVMView.__getattr__

    def found_once(view: Any, name: str) -> Any:
        found = find(view, name)
        if isinstance(found, JavaClass):
            vars(view)[name] = found
        return found

    with pytest.MonkeyPatch.context() as patched:
        # PySpark asks the JVM for the same functions and classes again at every use of one.
        patched.setattr(builtin, "_get_jvm_function", cache(builtin._get_jvm_function))
        patched.setattr(JVMView, "__getattr__", found_once)
        yield session
    session.stop()


@pytest.fixture
def on_spark() -> None:
    """Compute no batch on the driver, for tests of Spark's tasks."""


def _gateway() -> object:
    """Return the connection of this process to a JVM, None if there is none."""
    module = sys.modules.get("pyspark.core.context")
    return module and module.SparkContext._gateway


@pytest.fixture(autouse=True)
def sides(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compute some small batches on the driver and some on Spark, so that both continue the state
    of the other.
    """
    if "spark" not in request.fixturenames:
        before = _gateway()
        yield
        started = _gateway() is not before and not request.node.get_closest_marker("spark")
        assert not started, (
            "it started a JVM: take the fixture `spark`, or run on the local executor"
        )
        return
    from tests.executors import ON_SPARK, RandomDriver, drivers

    on_spark = "on_spark" in request.fixturenames
    turns = random.Random(request.node.nodeid)
    with drivers(ON_SPARK if on_spark else RandomDriver(turns=turns)):
        yield


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An S3 server on this machine, and a folder for its local copies."""
    from tests.stores.emulator import emulator

    with pytest.MonkeyPatch.context() as patched, emulator() as server:
        cache = tmp_path_factory.mktemp("cache")
        cache.chmod(0o700)
        patched.setenv("SUBSTRAIT_AGG_CACHE", str(cache))
        yield server


@pytest.fixture
def spark_and_s3(spark: SparkSession, s3: Emulator) -> Iterator[SparkSession]:
    """The shared Spark, whose workers find the S3 server: they have the environment with which the JVM was started."""
    names = [name for name in os.environ if name.startswith(("AWS_", "SUBSTRAIT_AGG_"))]
    known = spark.sparkContext.environment
    known.update({name: os.environ[name] for name in names})
    yield spark
    for name in names:
        del known[name]
