"""Find the files of a source that have not been read.

Python lists the folders of a local file system, and looks at files only if their names are new. While no
folder has changed, nothing is listed. Other file systems are listed through Spark.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol
from urllib.parse import quote

from pyspark.sql import SparkSession

from substrait_agg.spark.sources.files import (
    FileRules,
    FoundFile,
    expanded_globs,
    files_unread,
    is_shown,
    look_up,
    name_test,
    split,
    unless_gone,
    unreadable_name,
)

SETTLED_SECONDS = 2.0
"""Age from which on the time of a folder shows all files in it. Some file systems count whole seconds."""
LONGEST_UNLISTED = 10.0
"""Seconds after which folders are listed even if their times have not changed. A network file system may
show an old time."""


class FileListing(Protocol):
    """The files of a source."""

    def new(self, seen: Collection[str]) -> list[FoundFile]:
        """Return the files with content whose URIs are not in `seen`, in no order.

        Raises:
            InputRefused: SOURCE_UNREADABLE, SOURCE_FILES_UNREAD.
        """


class LocalListing:
    """The files at a local path or glob.

    Args:
        location: an absolute path or glob.
        rules: which files Spark reads.
    """

    def __init__(self, location: str, rules: FileRules) -> None:
        self._location, self._rules = location, rules
        self._accepts = name_test(rules.pattern)
        self._folders: dict[str, int] = {}
        self._listed, self._is_settled = 0.0, False
        self._empty: dict[str, list[str]] = {}
        self._partitioned = False

    def new(self, seen: Collection[str]) -> list[FoundFile]:
        """See `FileListing`."""
        if self._is_unchanged():
            return self._found(self._empty)
        self._folders, self._listed = {}, time.monotonic()
        by_root: dict[str, list[str]] = {}
        for root, path in self._paths():
            if _uri(path) not in seen:
                by_root.setdefault(root, []).append(path)
        newest = max(self._folders.values(), default=0)
        self._is_settled = time.time() - newest / 1e9 > SETTLED_SECONDS
        return self._found(self._read(by_root))

    def _is_unchanged(self) -> bool:
        """Return whether a listing would find what the last one has found."""
        if not self._is_settled or time.monotonic() - self._listed > LONGEST_UNLISTED:
            return False
        try:
            return all(os.stat(f).st_mtime_ns == m for f, m in self._folders.items())  # noqa: PTH116
        except OSError:
            return False

    def _paths(self) -> Iterator[tuple[str, str]]:
        """Yield each file with the matched path that it is below."""
        for root in expanded_globs(self._location, self._folders):
            if os.path.isdir(root):  # noqa: PTH112 - a glob may match thousands
                yield from ((root, path) for path in self._below(root))
            else:
                yield root, root

    def _below(self, root: str) -> Iterator[str]:
        for folder, folders, names in os.walk(root, onerror=unless_gone, followlinks=True):
            with suppress(OSError):
                self._folders[folder] = os.stat(folder).st_mtime_ns  # noqa: PTH116
            folders[:] = filter(is_shown, folders)
            base = folder.rstrip("/")
            for name in names:
                if is_shown(name) and self._accepts(name):
                    yield f"{base}/{name}"

    def _read(self, by_root: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Return the files that Spark reads, by root.

        Raises:
            InputRefused: SOURCE_FILES_UNREAD: it would leave out others.
        """
        parts = split(by_root.items(), recursive=self._rules.recursive)
        read = {root: [p for p in paths if p in parts.read] for root, paths in by_root.items()}
        self._partitioned |= not self._rules.recursive and any(
            path.rpartition("/")[0] != root.rstrip("/") and path != root
            for root, paths in read.items()
            for path in paths
        )
        if parts.missed and self._partitioned:
            raise files_unread("the current batch", sorted(parts.missed))
        return read

    def _found(self, by_root: Mapping[str, Sequence[str]]) -> list[FoundFile]:
        """Look at files. Those without content are looked at again the next time."""
        files, self._empty = [], {}
        for root, paths in by_root.items():
            for path in paths:
                try:
                    status = os.stat(path)  # noqa: PTH116
                except OSError as error:
                    unless_gone(error)
                    continue
                if status.st_size:
                    modified = status.st_mtime_ns // 1_000_000
                    files.append(FoundFile(_uri(path), modified, status.st_size))
                else:
                    self._empty.setdefault(root, []).append(path)
        return files


class RemoteListing:
    """The files at a path or glob of a file system that Spark reads."""

    def __init__(self, spark: SparkSession, location: str, rules: FileRules) -> None:
        self._spark, self._location, self._rules = spark, location, rules

    def new(self, seen: Collection[str]) -> list[FoundFile]:
        """See `FileListing`."""
        place = look_up(self._spark, self._location, self._rules)
        if place is None:
            return []
        if place.missed:
            raise files_unread("the current batch", place.missed)
        uris = (quote(uri, safe=_SAFE) for uri in place.files)
        files = map(FoundFile, uris, place.modified, place.sizes)
        return [file for file in files if file.uri not in seen]


_SAFE = "/:@"


def _uri(path: str) -> str:
    try:
        return f"file://{quote(path)}"
    except UnicodeEncodeError as error:
        raise unreadable_name(path) from error
