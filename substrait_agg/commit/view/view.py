"""The checkpoint as a materialised view, read without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from substrait_agg.arguments import check_types
from substrait_agg.commit.checksums.queries import checksum_query
from substrait_agg.commit.documents.change_metadata import ChangesOrigin
from substrait_agg.commit.documents.plan_document import ViewSchema, ViewSort
from substrait_agg.commit.documents.snapshot import ChangeFile, OperatorState, Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.view.change_files import ChangeScan, name_columns, read_change_file
from substrait_agg.commit.view.quarantine import side_by_side, waiting_rows
from substrait_agg.commit.view.row_order import hash_ranges, sort_rows
from substrait_agg.commit.view.scan import ViewScan, view_tree
from substrait_agg.commit.view.schema import (
    BAD_ROWS,
    PlanChange,
    decode_schema,
    named_view,
    ordinals_of,
    view_name,
    with_versions,
    with_view_types,
)
from substrait_agg.errors import StateRefused, UsageError
from substrait_agg.files.locations import Location
from substrait_agg.operator.common.names import CLOSED, GROUP, VERSION, WEIGHT
from substrait_agg.optional_packages import require
from substrait_agg.state.keys.row_sizes import repeat
from substrait_agg.state.run import RunFile

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset
    from pyspark.sql import DataFrame, SparkSession


def open_view(folder: str | Location, name: str | None = None) -> View:
    """Open a view in a checkpoint folder.

    Args:
        folder: the checkpoint.
        name: name of the view; None for the only one.

    Raises:
        StateRefused: NOT_A_CHECKPOINT, STATE_DAMAGED.
        UsageError: VIEW_UNKNOWN, VIEW_NAME_MISSING.
    """
    return View(Checkpoint(folder), name)


class View:
    """Read access to a view in a checkpoint. It shows committed versions only.

    Args:
        checkpoint: the checkpoint.
        name: name of the view; None for the only one.

    Raises:
        UsageError: VIEW_UNKNOWN, VIEW_NAME_MISSING.
    """

    def __init__(self, checkpoint: Checkpoint, name: str | None = None) -> None:
        self._checkpoint = checkpoint
        self._document = checkpoint.document()
        self.name = view_name(self._document, name)
        self._known: dict[str, tuple[ViewSchema, pa.Schema]] = {}
        self._schema = self._of(None)[1]

    def _of(self, snapshot: Snapshot | None) -> tuple[ViewSchema, pa.Schema]:
        """Return the view in the plan of a version, and its columns.

        Without a version, return those of the current plan.
        """
        plan = self._document.plan if snapshot is None else snapshot.plan
        if plan not in self._known:
            document = self._document
            if plan != document.plan:
                document = self._checkpoint.document_of(plan)
            view = named_view(document, self.name)
            self._known[plan] = view, decode_schema(view.types)
        return self._known[plan]

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the view's columns in the current plan."""
        return self._schema

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the view's columns."""
        return tuple(self._schema.names)

    @property
    def sorts(self) -> tuple[ViewSort, ...]:
        """Sort order of the view; empty if the plan has none."""
        return self._of(None)[0].sorts

    @property
    def key_columns(self) -> tuple[int, ...] | None:
        """Ordinals of the columns that identify a group; None if the view does not have all of them."""
        return self._of(None)[0].key_places

    @property
    def version(self) -> int:
        """The newest version, -1 before the first commit."""
        newest = self._checkpoint.newest_snapshot()
        return -1 if newest is None else newest.version

    def versions(self) -> list[int]:
        """Return all committed versions, ascending. Only the newest ones keep their state."""
        return self._checkpoint.check_versions()

    @check_types
    def attempt(self, version: int) -> str | None:
        """Return the id of the attempt that committed a version; None if there is no such version.

        A version that is committed again after a rollback has another id.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        exists = version in self.versions()
        return self._checkpoint.snapshot(version).attempt if exists else None

    @check_types
    def checksum(self, version: int | None = None) -> int | None:
        """Return the checksum of the rows of a version (the newest when None); None if there is none.

        Raises:
            StateRefused: VERSION_UNKNOWN, STATE_DAMAGED.
        """
        newest = self._checkpoint.newest_snapshot
        snapshot = newest() if version is None else self._checkpoint.snapshot(version)
        return None if snapshot is None else snapshot.of_view(self.name).checksum

    @check_types
    def checksum_query(self, engine: str, table: str) -> str:
        """Return the SQL query by which ``duckdb`` or ``spark`` computes the checksum of the rows in a table.

        Raises:
            UsageError: OPTION_INVALID for another engine, or a column that it has no type for.
        """
        return checksum_query(self.schema, engine, table)

    @check_types
    def to_arrow(self, version: int | None = None) -> pa.Table:
        """Return the rows of a version (the newest when None), in the sort order of the plan.

        Raises:
            StateRefused: VERSION_UNKNOWN, VERSION_EXPIRED, STATE_DAMAGED.
        """
        snapshot = self._snapshot(version)
        if snapshot is None:
            return self._schema.empty_table()
        try:
            return self._rows_at(snapshot)
        except StateRefused:
            # A concurrent run may have swept the version in the meantime.
            self.check_retained(snapshot.version)
            raise

    @check_types
    def head(self, rows: int, version: int | None = None) -> pa.Table:
        """Return the first rows of `to_arrow`.

        Without a sort order, it reads no more of the version than it needs; else it reads all rows, and keeps the
        first ones in memory.

        Args:
            rows: the most rows to return.
            version: the version; None means the newest.

        Raises:
            UsageError: OPTION_INVALID for a negative number of rows.
            StateRefused: VERSION_UNKNOWN, VERSION_EXPIRED, STATE_DAMAGED.
        """
        if rows < 0:
            help = "give the most rows to return"
            raise UsageError(
                "OPTION_INVALID", f"{rows} is not a number of rows", help=help, path="rows"
            )
        snapshot = self._snapshot(version)
        if snapshot is None:
            return self._schema.empty_table()
        view, schema = self._of(snapshot)
        first: pa.Table | None = None
        try:
            for part in self._parts(snapshot, None if view.sorts else rows):
                both = part if first is None else pa.concat_tables([first, part])
                first = sort_rows(both, view.sorts).slice(0, rows)
                if first.num_rows == rows and not view.sorts:
                    break
        except StateRefused:
            # A concurrent run may have swept the version in the meantime.
            self.check_retained(snapshot.version)
            raise
        empty = schema.empty_table()
        return empty if first is None else first.select(range(len(view.columns)))

    @check_types
    def scan(self, version: int | None = None, columns: Sequence[str] | None = None) -> ViewScan:
        """Return a description of where the rows of a version are, to read them in parts.

        Args:
            version: the version; None means the newest.
            columns: names of the columns to read; None means all.

        Raises:
            UsageError: OPTION_INVALID for a column that the view does not have.
            StateRefused: VERSION_UNKNOWN, VERSION_EXPIRED, STATE_DAMAGED.
        """
        snapshot = self._snapshot(version)
        view, schema = self._of(snapshot)
        state = OperatorState() if snapshot is None else snapshot.operators[view.operator]
        trees = tuple(state[tree] for tree in (GROUP, CLOSED))
        number = -1 if snapshot is None else snapshot.version
        folder = self._checkpoint.state.root
        columns_of_runs = tuple(column.source for column in view.columns)
        whole = ViewScan(folder, number, columns_of_runs, schema, view.keys, trees)
        return whole if columns is None else whole.select(ordinals_of(schema, columns))

    @check_types
    def to_reader(
        self, version: int | None = None, columns: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """Return a reader of the rows of a version, which reads them while it is consumed.

        The rows come in no order, also if the plan sorts them. Batches refer to memory-mapped files
        where all rows of a page are in the view; other rows are copied.

        Args:
            version: the version; None means the newest.
            columns: names of the columns to read; None means all.

        Raises:
            UsageError: OPTION_INVALID for a column that the view does not have.
            StateRefused: VERSION_UNKNOWN, VERSION_EXPIRED, STATE_DAMAGED.
        """
        scan = self.scan(version, columns)
        return pa.RecordBatchReader.from_batches(scan.schema, self._batches(scan))

    def _batches(self, scan: ViewScan) -> Iterator[pa.RecordBatch]:
        try:
            yield from scan.batches(self._checkpoint.state)
        except StateRefused:
            # A concurrent run may have swept the version in the meantime.
            self.check_retained(scan.version)
            raise

    @check_types
    def to_ibis(self, version: int | None = None) -> Any:
        """Return the rows of a version as a table of ibis, in memory.

        Args:
            version: the version; None means the newest.

        Raises:
            UsageError: IBIS_MISSING.
            StateRefused: VERSION_UNKNOWN, VERSION_EXPIRED, STATE_DAMAGED.
        """
        require("ibis")
        import ibis

        return ibis.memtable(self.to_arrow(version))

    @check_types
    def to_dataset(self, version: int | None = None) -> Dataset:
        """Return the rows of a version as a `pyarrow.dataset.Dataset`.

        DuckDB and Polars pass filters and columns to it. Its rows are those of `to_reader`.

        Args:
            version: the version; None means the newest.

        Raises:
            StateRefused: VERSION_UNKNOWN, VERSION_EXPIRED, STATE_DAMAGED.
        """
        from pyarrow.dataset import InMemoryDataset

        reader = self.to_reader(version)
        return InMemoryDataset(list(reader), schema=reader.schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the newest rows as a stream of the Arrow PyCapsule interface, as `to_reader`."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _rows_at(self, snapshot: Snapshot) -> pa.Table:
        view, schema = self._of(snapshot)
        rows = list(self._parts(snapshot, None))
        if not rows:
            return schema.empty_table()
        in_order = sort_rows(pa.concat_tables(rows), view.sorts)
        return in_order.select(range(len(view.columns)))

    def _parts(self, snapshot: Snapshot, rows: int | None) -> Iterator[pa.Table]:
        """Yield the rows of a version, with the hidden columns, before they are sorted.

        The caller stops after `rows` of them; None means after all.
        """
        view, schema = self._of(snapshot)
        state = snapshot.operators[view.operator]
        for files in (state[GROUP], state[CLOSED]):
            for part in self._rows(files, view, rows):
                yield from _iter_shown(part, view, schema)

    def _rows(
        self, files: Sequence[RunFile], view: ViewSchema, rows: int | None
    ) -> Iterator[pa.Table]:
        if files:
            columns = [*(column.source for column in view.columns), *view.hidden]
            tree = view_tree(self._checkpoint.state, tuple(files), view.keys, columns)
            for low, high in hash_ranges(files, rows):
                yield from tree.scan(low, high)

    def _snapshot(self, version: int | None) -> Snapshot | None:
        if version is None:
            return self._checkpoint.newest_snapshot()
        snapshot = self._checkpoint.snapshot(version)
        self.check_retained(version)
        return snapshot

    @check_types
    def check_retained(self, version: int) -> None:
        """Refuse a version whose state is no longer kept.

        Raises:
            StateRefused: VERSION_EXPIRED.
        """
        help = "add up the changes of the versions up to it instead; run --keep-versions keeps more versions"
        self._checkpoint.check_kept(version, help)

    @check_types
    def changes(self, since: int | None = None, until: int | None = None) -> pa.Table:
        """Return the changes of the versions after `since` up to `until` (all when None).

        Without `since`, they begin with the first version of the plan of the last version. That is
        version 0, or the version in which `run --evolve` replaced the plan. The changes of such a
        version insert the whole view.

        Returns:
            The view's columns, ``__version`` and ``__weight`` (int64), in order of version,
                retractions first. The metadata of the schema has the key columns of a row
                (`commit.documents.change_metadata`).

        Raises:
            StateRefused: VERSION_UNKNOWN, CHANGES_EXPIRED, CHANGES_OF_TWO_PLANS, STATE_DAMAGED.
        """
        snapshots = self._versions_between(since, until)
        return self._changes(snapshots)

    @check_types
    def scan_changes(self, since: int | None = None, until: int | None = None) -> ChangeScan:
        """Return a description of where the changes are, to read them in parts.

        Arguments and errors are those of `changes`.
        """
        snapshots = self._versions_between(since, until)
        schema = with_versions(self._of(snapshots[-1] if snapshots else None)[1])
        files, positions = self._files(snapshots), self._positions(snapshots)
        return ChangeScan(self._checkpoint.changes.root, schema, files, positions)

    def _files(self, snapshots: Iterable[Snapshot]) -> tuple[ChangeFile, ...]:
        return tuple(file for s in snapshots for file in s.of_view(self.name).changes)

    def _positions(self, snapshots: Iterable[Snapshot]) -> dict[str, tuple[int, ...]]:
        """Return, by name, where change files that have more columns have those of the view."""
        by_snapshot = ((s, self._of(s)[0].positions) for s in snapshots)
        return {
            file.name: positions
            for snapshot, positions in by_snapshot
            if positions
            for file in snapshot.of_view(self.name).changes
        }

    def _versions_between(self, since: int | None, until: int | None) -> list[Snapshot]:
        versions = self.versions()
        if since is not None:
            self._check_changes(versions, since)
        for bound in (since, until):
            if bound is not None and bound not in versions and bound != _before(versions):
                self._checkpoint.snapshot(bound)
        between = [
            v for v in versions if (since is None or v > since) and (until is None or v <= until)
        ]
        newest = self._checkpoint.snapshot(between[-1]) if between else None
        begun = 0 if newest is None else newest.of_view(self.name).begun
        self._check_plan(begun, since)
        if since is None:
            self._check_changes(versions, begun - 1 if begun else None)
        return self._snapshots(max(begun, between[0]), between[-1]) if between else []

    def _snapshots(self, first: int, last: int) -> list[Snapshot]:
        return [self._checkpoint.snapshot(version) for version in range(first, last + 1)]

    @check_types
    def between(self, first: int, last: int) -> pa.Table:
        """Return the changes of the versions from `first` to `last`, as `changes`.

        All these versions must exist and have one plan.

        Raises:
            StateRefused: VERSION_UNKNOWN, STATE_DAMAGED.
        """
        return self._changes(self._snapshots(first, last))

    def evolutions(self) -> list[PlanChange]:
        """Return the existing versions that began with another plan, ascending.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        versions, newest, changes = set(self.versions()), self._checkpoint.newest_snapshot(), []
        while (
            newest is not None and (begun := newest.of_view(self.name).begun) in versions and begun
        ):
            first = self._checkpoint.snapshot(begun)
            before, now = (self._checkpoint.document_of(p) for p in (first.plan_before, first.plan))
            if before.view_schema(self.name) is None:
                break  # the view itself began with this version
            changes.append(PlanChange.of(first.version, before, now, self.name))
            earlier = first.version - 1
            newest = self._checkpoint.snapshot(earlier) if earlier in versions else None
        return changes[::-1]

    @check_types
    def retractions(self, version: int) -> pa.Table | None:
        """Return the retractions of the rows that the view had before another plan began.

        Returns:
            As `changes`, with the columns of the preceding plan. None if no other plan began with
                the version.

        Raises:
            StateRefused: VERSION_UNKNOWN, STATE_DAMAGED.
        """
        snapshot = self._checkpoint.snapshot(version)
        own = snapshot.of_view(self.name)
        before = self._checkpoint.document_of(snapshot.plan_before or snapshot.plan)
        if own.begun != version or not version or before.view_schema(self.name) is None:
            return None
        earlier = replace(snapshot, plan=snapshot.plan_before)
        return self._changes([earlier], own.retractions)

    def _changes(
        self, snapshots: list[Snapshot], files: Sequence[ChangeFile] | None = None
    ) -> pa.Table:
        """Read the change files of snapshots, or files with the columns of the view."""
        view, columns = self._of(snapshots[-1] if snapshots else None)
        schema = with_versions(columns)
        places = {} if files is not None else self._positions(snapshots)
        if files is None:
            files = self._files(snapshots)
        parts = [name_columns(self._read(f), schema, f, places.get(f.name, ())) for f in files]
        table = pa.concat_tables([schema.empty_table(), *parts])
        later = np.lexsort([table.column(WEIGHT).to_numpy() > 0, table.column(VERSION).to_numpy()])
        plan = snapshots[-1].plan if snapshots else self._document.plan
        origin = _origin(view, plan, snapshots)
        return table.take(pa.array(later)).replace_schema_metadata(origin)

    def _check_plan(self, begun: int, since: int | None) -> None:
        """Refuse changes of two plans: their columns and their sums differ."""
        if since is None or since >= begun or not begun:
            return
        raise StateRefused(
            "CHANGES_OF_TWO_PLANS",
            (
                f"version {begun} is the first version of another plan, so the changes after version {since} belong to "
                "two plans"
            ),
            help=f"read up to version {begun - 1} for the changes of the old plan; without --since, the changes "
            f"start with version {begun}, which inserts the whole view",
            path=str(self._checkpoint.folder),
        )

    def _check_changes(self, versions: list[int], since: int | None) -> None:
        """Refuse changes that begin after vacuumed ones: they do not add up to the view."""
        first = versions[0] if versions else 0
        if first == 0 or (since is not None and since >= first - 1):
            return
        raise StateRefused(
            "CHANGES_EXPIRED",
            f"the changes of versions before {first} are no longer kept",
            help=f"read the changes after version {first - 1}, or later; the view is complete",
            path=str(self._checkpoint.folder),
        )

    @check_types
    def late(self, since: int | None = None, until: int | None = None) -> dict[str, pa.Table]:
        """Return the late rows of the versions after `since` up to `until` (all when None).

        Only runs that keep late rows write them.

        Returns:
            By table the columns that the plan reads of it, ``__version`` (the one that left the row
                out) and ``__weight`` (int64). A row that was late for several aggregates is there
                once for each.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        tables: dict[str, list[pa.Table]] = {}
        for version in self.versions():
            if (since is None or version > since) and (until is None or version <= until):
                for late in self._checkpoint.snapshot(version).late:
                    tables.setdefault(late.table, []).append(self._read(late.file))
        return {
            table: pa.concat_tables(parts, promote_options="default")
            for table, parts in tables.items()
        }

    @check_types
    def bad_rows(self, since: int | None = None, until: int | None = None) -> pa.Table:
        """Return the bad rows of the versions after `since` up to `until` (all when None).

        Sources with ``bad-rows=quarantine`` set them aside.

        Returns:
            By version, source, file and position: ``source`` (the table), ``file`` and ``position``
                (null where they are unknown), ``code`` and ``reason`` of the fault, ``row`` (the
                row as text) and ``__version``. Each row is there once.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        parts = [
            self._read(bad.file).cast(BAD_ROWS)
            for version in self.versions()
            if (since is None or version > since) and (until is None or version <= until)
            for bad in self._checkpoint.snapshot(version).bad
        ]
        keys = [(name, "ascending") for name in (VERSION, "source", "file", "position", "row")]
        return pa.concat_tables([BAD_ROWS.empty_table(), *parts]).sort_by(keys)

    @check_types
    def quarantined(self, version: int | None = None) -> pa.Table:
        """Return the rows that wait for their insertion at a version (the newest when None).

        Returns:
            Per row what the plan reads of it: the keys of its group, the arguments of the measures,
                and ``__weight``, below zero. With grouping sets a row is there once per set. If
                several aggregates read tables, ``__operator`` comes first, and the names of the
                columns begin with the number of their operator and a point.

        Raises:
            StateRefused: NOT_QUARANTINED, VERSION_UNKNOWN, VERSION_EXPIRED, STATE_DAMAGED.
        """
        snapshot = self._snapshot(version)
        plan = self._document.plan if snapshot is None else snapshot.plan
        guarded = self._checkpoint.document_of(plan).guarded
        if not guarded:
            raise StateRefused(
                "NOT_QUARANTINED",
                "this checkpoint has no quarantine",
                help="a quarantine needs --early-retraction quarantine and a source with retractions",
                path=str(self._checkpoint.folder),
            )
        tables = {}
        for guard in guarded:
            state = OperatorState() if snapshot is None else snapshot.operators[guard.operator]
            schema = decode_schema(guard.types)
            rows = waiting_rows(self._checkpoint.state, guard, schema, state)
            tables[guard.operator] = rows
        return side_by_side(tables)

    def _read(self, change: ChangeFile) -> pa.Table:
        return read_change_file(self._checkpoint.changes, change)

    @check_types
    def to_spark(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        """Return the rows of a version as a DataFrame."""
        return spark.createDataFrame(self.to_arrow(version))


def _before(versions: list[int]) -> int:
    """Return the version before the first known one; -1 if there is none."""
    return versions[0] - 1 if versions else -1


def _iter_shown(rows: pa.Table, view: ViewSchema, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of a view with its columns, then the hidden ones."""
    sources = [column.source for column in view.columns]
    for batch in rows.select(dict.fromkeys(["shown", *sources, *view.hidden])).to_batches():
        for part in repeat(batch, np.maximum(batch.column(0).to_numpy(), 0)):
            columns = with_view_types([part.column(source) for source in sources], schema)
            hidden = [part.column(source) for source in view.hidden]
            types = [pa.field(name, c.type) for name, c in zip(view.hidden, hidden, strict=True)]
            yield pa.Table.from_arrays([*columns, *hidden], schema=pa.schema([*schema, *types]))


def _origin(view: ViewSchema, plan: str, snapshots: list[Snapshot]) -> dict[bytes, bytes]:
    committed = {s.version: s.created for s in snapshots}
    return ChangesOrigin(view.key_places, plan, committed, view.repeats).metadata()
