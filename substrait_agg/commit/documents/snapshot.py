"""The snapshot: an immutable JSON document that describes a version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from substrait_agg.commit.documents.envelope import (
    Opened,
    Sealed,
    refuse_damage,
    seal_document,
    unseal,
)
from substrait_agg.commit.documents.json_codec import build, encode
from substrait_agg.commit.documents.positions import FileList, Positions
from substrait_agg.commit.hash_ranges import clip, outside
from substrait_agg.document_fields import DOCUMENT_KEY, DOCUMENT_OMITTED
from substrait_agg.operator.common.watermarks import SourceTime
from substrait_agg.refresh.cost_model import BatchCost
from substrait_agg.state.run import RunFile

FORMAT = 1
PARSED_SNAPSHOTS = 4
"""Snapshots that stay parsed, by content: one version is read several times in a row."""


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A Parquet file of changes: output columns, ``__version``, ``__weight``."""

    name: str
    rows: int
    bytes: int
    crc: int


@dataclass(frozen=True, slots=True)
class SideFile:
    """A file of rows of a table that a version left out: late rows, or the records of bad rows."""

    table: str
    file: ChangeFile


@dataclass(frozen=True, slots=True)
class InputPlace:
    """The source of a table.

    Attributes:
        table: name of the table.
        place: format and location, without options and passwords.
        listing: of a static table of files, a checksum over their names, sizes and times.
        content: of a static table, a checksum over its files or rows.
    """

    table: str
    place: str
    listing: str = field(default="", metadata={DOCUMENT_OMITTED: True})
    content: str = field(default="", metadata={DOCUMENT_OMITTED: True})

    def same_content(self, other: InputPlace) -> bool:
        """Return whether a static table has the same rows as another time."""
        pairs = ((self.listing, other.listing), (self.content, other.content))
        return any(before and before == now for before, now in pairs)


Runs = tuple[RunFile, ...]


@dataclass(frozen=True, slots=True)
class OperatorState:
    """The state of an operator: the live runs of its trees by name, newest first for every key.

    Trees without runs are left out.
    """

    trees: Mapping[str, Runs] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not all(self.trees.values()):
            raise ValueError("a tree has no runs")

    @staticmethod
    def of(trees: Mapping[str, Runs]) -> OperatorState:
        """Return the state of trees of which some may have no runs."""
        return OperatorState({name: runs for name, runs in trees.items() if runs})

    def __getitem__(self, tree: str) -> Runs:
        """Return the runs of a tree. An unknown tree has none."""
        return self.trees.get(tree, ())

    @property
    def runs(self) -> Runs:
        """All runs of all trees."""
        return tuple(run for runs in self.trees.values() for run in runs)

    def within(self, low: int, high: int) -> OperatorState:
        """Return the state restricted to the hashes from `low` to `high`."""
        return OperatorState.of({name: clip(runs, low, high) for name, runs in self.trees.items()})

    def outside(self, ranges: Sequence[tuple[int, int]]) -> OperatorState:
        """Return the state restricted to the hashes outside all `ranges` ranges."""
        return OperatorState.of({name: outside(runs, ranges) for name, runs in self.trees.items()})

    @staticmethod
    def union(parts: Iterable[OperatorState]) -> OperatorState:
        """Return the trees of all parts, which cover different hash ranges, as one state."""
        trees: dict[str, Runs] = {}
        for part in parts:
            for name, runs in part.trees.items():
                trees[name] = (*trees.get(name, ()), *runs)
        return OperatorState(trees)


@dataclass(frozen=True, slots=True)
class ViewVersion:
    """The part of a version that belongs to one view.

    Attributes:
        changes: change files.
        begun: the version that began with the plan of the view; 0 for the first plan.
        retractions: if another plan of the view began with this version, files that retract all
            that it showed before, in the columns of the preceding plan; `changes` then insert the
            whole view.
        checksum: of all rows of the view (`commit.checksums`); None if the run did not compute it.
    """

    changes: tuple[ChangeFile, ...] = ()
    begun: int = 0
    retractions: tuple[ChangeFile, ...] = ()
    checksum: int | None = field(default=None, metadata={DOCUMENT_OMITTED: True})


@dataclass(frozen=True, slots=True)
class RefreshRecord:
    """How a version was computed, if a refresh policy chooses.

    Attributes:
        operators: the operators that were computed again.
        reason: why; empty if no policy chooses.
        costs: measured costs of past batches.
        incremental: estimated microseconds of an incremental batch; None without an estimate.
        full: the same, if operators are computed again.
    """

    operators: tuple[int, ...] = ()
    reason: str = ""
    costs: tuple[BatchCost, ...] = ()
    incremental: int | None = None
    full: int | None = None


@dataclass(frozen=True, slots=True)
class AdmissionRecord:
    """The limit of the batch that made a version, if the run has a target duration.

    Attributes:
        bytes: the limit; 0 without one.
        target: the target duration of the batch, in microseconds.
    """

    bytes: int = 0
    target: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A committed version.

    Attributes:
        version: 0, 1, 2, ...; publishing version N is the commit of N.
        plan: fingerprint of the plan.
        operators: state by operator id.
        changes: change files of this version.
        counters: rows in, groups touched, changes out, and ``quarantined``, the number of rows that
            wait for their insertion.
        created: time of the commit, ISO 8601 UTC.
        watermark: no row with an earlier event time is expected, in microseconds since 1970; None:
            there is no watermark yet.
        sources: progress of each source with a watermark, in the order of the plan document.
        idle: groups whose newest event time is not after this have been evicted; None: none have.
        late: files of the late rows of this version, if runs keep them.
        bad: files of the records of the bad rows of this version.
        inputs: the source of each table.
        positions: how far the sources have been read.
        begun: the version that began with its plan; 0 for the first plan.
        plan_before: if another plan began with this version, the fingerprint of the preceding plan.
        retractions: of the same version, files that retract all that the view showed before, in the
            columns of the preceding plan; `changes` then insert the whole view.
        attempt: id of the attempt to commit the version; empty before the commit.
        parent: checksum of the document of the preceding version; 0 for the first.
            `Checkpoint.publish` sets it.
        views: what the version has of each view, by name. Empty for a run of one plan: `changes`,
            `begun` and `retractions` then belong to its view. Otherwise `changes` and
            `retractions` are empty, and `begun` is that of the whole set of views.
        refresh: how the version was computed, if a refresh policy chooses.
        admission: the limit of its batch, or of the last one that had a limit.
        checksum: of all rows of the view of a run of one plan; None if the run did not compute it.
    """

    version: int
    plan: str
    operators: tuple[OperatorState, ...]
    changes: tuple[ChangeFile, ...]
    counters: Mapping[str, int] = field(default_factory=dict)
    created: str = ""
    watermark: int | None = None
    sources: tuple[SourceTime, ...] = ()
    idle: int | None = None
    late: tuple[SideFile, ...] = ()
    bad: tuple[SideFile, ...] = ()
    inputs: tuple[InputPlace, ...] = ()
    positions: Positions = field(default_factory=Positions)
    begun: int = 0
    plan_before: str = ""
    retractions: tuple[ChangeFile, ...] = field(default=(), metadata={DOCUMENT_KEY: "taken_back"})
    parent: int = 0
    attempt: str = ""
    views: Mapping[str, ViewVersion] = field(
        default_factory=dict, metadata={DOCUMENT_OMITTED: True}
    )
    refresh: RefreshRecord = field(default_factory=RefreshRecord, metadata={DOCUMENT_OMITTED: True})
    admission: AdmissionRecord = field(
        default_factory=AdmissionRecord, metadata={DOCUMENT_OMITTED: True}
    )
    checksum: int | None = field(default=None, metadata={DOCUMENT_OMITTED: True})

    def of_view(self, name: str) -> ViewVersion:
        """Return the part of the version for a view; an empty one for an unknown view."""
        if not name:
            return ViewVersion(self.changes, self.begun, self.retractions, self.checksum)
        return self.views.get(name, ViewVersion())

    @property
    def view_changes(self) -> tuple[ChangeFile, ...]:
        """The change files of all views, each once."""
        named = (file for view in self.views.values() for file in view.changes)
        return tuple(dict.fromkeys((*self.changes, *named)))

    @property
    def view_retractions(self) -> tuple[ChangeFile, ...]:
        """The files of all views that retract rows of a preceding plan, each once."""
        named = (file for view in self.views.values() for file in view.retractions)
        return tuple(dict.fromkeys((*self.retractions, *named)))

    @property
    def state_files(self) -> tuple[RunFile | FileList, ...]:
        """All files in the folder of state that this version names, each once."""
        files: list[RunFile | FileList] = [*self.positions.lists]
        files += (run for operator in self.operators for run in operator.runs)
        return tuple({file.name: file for file in files}.values())

    @property
    def change_files(self) -> tuple[ChangeFile, ...]:
        """All files in the folder of changes that this version names."""
        side_files = (side.file for side in (*self.late, *self.bad))
        return (*self.view_changes, *self.view_retractions, *side_files)

    def to_bytes(self, checkpoint: str = "") -> bytes:
        """Return the bytes of the snapshot as a sealed document."""
        return self.seal(checkpoint).content

    def seal(self, checkpoint: str) -> Sealed:
        """Return the snapshot as a sealed document."""
        return seal_document(encode(self), format=FORMAT, checkpoint=checkpoint)


@lru_cache(maxsize=PARSED_SNAPSHOTS)
def parse_snapshot(content: bytes, name: str, checkpoint: str | None = None) -> Snapshot:
    """Parse a snapshot.

    Args:
        content: the bytes of the file.
        name: of the file, for messages.
        checkpoint: id of the checkpoint that it must belong to; None for any.

    Raises:
        StateRefused: STATE_DAMAGED or STATE_FORMAT_UNKNOWN.
    """
    opened = unseal_snapshot(content, name, checkpoint)
    try:
        snapshot = build(Snapshot, opened.body)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise refuse_damage(name, f"it cannot be read ({error})") from error
    if not snapshot.operators:
        raise refuse_damage(name, "it has no operators")
    return snapshot


def unseal_snapshot(content: bytes, name: str, checkpoint: str | None = None) -> Opened:
    """Open the document of a version; otherwise as `parse_snapshot`."""
    return unseal(content, name, format=FORMAT, checkpoint=checkpoint)
