"""The snapshot: everything that one batch did, as one immutable JSON document."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from substrait_agg.errors import StateRefused
from substrait_agg.operator.watermarks import PartitionTime, SourceTime
from substrait_agg.state.run import RunFile

FORMAT = 3


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A Parquet file of changes: output columns, ``__version``, ``__weight``."""

    name: str
    rows: int
    bytes: int
    crc: int


@dataclass(frozen=True, slots=True)
class LateFile:
    """A file of late rows of a table: its columns that the plan reads, ``__version``, ``__weight``."""

    table: str
    file: ChangeFile


@dataclass(frozen=True, slots=True)
class OperatorState:
    """Live runs of one operator, newest first for every key: the group tree, the pending tree, the ordered trees.

    Attributes:
        closed: runs of the groups that are finished: what the view shows of them, and nothing that could change it.
    """

    group: tuple[RunFile, ...] = ()
    pending: tuple[RunFile, ...] = ()
    trees: tuple[tuple[RunFile, ...], ...] = ()
    closed: tuple[RunFile, ...] = ()

    @property
    def runs(self) -> tuple[RunFile, ...]:
        """All runs of all trees."""
        return (
            *self.group,
            *self.pending,
            *(run for tree in self.trees for run in tree),
            *self.closed,
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed version.

    Attributes:
        version: 0, 1, 2, ...; publishing version N is the commit of N.
        plan: fingerprint of the plan.
        query: id of the streaming query that made it, None for the first version.
        batch: id of its micro-batch, -1 for the first version.
        operators: state by operator id.
        changes: change files of this version.
        counters: rows in, groups touched, changes out, and ``quarantined``, the rows that wait for their insertion.
        created: time of the commit, ISO 8601 UTC.
        watermark: no row with an earlier event time is expected, in microseconds since 1970; None: nothing is known.
        sources: how far each source with a watermark is, in the order of the plan document.
        idle: groups whose newest event time is not after this have been forgotten; None: none have.
        late: files of the rows that were late in this version, where they are kept.
        attempt: what only this attempt to commit the version has; empty before that.
    """

    version: int
    plan: str
    query: str | None
    batch: int
    operators: tuple[OperatorState, ...]
    changes: tuple[ChangeFile, ...]
    counters: Mapping[str, int] = field(default_factory=dict)
    created: str = ""
    watermark: int | None = None
    sources: tuple[SourceTime, ...] = ()
    idle: int | None = None
    late: tuple[LateFile, ...] = ()
    attempt: str = ""

    def to_bytes(self) -> bytes:
        """JSON with a checksum over its content."""
        body = {"format": FORMAT, **asdict(self)}
        return _dump({**body, "crc": _crc(body)})


def snapshot_name(version: int) -> str:
    """File name of a version; names sort as versions do."""
    return f"{version:020d}.json"


def parse_snapshot(content: bytes, name: str) -> Snapshot:
    """The snapshot in `content`.

    Raises:
        StateRefused: STATE_DAMAGED or STATE_FORMAT_UNKNOWN.
    """
    try:
        body = json.loads(content)
        crc = body.pop("crc")
        whole, format_ = crc == _crc(body), body.pop("format")
        # How a newer format is checksummed is not known here.
        other = format_ > FORMAT or (whole and format_ != FORMAT)
        snapshot = _from_body(body) if whole and not other else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(name, str(error)) from error
    if other:
        raise _unknown_format(name)
    if snapshot is None:
        raise damaged(name, "its checksum does not match its content")
    return snapshot


def _from_body(body: dict[str, Any]) -> Snapshot:
    operators = tuple(
        OperatorState(
            _runs(operator["group"]),
            _runs(operator["pending"]),
            tuple(_runs(tree) for tree in operator["trees"]),
            _runs(operator["closed"]),
        )
        for operator in body["operators"]
    )
    changes = tuple(ChangeFile(**change) for change in body["changes"])
    sources = tuple(_source(source) for source in body["sources"])
    late = tuple(LateFile(str(f["table"]), ChangeFile(**f["file"])) for f in body["late"])
    made = replace(Snapshot(**body), operators=operators, changes=changes)
    return replace(made, sources=sources, late=late)


def _source(body: dict[str, Any]) -> SourceTime:
    partitions = tuple(PartitionTime(**p) for p in body["partitions"])
    return replace(SourceTime(**body), latest=tuple(body["latest"]), partitions=partitions)


def _runs(listed: list[dict[str, Any]]) -> tuple[RunFile, ...]:
    return tuple(RunFile(**run) for run in listed)


def damaged(name: str, reason: str) -> StateRefused:
    """The error for a checkpoint document that is not what was written."""
    return StateRefused(
        "STATE_DAMAGED",
        f"checkpoint file {name} is damaged: {reason}",
        help="restore the checkpoint folder from a copy, or start again with a new --checkpoint",
        path=name,
    )


def _unknown_format(name: str) -> StateRefused:
    return StateRefused(
        "STATE_FORMAT_UNKNOWN",
        f"checkpoint file {name} was written by a release with another format",
        help="use that release, or start again with a new --checkpoint",
        path=name,
    )


def _crc(body: Mapping[str, Any]) -> int:
    return zlib.crc32(_dump(body))


def _dump(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
