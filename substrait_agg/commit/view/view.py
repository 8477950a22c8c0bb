"""The checkpoint as a materialised view, read without Spark."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.commit.documents.change_metadata import ChangesOrigin
from substrait_agg.commit.documents.snapshot import ChangeFile, OperatorState, Snapshot, damaged
from substrait_agg.commit.log.checkpoint import Checkpoint, PlanDocument, ViewColumn, ViewSort
from substrait_agg.commit.view.change_files import ChangeScan, named, read_change_file
from substrait_agg.commit.view.quarantine import side_by_side, waiting_rows
from substrait_agg.commit.view.scan import ViewScan
from substrait_agg.errors import StateRefused, UsageError
from substrait_agg.files.locations import Location
from substrait_agg.operator.common.names import CLOSED, GROUP, VERSION, WEIGHT
from substrait_agg.state.keys.rows import nested_bytes
from substrait_agg.state.run import RunFile, open_run
from substrait_agg.state.tree import KeyedTree

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset
    from pyspark.sql import DataFrame, SparkSession

BAD_ROWS = pa.schema(
    [
        *(
            pa.field(name, pa.string())
            for name in ("source", "file", "position", "code", "reason", "row")
        ),
        pa.field(VERSION, pa.int64()),
    ]
)
"""Columns of the records of bad rows."""


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A version that began with another plan.

    Attributes:
        version: its number.
        same_columns: the view has the same columns as before.
        same_tables: the plan reads the same columns of the same tables.
    """

    version: int
    same_columns: bool
    same_tables: bool

    @staticmethod
    def of(version: int, before: PlanDocument, now: PlanDocument) -> PlanChange:
        """Compare the documents of both plans."""
        tables = (frozenset(document.inputs) for document in (before, now))
        return PlanChange(version, before.types == now.types, next(tables) == next(tables))


def open_view(folder: str | Location) -> View:
    """Open the view in a checkpoint folder.

    Raises:
        StateRefused: NOT_A_CHECKPOINT, STATE_DAMAGED.
    """
    return View(Checkpoint(folder))


class View:
    """Read access to the view in a checkpoint. It shows committed versions only."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._document = checkpoint.document()
        self._schema = _schema(self._document.types)
        self._known = {self._document.plan: (self._document, self._schema)}

    def _of(self, snapshot: Snapshot | None) -> tuple[PlanDocument, pa.Schema]:
        """Return the document of a version's plan, and the columns of its view.

        Without a version, return those of the current plan.
        """
        plan = self._document.plan if snapshot is None else snapshot.plan
        if plan not in self._known:
            document = self._checkpoint.document_of(plan)
            self._known[plan] = document, _schema(document.types)
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
        return self._document.sorts

    @property
    def version(self) -> int:
        """The newest version, -1 before the first commit."""
        newest = self._checkpoint.newest_snapshot()
        return -1 if newest is None else newest.version

    def versions(self) -> list[int]:
        """Return all committed versions, ascending. Only the newest ones keep their state."""
        return self._checkpoint.check_versions()

    def attempt(self, version: int) -> str | None:
        """Return the id of the attempt that committed a version; None if there is no such version.

        A version that is committed again after a rollback has another id.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        found = version in self.versions()
        return self._checkpoint.snapshot(version).attempt if found else None

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
        document, schema = self._of(snapshot)
        state = OperatorState() if snapshot is None else snapshot.operators[-1]
        trees = tuple(state[tree] for tree in (GROUP, CLOSED))
        number = -1 if snapshot is None else snapshot.version
        folder = self._checkpoint.state.root
        columns_of_runs = tuple(column.source for column in document.columns)
        whole = ViewScan(folder, number, columns_of_runs, schema, document.keys, trees)
        return whole if columns is None else whole.select(_ordinals(schema, columns))

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
        state = snapshot.operators[-1]
        document, schema = self._of(snapshot)
        rows = [
            _shown(part, document.columns, schema)
            for files in (state[GROUP], state[CLOSED])
            for part in self._rows(files, document)
        ]
        return ordered(pa.concat_tables([schema.empty_table(), *rows]), document.sorts)

    def _rows(self, files: Sequence[RunFile], document: PlanDocument) -> Iterator[pa.Table]:
        if not files:
            return
        schema = open_run(self._checkpoint.state, files[0]).schema
        read = {"hash", "shown", *(f"k{i}" for i in range(document.keys))}
        if not read | {c.source for c in document.columns} <= set(schema.names):
            raise damaged(f"state/{files[0].name}", "it does not have the columns of the view")
        yield from KeyedTree(self._checkpoint.state, files, schema, document.keys).scan()

    def _snapshot(self, version: int | None) -> Snapshot | None:
        if version is None:
            return self._checkpoint.newest_snapshot()
        snapshot = self._checkpoint.snapshot(version)
        self.check_retained(version)
        return snapshot

    def check_retained(self, version: int) -> None:
        """Refuse a version whose state is no longer kept.

        Raises:
            StateRefused: VERSION_EXPIRED.
        """
        first = self._checkpoint.retention_state().state_from
        if version >= first:
            return
        raise StateRefused(
            "VERSION_EXPIRED",
            f"the state of version {version} is no longer kept (the oldest version with state is {first})",
            help="add up the changes of the versions up to it instead; run --keep-versions keeps more versions",
            path=str(self._checkpoint.folder),
        )

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
        return self._changes(snapshots, (file for s in snapshots for file in s.changes))

    def scan_changes(self, since: int | None = None, until: int | None = None) -> ChangeScan:
        """Return a description of where the changes are, to read them in parts.

        Arguments and errors are those of `changes`.
        """
        snapshots = self._versions_between(since, until)
        schema = _with_versions(self._of(snapshots[-1] if snapshots else None)[1])
        files = tuple(file for snapshot in snapshots for file in snapshot.changes)
        return ChangeScan(self._checkpoint.changes.root, schema, files)

    def _versions_between(self, since: int | None, until: int | None) -> list[Snapshot]:
        known = self.versions()
        if since is not None:
            self._check_changes(known, since)
        for wanted in (since, until):
            if wanted is not None and wanted not in known and wanted != _before(known):
                self._checkpoint.snapshot(wanted)
        chosen = [
            v for v in known if (since is None or v > since) and (until is None or v <= until)
        ]
        newest = self._checkpoint.snapshot(chosen[-1]) if chosen else None
        begun = 0 if newest is None else newest.begun
        self._check_plan(begun, since)
        if since is None:
            self._check_changes(known, begun - 1 if begun else None)
        return self._snapshots(max(begun, chosen[0]), chosen[-1]) if chosen else []

    def _snapshots(self, first: int, last: int) -> list[Snapshot]:
        return [self._checkpoint.snapshot(version) for version in range(first, last + 1)]

    def between(self, first: int, last: int) -> pa.Table:
        """Return the changes of the versions from `first` to `last`, as `changes`.

        All these versions must exist and have one plan.

        Raises:
            StateRefused: VERSION_UNKNOWN, STATE_DAMAGED.
        """
        snapshots = self._snapshots(first, last)
        return self._changes(snapshots, (file for s in snapshots for file in s.changes))

    def evolutions(self) -> list[PlanChange]:
        """Return the existing versions that began with another plan, ascending.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        known, newest, found = set(self.versions()), self._checkpoint.newest_snapshot(), []
        while newest is not None and newest.begun and newest.begun in known:
            first = self._checkpoint.snapshot(newest.begun)
            before, now = (self._checkpoint.document_of(p) for p in (first.plan_before, first.plan))
            found.append(PlanChange.of(first.version, before, now))
            earlier = first.version - 1
            newest = self._checkpoint.snapshot(earlier) if earlier in known else None
        return found[::-1]

    def retractions(self, version: int) -> pa.Table | None:
        """Return the retractions of the rows that the view had before another plan began.

        Returns:
            As `changes`, with the columns of the preceding plan. None if no other plan began with
                the version.

        Raises:
            StateRefused: VERSION_UNKNOWN, STATE_DAMAGED.
        """
        snapshot = self._checkpoint.snapshot(version)
        if snapshot.begun != version or not version:
            return None
        told = replace(snapshot, plan=snapshot.plan_before)
        return self._changes([told], snapshot.retractions)

    def _changes(self, snapshots: list[Snapshot], files: Iterable[ChangeFile]) -> pa.Table:
        document, columns = self._of(snapshots[-1] if snapshots else None)
        schema = _with_versions(columns)
        parts = [named(self._read(file), schema, file) for file in files]
        table = pa.concat_tables([schema.empty_table(), *parts])
        later = np.lexsort([table.column(WEIGHT).to_numpy() > 0, table.column(VERSION).to_numpy()])
        origin = _origin(document, snapshots)
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

    def _check_changes(self, known: list[int], since: int | None) -> None:
        """Refuse changes that begin after vacuumed ones: they do not add up to the view."""
        first = known[0] if known else 0
        if first == 0 or (since is not None and since >= first - 1):
            return
        raise StateRefused(
            "CHANGES_EXPIRED",
            f"the changes of versions before {first} are no longer kept",
            help=f"read the changes after version {first - 1}, or later; the view is complete",
            path=str(self._checkpoint.folder),
        )

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
        guarded = self._of(snapshot)[0].guarded
        if not guarded:
            raise StateRefused(
                "NOT_QUARANTINED",
                "this checkpoint has no quarantine",
                help="a quarantine needs --early-retraction quarantine and a source with retractions",
                path=str(self._checkpoint.folder),
            )
        tables = {}
        for found in guarded:
            state = OperatorState() if snapshot is None else snapshot.operators[found.operator]
            schema = _schema(found.types)
            rows = waiting_rows(self._checkpoint.state, found, schema, state)
            tables[found.operator] = rows
        return side_by_side(tables)

    def _read(self, change: ChangeFile) -> pa.Table:
        return read_change_file(self._checkpoint.changes, change)

    def to_spark(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        """Return the rows of a version as a DataFrame."""
        return spark.createDataFrame(self.to_arrow(version))


def _ordinals(schema: pa.Schema, columns: Sequence[str]) -> list[int]:
    """Return the ordinals of columns.

    Raises:
        UsageError: OPTION_INVALID.
    """
    unknown = [name for name in columns if len(schema.get_all_field_indices(name)) != 1]
    if unknown:
        raise UsageError(
            "OPTION_INVALID",
            f"the view has no column {unknown[0]!r}, or several",
            help=f"its columns are {', '.join(schema.names)}",
            path="columns",
        )
    return [schema.get_field_index(name) for name in columns]


def _before(versions: list[int]) -> int:
    """Return the version before the first known one; -1 if there is none."""
    return versions[0] - 1 if versions else -1


def _schema(text: str) -> pa.Schema:
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    except (ValueError, pa.ArrowInvalid, OSError) as error:
        raise damaged("plan.json", str(error)) from error


def _shown(rows: pa.Table, wanted: Sequence[ViewColumn], schema: pa.Schema) -> pa.Table:
    weights = rows.column("shown").to_numpy()
    index = np.repeat(np.arange(len(weights)), np.maximum(weights, 0))
    columns = [rows.column(c.source).take(pa.array(index)) for c in wanted]
    return pa.Table.from_arrays(columns, schema=schema)


def _with_versions(columns: pa.Schema) -> pa.Schema:
    """Return the columns of changes."""
    extra = [pa.field(VERSION, pa.int64()), pa.field(WEIGHT, pa.int64())]
    return pa.schema([*columns, *extra])


def _origin(document: PlanDocument, snapshots: list[Snapshot]) -> dict[bytes, bytes]:
    place = {c.source: i for i, c in reversed(tuple(enumerate(document.columns)))}
    keys = [place.get(f"k{i}") for i in range(document.keys)]
    whole = None if None in keys else tuple(k for k in keys if k is not None)
    committed = {s.version: s.created for s in snapshots}
    return ChangesOrigin(whole, document.plan, committed).metadata()


def ordered(table: pa.Table, sorts: tuple[ViewSort, ...]) -> pa.Table:
    """Sort rows: nulls first or last as each key says, NaN above all numbers."""
    if not sorts or not table.num_rows:
        return table
    columns: dict[str, pa.ChunkedArray] = {}
    keys: list[tuple[str, str]] = []
    for i, sort in enumerate(sorts):
        column = table.column(sort.ordinal)
        way = "descending" if sort.descending else "ascending"
        columns[f"null{i}"] = pc.cast(pc.is_null(column), pa.int8())
        keys.append((f"null{i}", "descending" if sort.nulls_first else "ascending"))
        if pa.types.is_floating(column.type):
            columns[f"nan{i}"] = pc.cast(pc.fill_null(pc.is_nan(column), False), pa.int8())
            keys.append((f"nan{i}", way))
        if pa.types.is_boolean(column.type):
            column = pc.cast(column, pa.int8())
        if pa.types.is_nested(column.type):
            column = nested_bytes(column.combine_chunks())
        columns[f"value{i}"] = column
        keys.append((f"value{i}", way))
    return table.take(pc.sort_indices(pa.table(columns), sort_keys=keys))
