"""The helper class `Catalyst` in the JVM of a session."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any

from pyspark.sql import SparkSession


def new_helper(spark: SparkSession) -> Any:
    """Return a new object of the class in ``Catalyst.java``."""
    return _helper_class(spark._jvm).newInstance()


def release_of(spark: SparkSession) -> str:
    """Return the release of Spark without its patch level, such as ``4.3``."""
    return ".".join(spark.version.split(".")[:2])


@lru_cache(maxsize=1)
def _helper_class(jvm: Any) -> Any:
    """Return the class; Spark's own compiler compiles it once for a JVM."""
    source = files(__package__).joinpath("Catalyst.java").read_text(encoding="utf-8")
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader().loadClass("Catalyst")
