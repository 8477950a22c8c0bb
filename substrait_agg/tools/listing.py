"""List the contents of a checkpoint: its versions, and the trees of the newest version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from substrait_agg.commit.documents.file_names import version_of
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.plan_document import PlanDocument
from substrait_agg.commit.documents.positions import Positions
from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.locking import is_in_use
from substrait_agg.state.run import RunFile
from substrait_agg.tools.checks.trees import TreeRuns, all_trees, describe_tree, shape_of


@dataclass(frozen=True, slots=True)
class VersionLine:
    """A version.

    Attributes:
        created: time of the commit, ISO 8601 UTC.
        files: number of files that have been read up to it.
        rows_in: input rows of its batch, over all operators that read tables.
        groups: number of groups that it touched.
        changes: rows of its change files.
        late: number of late rows that it left out.
        bad: number of rows that it set aside because they could not be read or broke a rule of the
            plan.
        watermark: microseconds since 1970, None for none.
        kept: whether its state is kept.
        written: bytes of the files written for it that still exist.
        bytes: bytes of all files that it names: its changes, and its state if that is kept.
        checksums: of the rows of each view by its name, as decimal numbers; empty if the run did not
            compute them.
    """

    version: int
    created: str
    files: int
    rows_in: int
    groups: int
    changes: int
    late: int
    bad: int
    watermark: int | None
    kept: bool
    written: int
    bytes: int
    checksums: dict[str, str]


@dataclass(frozen=True, slots=True)
class RangeLine:
    """A live range of a run.

    Attributes:
        low: least live hash (16 hexadecimal digits).
        high: greatest live hash (16 hexadecimal digits).
        rows: rows of the whole file.
    """

    file: str
    low: str
    high: str
    rows: int


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A tree of the newest version.

    Attributes:
        operator: ordinal.
        kind: kind of the operator.
        what: description of its content.
        rows: rows in them, including those of older files that merges have replaced in part.
        bytes: bytes of the files.
        runs: greatest number of runs that a lookup reads.
        ranges: the runs, newest first, with the hashes for which they are live.
    """

    operator: int
    kind: str
    tree: str
    what: str
    files: int
    rows: int
    bytes: int
    runs: int
    ranges: tuple[RangeLine, ...]


@dataclass(frozen=True, slots=True)
class ViewLine:
    """A view of the newest version.

    Attributes:
        name: its name; empty for the only view of a run of one plan.
        operator: ordinal of the operator that has its rows.
    """

    name: str
    operator: int
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PositionLine:
    """How far the newest version has read a source.

    Attributes:
        source: a table of files, the group of a connector, or the streams of Spark.
        position: the position, for people.
    """

    source: str
    position: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The result of `ls`.

    Attributes:
        checkpoint: the folder.
        plan: fingerprint.
        in_use: whether a run, or a tool that changes the checkpoint, is active.
        partitions: set for the next runs, None for one per core.
        state_from: the first version whose state is kept.
        changes_from: the first version whose changes are kept.
        files: number of files by folder.
        bytes: bytes of the files by folder.
        total: number of versions.
        versions: the newest ones, ascending.
        trees: of the newest version.
        views: of the newest version.
        positions: of the newest version.
    """

    checkpoint: str
    plan: str
    in_use: bool
    partitions: int | None
    state_from: int
    changes_from: int
    files: dict[str, int]
    bytes: dict[str, int]
    total: int
    versions: tuple[VersionLine, ...]
    trees: tuple[TreeLine, ...]
    views: tuple[ViewLine, ...]
    positions: tuple[PositionLine, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the listing as JSON values."""
        return asdict(self)


def listing(checkpoint: Checkpoint, limit: int | None) -> Listing:
    """List a checkpoint.

    Args:
        checkpoint: the folder.
        limit: number of the newest versions to list; None for all.

    Raises:
        StateRefused: NOT_A_CHECKPOINT, STATE_DAMAGED.
    """
    document, retention = checkpoint.document(), checkpoint.retention_state()
    versions = checkpoint.check_versions()
    snapshots = [checkpoint.snapshot(v) for v in (versions if limit is None else versions[-limit:])]
    sizes = {
        "state": _sizes(checkpoint.state),
        "changes": _sizes(checkpoint.changes),
        "snapshots": _sizes(checkpoint.snapshots),
    }
    written: Counter[int] = Counter()
    for name, size in (*sizes["state"].items(), *sizes["changes"].items()):
        written[-1 if (of := version_of(name)) is None else of] += size
    trees = all_trees(snapshots[-1]) if snapshots else ()
    return Listing(
        checkpoint=str(checkpoint.folder),
        plan=document.plan,
        in_use=is_in_use(checkpoint.folder),
        partitions=checkpoint.settings().partitions,
        state_from=retention.state_from,
        changes_from=versions[0] if versions else 0,
        files={folder: len(found) for folder, found in sizes.items()},
        bytes={folder: sum(found.values()) for folder, found in sizes.items()},
        total=len(versions),
        versions=tuple(
            _version(s, written[s.version], has_state=s.version >= retention.state_from)
            for s in snapshots
        ),
        trees=tuple(_tree(tree, document) for tree in trees),
        views=tuple(
            ViewLine(view.name, view.operator, tuple(column.name for column in view.columns))
            for view in document.view_schemas
        ),
        positions=tuple(_positions(snapshots[-1].positions)) if snapshots else (),
    )


def _positions(positions: Positions) -> Iterator[PositionLine]:
    for table, position in positions.files.items():
        yield PositionLine(table, f"{position.count} files")
    yield from (PositionLine(group, text) for group, text in positions.connected.items())
    if positions.streams.tables:
        tables = ", ".join(positions.streams.tables)
        yield PositionLine(f"streams of Spark: {tables}", f"batch {positions.streams.batch}")


def _sizes(files: FolderFiles) -> dict[str, int]:
    sizes = {}
    for name in files.names():
        try:
            sizes[name] = files.size(name)
        except FileNotFoundError:  # deleted by a concurrent sweep
            continue
    return sizes


def _version(snapshot: Snapshot, written: int, *, has_state: bool) -> VersionLine:
    counters = snapshot.counters
    return VersionLine(
        version=snapshot.version,
        created=snapshot.created,
        files=sum(position.count for position in snapshot.positions.files.values()),
        rows_in=counters.get("input_rows", 0),
        groups=counters.get("touched", 0),
        changes=sum(change.rows for change in snapshot.view_changes),
        late=counters.get("late", 0),
        bad=counters.get("bad", 0),
        watermark=snapshot.watermark,
        kept=has_state,
        written=written,
        bytes=sum(c.bytes for c in snapshot.change_files)
        + (sum(f.bytes for f in snapshot.state_files) if has_state else 0),
        checksums={
            name: str(checksum)
            for name in snapshot.views or ("",)
            if (checksum := snapshot.of_view(name).checksum) is not None
        },
    )


def _tree(tree: TreeRuns, document: PlanDocument) -> TreeLine:
    shape = shape_of(document, tree.operator)
    files = {run.name: run for run in tree.runs}
    return TreeLine(
        operator=tree.operator,
        kind="operator" if shape is None else shape.kind,
        tree=tree.name,
        what=describe_tree(shape, tree.name),
        files=len(files),
        rows=sum(run.rows for run in files.values()),
        bytes=sum(run.bytes for run in files.values()),
        runs=deepest(tree.runs),
        ranges=tuple(
            RangeLine(run.name, f"{run.low:016x}", f"{run.high:016x}", run.rows)
            for run in tree.runs
        ),
    )


def deepest(runs: Iterable[RunFile]) -> int:
    """Return the greatest number of runs that are live for one hash."""
    steps: Counter[int] = Counter()
    for run in runs:
        steps[run.low] += 1
        steps[run.high + 1] -= 1
    most = here = 0
    for place in sorted(steps):
        here += steps[place]
        most = max(most, here)
    return most
