"""Paths on any file system that Spark reaches: what is there now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

_GLOB = frozenset("*?[]{}\\")


@dataclass(frozen=True, slots=True)
class Place:
    """A path that exists.

    Attributes:
        path: folder or glob to stream from.
        only_file: glob for the name of the one file that is meant, empty for all.
        files: data files there now, in order of path.
        load_paths: what a reader that is no stream loads.
        modified: when each of the files was modified, in milliseconds since 1970.
    """

    path: str
    only_file: str
    files: tuple[str, ...]
    load_paths: list[str]
    modified: tuple[int, ...] = ()

    @property
    def first_file(self) -> list[str]:
        """The first data file, as a list of paths to load."""
        return list(self.files[:1])


def escaped(name: str) -> str:
    """A path or name as a glob that matches nothing else."""
    return "".join(f"\\{c}" if c in _GLOB else c for c in name)


def _is_data(path: Any, root_parts: int) -> bool:
    """Whether a file is data: Spark leaves out names that begin with ``_`` or ``.`` (unless they hold ``=``)."""
    parts = str(path.toUri().getPath()).split("/")[root_parts:]
    return not any(p.startswith(".") or (p.startswith("_") and "=" not in p) for p in parts)


def _files_below(system: Any, status: Any) -> list[tuple[str, int]]:
    path = status.getPath()
    if not status.isDirectory():
        return [_file(status)] if status.getLen() > 0 else []
    depth = len(str(path.toUri().getPath()).rstrip("/").split("/"))
    found, listing = [], system.listFiles(path, True)
    while listing.hasNext():
        entry = listing.next()
        if entry.getLen() > 0 and _is_data(entry.getPath(), depth):
            found.append(_file(entry))
    return found


def _file(status: Any) -> tuple[str, int]:
    return str(status.getPath().toString()), int(status.getModificationTime())


def exists(spark: SparkSession, uri: str) -> bool:
    """Whether there is something at a URI, as Spark's logs write it."""
    context = spark.sparkContext
    jvm: Any = context._jvm
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(uri))
    return bool(path.getFileSystem(context._jsc.hadoopConfiguration()).exists(path))


def look_up(spark: SparkSession, location: str) -> Place | None:
    """What is at a path or glob now; None if there is nothing.

    A single file is streamed as its folder filtered by its name, which is what Spark's file stream can do.
    """
    context = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(location)  # type: ignore[union-attr]
    system = path.getFileSystem(context._jsc.hadoopConfiguration())
    statuses = list(system.globStatus(path) or [])
    if not statuses:
        return None
    found = sorted(f for status in statuses for f in _files_below(system, status))
    files = tuple(name for name, _ in found)
    modified = tuple(instant for _, instant in found)
    single = len(statuses) == 1 and not statuses[0].isDirectory() and not (_GLOB & set(location))
    if single:
        only = statuses[0].getPath()
        return Place(
            str(only.getParent().toString()),
            escaped(str(only.getName())),
            files,
            [location],
            modified,
        )
    return Place(location, "", files, [location], modified)
