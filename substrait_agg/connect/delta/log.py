"""Read the log of a Delta table: the files that each version added and removed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow.fs as pf

from substrait_agg.connect.delta.layout import DeltaLayout
from substrait_agg.connect.snapshots import LakeTable, net_files

FOLDER = "_delta_log"
HEAD = 512
"""Bytes of a commit that tell it from another one; the time of the commit is among them."""

MOVES = "OPTIMIZE"
"""Operation that moves rows to other files, if all its actions say that no data change."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows.

    Attributes:
        path: as in the log: relative to the table, and percent-encoded.
        vector: id of its deletion vector; empty if all rows live.
        partition: values of the partition columns, by the name in the files.
        size: in bytes.
    """

    path: str
    vector: str = ""
    partition: tuple[tuple[str, str | None], ...] | None = field(default=None, compare=False)
    size: int = field(default=0, compare=False)

    @classmethod
    def parse(cls, action: Mapping[str, Any]) -> DataFile:
        """Return the file of an action ``add``, ``remove`` or ``cdc``."""
        values, vector = action.get("partitionValues"), action.get("deletionVector") or {}
        partition = None if values is None else tuple(sorted(values.items()))
        id_ = (
            f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}"
            if vector
            else ""
        )
        return cls(action["path"], id_, partition, action.get("size") or 0)


@dataclass(frozen=True, slots=True)
class DeltaCommit:
    """One version of a table.

    Attributes:
        added: files that it added.
        removed: files that it removed.
        feed: files with the rows that it changed; if there are any, they say all of it.
        moves: whether it only moved rows to other files.
        layout: its metadata, if it has changed them.
        features: the reader features, if it has changed them.
    """

    version: int
    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]
    feed: tuple[DataFile, ...]
    moves: bool
    layout: DeltaLayout | None
    features: tuple[str, ...]

    @classmethod
    def parse(cls, version: int, content: bytes) -> DeltaCommit:
        """Return the version that a file of the log describes.

        Raises:
            ValueError, KeyError: the file is not that of a commit.
        """
        actions: dict[str, list[dict[str, Any]]] = {}
        for line in content.splitlines():
            for kind, action in (json.loads(line) if line.strip() else {}).items():
                actions.setdefault(kind, []).append(action)
        added, removed = actions.get("add", []), actions.get("remove", [])
        still = not any(action["dataChange"] for action in (*added, *removed))
        operation = actions.get("commitInfo", [{}])[0].get("operation")
        layouts = [DeltaLayout.parse(action) for action in actions.get("metaData", [])]
        return cls(
            version,
            tuple(DataFile.parse(action) for action in added),
            tuple(DataFile.parse(action) for action in removed),
            tuple(DataFile.parse(action) for action in actions.get("cdc", [])),
            still and operation == MOVES,
            layouts[-1] if layouts else None,
            tuple(f for p in actions.get("protocol", []) for f in p.get("readerFeatures") or ()),
        )

    def cost(self, *, feed: bool) -> int:
        """Return about the bytes that are read for this version."""
        if self.moves:
            return 0
        files = self.feed if feed and self.feed else (*self.added, *self.removed)
        return sum(file.size for file in files)


class DeltaLog:
    """The log of a table.

    Args:
        files: the file system whose root is the table.
        table: the table in messages.
    """

    def __init__(self, files: pf.FileSystem, table: LakeTable) -> None:
        self._files = files
        self._table = table
        self._commits: dict[int, DeltaCommit] = {}

    def newest(self) -> int:
        """Return the newest version; -1 if there is none."""
        infos = self._files.get_file_info(pf.FileSelector(FOLDER, allow_not_found=True))
        stems = [info.base_name.removesuffix(".json") for info in infos if info.extension == "json"]
        return max((int(stem) for stem in stems if len(stem) == 20 and stem.isdigit()), default=-1)

    def has(self, version: int) -> bool:
        """Return whether the log has a version."""
        return bool(self._files.get_file_info(_path(version)).type == pf.FileType.File)

    def sign(self, version: int) -> tuple[int, bytes] | None:
        """Return what tells the commit of a version from another one; None if it is gone."""
        try:
            with self._files.open_input_file(_path(version)) as file:
                return file.size(), file.read(HEAD)
        except FileNotFoundError:
            return None

    def commit(self, version: int) -> DeltaCommit:
        """Return what a version has changed.

        Raises:
            InputRefused: SOURCE_POSITION_GONE, SOURCE_UNREADABLE.
        """
        if version not in self._commits:
            self._commits[version] = self._read(version)
        return self._commits[version]

    def _read(self, version: int) -> DeltaCommit:
        try:
            with self._files.open_input_file(_path(version)) as file:
                return DeltaCommit.parse(version, file.read())
        except FileNotFoundError as error:
            raise self._table.gone(f"version {version} in its log") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._table.unreadable(f"its log, version {version}: {error}") from error

    def has_files(self, difference: DeltaDifference) -> bool:
        """Return whether all files of a difference exist."""
        paths = {unquote(file.path) for file in (*difference.weights, *difference.feed)}
        infos = self._files.get_file_info(sorted(paths))
        return all(info.type == pf.FileType.File for info in infos)

    def forget(self, version: int) -> None:
        """Keep only commits after a version in memory."""
        self._commits = {v: commit for v, commit in self._commits.items() if v > version}


def _path(version: int) -> str:
    return f"{FOLDER}/{version:020d}.json"


@dataclass(frozen=True, slots=True)
class DeltaDifference:
    """What lies between two versions: the sum of its files is the difference of their rows.

    Attributes:
        weights: how often the rows of a file count; negative if they are gone.
        feed: files whose rows say themselves whether they are new.
    """

    weights: Mapping[DataFile, int]
    feed: tuple[DataFile, ...]

    @classmethod
    def of(cls, commits: Sequence[DeltaCommit], *, feed: bool) -> DeltaDifference:
        """Return the cheap difference: without moved rows, and with the change feed if wanted.

        It may need files that were added and removed between the two versions.
        """
        whole = [c for c in commits if not (c.moves or (feed and c.feed))]
        return cls.between(whole, tuple(file for c in commits if feed for file in c.feed))

    @classmethod
    def between(
        cls, commits: Sequence[DeltaCommit], feed: tuple[DataFile, ...] = ()
    ) -> DeltaDifference:
        """Return the difference that, without a feed, needs files of the two versions only."""
        added = (file for commit in commits for file in commit.added)
        removed = (file for commit in commits for file in commit.removed)
        return cls(net_files(added, removed), feed)

    @property
    def has_vectors(self) -> bool:
        """Return whether a file has a deletion vector."""
        return any(file.vector for file in self.weights)
