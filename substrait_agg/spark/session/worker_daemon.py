"""The process that Spark forks Python workers from, with the modules of tasks already loaded.

Without it every worker loads PySpark, Arrow, pandas and our modules by itself, which takes more
processor time than a small task. A Spark that this program starts on one machine runs this module
instead of ``pyspark.daemon``.

A process that is forked must have no thread that holds a lock. Loading these modules starts one
thread, of the allocator jemalloc in Arrow, which prepares itself for a fork.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

TASK_MODULES = ("substrait_agg.commit.runtime.task", "substrait_agg.operator.registry")
"""Modules that a task of a batch loads."""

_DAEMON, _PATH = "spark.python.daemon.module", "spark.executorEnv.PYTHONPATH"
_OTHER_WORKERS = ("spark.python.use.daemon", "spark.python.worker.module", _DAEMON)


def daemon_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with which a new Spark forks workers from this module.

    Empty if workers run on other machines, or if the user has chosen how they start.
    """
    if not conf["spark.master"].startswith("local") or any(map(conf.get, _OTHER_WORKERS)):
        return {}
    # The workers find the package even if only this process has it on its path.
    paths = (conf.get(_PATH), str(Path(__file__).parents[3]))
    return {_DAEMON: __name__, _PATH: ":".join(path for path in paths if path)}


def preload() -> None:
    """Load the modules of workers and of tasks."""
    gc.disable()  # nothing loaded is garbage
    import_module("pyarrow").array([])  # Arrow loads pandas when it makes its first array
    for name in ("pyspark.worker", *TASK_MODULES):
        import_module(name)
    gc.freeze()  # a collection in a worker would copy the memory that it shares
    gc.enable()


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    manager()
