"""Paths on any file system that Spark reaches: what is there now."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from substrait_agg.errors import InputRefused

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


def _is_shown(name: str) -> bool:
    """Whether Spark reads what has this name: it leaves out those that begin with ``_`` or ``.`` (unless they hold ``=``)."""
    return not (name.startswith(".") or (name.startswith("_") and "=" not in name))


def _files_below(system: Any, status: Any) -> list[tuple[str, int]]:
    if not status.isDirectory():
        return [_file(status)] if status.getLen() > 0 else []
    uri = status.getPath().toUri()
    root = str(uri.getPath())
    if _is_here(str(uri.getScheme())):
        return list(_listed_here(root))
    depth = len(root.rstrip("/").split("/"))
    found = _listed(system, status)
    return [(n, at) for path, n, at in found if all(map(_is_shown, path.split("/")[depth:]))]


def _is_here(scheme: str) -> bool:
    """Whether paths are those of this machine."""
    return scheme == "file"


def _listed(system: Any, status: Any) -> Iterator[tuple[str, str, int]]:
    """The files in a folder that are not empty: path, name, and when it was modified."""
    listing = system.listFiles(status.getPath(), True)
    while listing.hasNext():
        entry = listing.next()
        if entry.getLen() > 0:
            yield (str(entry.getPath().toUri().getPath()), *_file(entry))


def _listed_here(root: str) -> Iterator[tuple[str, int]]:
    """The data files in a folder of this machine, by Python: Hadoop starts a program (``ls``) for every file that it lists there."""
    for folder, folders, names in os.walk(root, onerror=_unless_gone, followlinks=True):
        folders[:] = filter(_is_shown, folders)
        for name in filter(_is_shown, names):
            path = f"{folder.rstrip('/')}/{name}"
            try:
                status = Path(path).stat()
            except OSError as error:
                _unless_gone(error)
                continue
            if status.st_size > 0:
                yield f"file:{_readable(path)}", status.st_mtime_ns // 1_000_000


def _unless_gone(error: OSError) -> None:
    """Refuse what may not be read; not what has been taken away meanwhile, and links to nothing."""
    if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        raise _unreadable(str(error)) from error


def _readable(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise _unreadable(f"the name {path!a} is not UTF-8") from error
    return path


def _unreadable(why: str) -> InputRefused:
    return InputRefused(
        "SOURCE_UNREADABLE", f"a folder of the source cannot be read: {why}",
        help="check the names and the permissions of what is in it",
    )  # fmt: skip


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

    Raises:
        InputRefused: SOURCE_UNREADABLE.
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
