"""Make a running query write Spark's logs without starting programs.

Where Hadoop's native library is missing, Hadoop starts ``chmod`` for each file that it creates
through its local file system, and for the checksum beside it. A batch writes three log files, which
is six programs. The raw local file system below creates and renames the files in the same way, but
it has no checksums and sets no permissions of its own. Only the logs of our query use it: the query
gets it while its first batch runs, when Spark writes no log.

Versions record the checksums of the logs that they depend on, so those of Hadoop are not missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from substrait_agg.commit.log.query_logs import children, source_logs
from substrait_agg.files.filesystem import filesystem
from substrait_agg.spark.session.errors import SPARK_ERRORS

_MANAGER = "FileSystemBasedCheckpointFileManager"
_LOCAL = "org.apache.hadoop.fs.LocalFileSystem"


def write_plain_files(spark: SparkSession, query: str, folder: Path) -> bool:
    """Make a query write its logs through the raw local file system.

    Call it from a batch of the query. Nothing changes if this release of Spark keeps its logs in
    another way.

    Args:
        spark: the session that started the query.
        query: id of the query.
        folder: folder of the logs.

    Returns:
        Whether all logs of the query are written so from now on.
    """
    # The start is slower without it, and otherwise the same.
    with suppress(*SPARK_ERRORS, OSError, TypeError, AttributeError):
        session: Any = spark._jsparkSession
        execution = session.streams().get(query).streamingQuery()
        done = [_replace_file_system(log.fileManager()) for log in _logs(execution)]
        _delete_checksums(folder)
        return all(done)
    return False


def _logs(execution: Any) -> Iterator[Any]:
    """Yield the logs of a query: offsets, finished batches, and files of each file source."""
    yield execution.offsetLog()
    yield execution.commitLog()
    sources = execution.sources()
    for source in (sources.apply(i) for i in range(sources.size())):
        if source.getClass().getSimpleName() == "FileStreamSource":
            yield _field(source, "metadataLog").get(source)


def _replace_file_system(manager: Any) -> bool:
    if manager.getClass().getSimpleName() != _MANAGER:
        return False
    system = manager.fs()
    if system.getClass().getName() != _LOCAL:
        return False
    _field(manager, "fs").set(manager, system.getRawFileSystem())
    return True


def _field(of: Any, name: str) -> Any:
    field = of.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field


def _delete_checksums(folder: Path) -> None:
    """Delete Hadoop's checksums: a file that is written again would not have the old one."""
    for log in (folder / "offsets", folder / "commits", *(log for _, log in source_logs(folder))):
        for path in children(log):
            if path.name.startswith(".") and path.name.endswith(".crc"):
                filesystem().remove(path)
