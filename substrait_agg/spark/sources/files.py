"""List the files at a path or glob on any file system that Spark can read."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from substrait_agg.errors import InputRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_File = tuple[str, int, int]
"""A file: its URI, its modification time in milliseconds since 1970, its size in bytes."""

_GLOB = frozenset("*?[]{}\\")


@dataclass(frozen=True, slots=True)
class InputFiles:
    """A path that exists, and its files.

    Attributes:
        path: folder or glob to stream from.
        only_file: glob for the name of a single file; empty for all files.
        files: the current data files, in order of path.
        load_paths: the paths that a batch reader loads.
        modified: the modification time of each of `files`, in milliseconds since 1970.
        sizes: the size of each of `files`, in bytes.
    """

    path: str
    only_file: str
    files: tuple[str, ...]
    load_paths: list[str]
    modified: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def first_file(self) -> list[str]:
        """Return the first data file as a list of paths to load."""
        return list(self.files[:1])


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A data file on a local file system.

    Attributes:
        name: its path below the location of the source.
        size: its size in bytes.
        modified: its modification time, in nanoseconds since 1970.
    """

    path: Path
    name: str
    size: int
    modified: int


def escaped(name: str) -> str:
    """Return a glob that matches exactly this path or name."""
    return "".join(f"\\{c}" if c in _GLOB else c for c in name)


def is_plain_folder(location: str) -> bool:
    """Return whether a location is the path of a local folder, without wildcards."""
    try:
        return not _GLOB & set(location) and Path(location).is_dir()
    except (OSError, ValueError):
        return False


def _is_shown(name: str) -> bool:
    """Return whether Spark reads files and folders of this name.

    Spark skips names that begin with ``.``, and names that begin with ``_`` and contain no ``=``.
    """
    return not (name.startswith(".") or (name.startswith("_") and "=" not in name))


def _files_below(system: Any, status: Any) -> list[_File]:
    if not status.isDirectory():
        return [_file(status)] if status.getLen() > 0 else []
    uri = status.getPath().toUri()
    root = str(uri.getPath())
    if _is_here(str(uri.getScheme())):
        return list(_listed_here(root))
    depth = len(root.rstrip("/").split("/"))
    listed = _listed(system, status)
    return [file for path, file in listed if all(map(_is_shown, path.split("/")[depth:]))]


def _is_here(scheme: str) -> bool:
    """Return whether a URI scheme means the local file system."""
    return scheme == "file"


def _listed(system: Any, status: Any) -> Iterator[tuple[str, _File]]:
    """Yield the non-empty files below a folder, with their paths."""
    listing = system.listFiles(status.getPath(), True)
    while listing.hasNext():
        entry = listing.next()
        if entry.getLen() > 0:
            yield str(entry.getPath().toUri().getPath()), _file(entry)


def _listed_here(root: str) -> Iterator[_File]:
    """Yield the data files below a local folder.

    Python lists local folders, because Hadoop starts a process (``ls``) for every local file.
    """
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
                milliseconds = status.st_mtime_ns // 1_000_000
                yield f"file:{_readable(path)}", milliseconds, status.st_size


def local_sizes(location: str) -> list[int] | None:
    """Return the sizes of the data files at a local path, oldest first.

    Returns:
        None for a glob, a URL, or a path that cannot be read.
    """
    place = Path(location)
    try:
        statuses = [place.stat()] if place.is_file() else _statuses(place)
    except (OSError, ValueError, InputRefused):
        return None
    return [status.st_size for status in sorted(statuses, key=lambda s: s.st_mtime_ns)]


def local_files(location: str) -> list[LocalFile] | None:
    """Return the data files at a local path, by name.

    Returns:
        None for a glob, a URL, or a path that does not exist.

    Raises:
        InputRefused: SOURCE_UNREADABLE.
    """
    place = Path(location)
    if _GLOB & set(location) or not place.exists():
        return None
    root = place.parent if place.is_file() else place
    names = [str(place)] if place.is_file() else [u[5:] for u, *_ in _listed_here(str(place))]
    return [_local_file(root, Path(name)) for name in sorted(names)]


def _local_file(root: Path, path: Path) -> LocalFile:
    try:
        status = path.stat()
    except OSError as error:
        raise _unreadable(str(error)) from error
    name = path.relative_to(root).as_posix()
    return LocalFile(path, name, status.st_size, status.st_mtime_ns)


def _statuses(folder: Path) -> list[os.stat_result]:
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    return [Path(uri.removeprefix("file:")).stat() for uri, *_ in _listed_here(str(folder))]


def _unless_gone(error: OSError) -> None:
    """Raise for an unreadable file; ignore files deleted during the listing and broken links."""
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
        "SOURCE_UNREADABLE", f"a folder of the source cannot be listed: {why}",
        help="check the names and the permissions of its content",
    )  # fmt: skip


def _file(status: Any) -> _File:
    path, modified = str(status.getPath().toString()), int(status.getModificationTime())
    return path, modified, int(status.getLen())


def exists(spark: SparkSession, uri: str) -> bool:
    """Return whether a file exists at a URI in the form of Spark's logs."""
    context = spark.sparkContext
    path = _hadoop_path(spark, getattr(context._jvm, "java.net.URI")(uri))
    return bool(path.getFileSystem(context._jsc.hadoopConfiguration()).exists(path))


def _hadoop_path(spark: SparkSession, location: Any) -> Any:
    """Return Hadoop's path of a text or a URI.

    The class is asked for by its whole name. Part by part, the JVM searches all its archives for
    classes that are called like the packages.
    """
    return getattr(spark.sparkContext._jvm, "org.apache.hadoop.fs.Path")(location)


def look_up(spark: SparkSession, location: str) -> InputFiles | None:
    """Return the files at a path or glob, or None if nothing is there.

    Spark's file stream reads folders only. A single file is therefore streamed as its folder,
    filtered by the name of the file. A relative local path is relative to the working folder of
    this process.

    Raises:
        InputRefused: SOURCE_UNREADABLE.
    """
    context = spark.sparkContext
    path = _hadoop_path(spark, location)
    system = path.getFileSystem(context._jsc.hadoopConfiguration())
    if not path.isAbsolute() and _is_here(str(system.getUri().getScheme())):
        # The JVM has the working folder of its start, which is not always that of Python.
        location = os.path.abspath(location)  # noqa: PTH100 - it may be a glob
        path = _hadoop_path(spark, location)
    statuses = list(system.globStatus(path) or [])
    if not statuses:
        return None
    listed = sorted(f for status in statuses for f in _files_below(system, status))
    files = tuple(name for name, _, _ in listed)
    modified = tuple(instant for _, instant, _ in listed)
    sizes = tuple(size for _, _, size in listed)
    single = len(statuses) == 1 and not statuses[0].isDirectory() and not (_GLOB & set(location))
    if single:
        only = statuses[0].getPath()
        return InputFiles(
            str(only.getParent().toString()),
            escaped(str(only.getName())),
            files,
            [location],
            modified,
            sizes,
        )
    return InputFiles(location, "", files, [location], modified, sizes)
