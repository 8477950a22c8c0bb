"""Find the files of a source that have not been read.

Python lists the folders of a local file system, and looks at files only if their names are new. While no
folder has changed, nothing is listed. Other file systems are listed through Spark.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote, unquote

from pyspark.sql import SparkSession

from substrait_agg.spark.sources.files import (
    FileRules,
    FoundFile,
    as_glob,
    expanded_globs,
    files_unread,
    found_file,
    is_shown,
    name_test,
    normal_path,
    split,
    unless_gone,
    unreadable_name,
    walk,
)

_FILE = "file://"

SETTLED_SECONDS = 2.0
"""Age from which on the time of a folder shows all files in it. Some file systems count whole seconds."""
LONGEST_UNLISTED = 10.0
"""Seconds after which folders are listed even if their times have not changed. A network file system may
show an old time."""


class FileListing(Protocol):
    """The files of a source that have not been read."""

    def new(self) -> list[FoundFile]:
        """Return the files with content that no earlier call has returned, in no order.

        Raises:
            InputRefused: SOURCE_UNREADABLE, SOURCE_FILES_UNREAD.
        """


class LocalListing:
    """The files at a local path or glob.

    Args:
        location: an absolute path or glob.
        rules: which files Spark reads.
        read: the URIs of the files that have been read.
    """

    def __init__(self, location: str, rules: FileRules, read: Iterable[str] = ()) -> None:
        self._location, self._rules = normal_path(location), rules
        self._accepts = name_test(rules.pattern)
        self._seen: dict[str, set[str]] = {}
        for uri in read:
            self._add(unquote(uri.removeprefix(_FILE)))
        self._folders: dict[str, int] = {}
        self._listed, self._is_settled = 0.0, False
        self._empty: dict[str, list[str]] = {}
        self._has_direct = self._has_partitions = False

    def new(self) -> list[FoundFile]:
        """See `FileListing`."""
        if self._is_unchanged():
            return self._look_at(self._empty)
        self._folders, self._listed = {}, time.monotonic()
        roots = expanded_globs(self._location, self._folders)
        by_root = {root: unseen for root in roots if (unseen := list(self._unseen(root)))}
        # A single file, or a folder that does not exist yet, has no folder that shows changes.
        newest = max(self._folders.values(), default=time.time_ns())
        self._is_settled = time.time() - newest / 1e9 > SETTLED_SECONDS
        return self._look_at(self._read(by_root))

    def _is_unchanged(self) -> bool:
        """Return whether a listing would find what the last one has found."""
        if not self._is_settled or time.monotonic() - self._listed > LONGEST_UNLISTED:
            return False
        try:
            return all(os.stat(f).st_mtime_ns == m for f, m in self._folders.items())  # noqa: PTH116
        except OSError:
            return False

    def _unseen(self, root: str) -> Iterator[str]:
        """Yield the files at and below a matched path that have not been returned."""
        folder, _, name = root.rpartition("/")
        if name in self._seen.get(folder, ()):
            return
        if os.path.isdir(root):  # noqa: PTH112 - a glob may match thousands
            for path in walk(root, self._seen, self._folders):
                if self._accepts(path.rpartition("/")[2]):
                    yield path
        elif is_shown(name) and (root == self._location or self._accepts(name)):
            yield root

    def _read(self, by_root: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Return the files that Spark reads, by root.

        Raises:
            InputRefused: SOURCE_FILES_UNREAD: it would leave out others.
        """
        recursive = self._rules.recursive
        parts = split(by_root.items(), recursive=recursive)
        read = {root: [p for p in paths if p in parts.read] for root, paths in by_root.items()}
        direct = {p for root, paths in read.items() for p in paths if _is_direct(p, root)}
        self._has_direct |= bool(direct)
        self._has_partitions |= parts.read > direct
        if self._has_direct and self._has_partitions and not recursive and parts.read:
            raise files_unread("the current batch", sorted(direct or parts.read))
        if parts.missed and not self._has_direct:
            raise files_unread("the current batch", sorted(parts.missed))
        return read

    def _look_at(self, by_root: Mapping[str, Sequence[str]]) -> list[FoundFile]:
        """Return the files with content. Others are looked at again the next time."""
        files, self._empty = [], {}
        for root, paths in by_root.items():
            for path in paths:
                try:
                    status = os.stat(path)  # noqa: PTH116
                except OSError as error:
                    unless_gone(error)
                    continue
                uri = _uri(path)
                if not status.st_size:
                    self._empty.setdefault(root, []).append(path)
                elif self._add(path):
                    files.append(FoundFile(uri, status.st_mtime_ns // 1_000_000, status.st_size))
        return files

    def _add(self, path: str) -> bool:
        """Add a file to those that are not returned again; return whether it is not one of them."""
        folder, _, name = path.rpartition("/")
        names = self._seen.setdefault(folder, set())
        is_new = name not in names
        names.add(name)
        return is_new


def _is_direct(path: str, root: str) -> bool:
    return path == root or path.rpartition("/")[0] == root.rstrip("/")


class RemoteListing:
    """The files at a path or glob of a file system that Spark reads; arguments as of `LocalListing`.

    Spark names all files in one call. New ones are asked for their times and sizes one by one.
    """

    def __init__(
        self, spark: SparkSession, location: str, rules: FileRules, read: Iterable[str] = ()
    ) -> None:
        options = {"recursiveFileLookup": str(rules.recursive), "pathGlobFilter": rules.pattern}
        reader = spark.read.format("text").schema("value string")
        self._reader = reader.options(**{name: value for name, value in options.items() if value})
        self._spark, self._location, self._seen = spark, as_glob(location), set(read)

    def new(self) -> list[FoundFile]:
        """See `FileListing`."""
        rows: Any = self._reader.load(self._location)._jdf
        java: Any = self._spark.sparkContext._jvm
        names = java.scala.collection.immutable.ArraySeq.unsafeWrapArray(rows.inputFiles())
        uris = filter(None, str(names.mkString("\n")).split("\n"))
        unseen = (found_file(self._spark, uri) for uri in uris if uri not in self._seen)
        files = [file for file in unseen if file is not None and file.size]
        self._seen.update(file.uri for file in files)
        return files


def _uri(path: str) -> str:
    try:
        return f"{_FILE}{quote(path)}"
    except UnicodeEncodeError as error:
        raise unreadable_name(path) from error
