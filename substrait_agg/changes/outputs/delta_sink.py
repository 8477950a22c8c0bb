"""A sink that writes a Delta table with deltalake: each version is one transaction.

The transaction names the version, so that the table itself says which version comes next. The
record in the checkpoint serves tools that do not open the table.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal as OneOf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from substrait_agg.changes.outputs.delta_target import VIEW, DeltaTarget
from substrait_agg.changes.outputs.sinks import Sink, SinkContext, Table, taken
from substrait_agg.changes.records import Record
from substrait_agg.commit.documents.change_metadata import origin_of
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.fence import NO_FENCE, Fence
from substrait_agg.commit.runtime.consolidate import consolidate, row_bytes
from substrait_agg.errors import RunFailed, StateRefused, UsageError
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Location
from substrait_agg.redaction import cleaned, safe_cause

KIND = "delta"
VERSION, WEIGHT = "__version", "__weight"
APPLICATION = "substrait-agg"

Mode = OneOf["append", "overwrite"]


def delta_record(
    target: DeltaTarget, checkpoint: Location, fence: Fence = NO_FENCE, view: str = ""
) -> Record:
    """Return the record of an output."""
    output = f"{KIND}={target.identity}?mode={target.mode}"
    digest = hashlib.sha256(output.encode()).hexdigest()[:16]
    return Record(checkpoint / "outputs" / f"{digest}.json", output, fence, view)


class DeltaSink(Sink):
    """Writes every version to a Delta table in one transaction, exactly once.

    A version that does not change the view writes no transaction.

    Args:
        target: the table and what it has: all changes, or the rows of the view.
    """

    takes_changes = True
    keeps_position = True

    def __init__(self, target: DeltaTarget) -> None:
        self.name = f"{KIND}={target}"
        self._target = target
        self._record: Record | None = None
        self._position: int | None = None
        self._application = ""
        self._labels: dict[str, str] = {}

    @property
    def identity(self) -> str:
        """Return a text that two outputs to one table share."""
        return f"{KIND}={self._target.identity}"

    def reached(self, checkpoint: Location, view: str = "") -> int | None:
        """Return the last version delivered from a checkpoint; write nothing."""
        position = delta_record(self._target, checkpoint, view=view).read()
        return position[0] if position else None

    def check(self, place: SinkContext) -> None:
        """Check that the table can be written; write nothing.

        Raises:
            UsageError: OUTPUT_EXISTS, OUTPUT_NOT_A_FOLDER.
            StateRefused: OUTPUT_RECORD_DAMAGED.
        """
        self._application = _application(place)
        folder = self._target.local_path
        if folder is not None and folder.exists() and not folder.is_dir():
            message = "output delta needs a folder, but this is a file"
            help = "give the path of a folder; it is created if it does not exist"
            raise UsageError("OUTPUT_NOT_A_FOLDER", message, help=help, path=str(folder))
        table = self._open()
        if (
            table is None
            and folder is not None
            and folder.exists()
            and filesystem().names(folder, folders=True)
        ):
            raise taken(folder)
        if table is not None and self._written(table) is None and table.count():
            raise taken(folder or Path(self._target.identity))
        delta_record(self._target, place.checkpoint, view=place.view).read()

    def begin(self, place: SinkContext) -> None:
        """Check the table, and read the position of earlier runs.

        Raises:
            UsageError, StateRefused: as `check`.
        """
        self.check(place)
        self._record = delta_record(self._target, place.checkpoint, place.fence, place.view)
        position = self._record.read()
        self._position = position[0] if position else None
        self._record.take_over(self._position)
        self._labels = {f"{APPLICATION}.view": place.view} if place.view else {}

    @property
    def position(self) -> int | None:
        """Return the last version in the record. The table may have the next one."""
        return self._position

    def deliver(self, changes: Table, version: int) -> None:
        """Write the changes of a version, unless the table has them, then update the record.

        Raises:
            RunFailed: OUTPUT_NOT_WRITTEN, OUTPUT_VERSION_CONFLICT; the version can be tried again.
            StateRefused: OUTPUT_AHEAD, OUTPUT_DAMAGED.
            UsageError: OUTPUT_TYPE_REFUSED.
        """
        if self._record is None:
            raise TypeError("the sink has not started")
        try:
            self._deliver(changes, version)
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise self._failure(version, error) from safe_cause(error)
        self._record.write(version)

    def _deliver(self, changes: Table, version: int) -> None:
        _check_types(changes.schema, self._target.identity)
        existing = self._open()
        table = self._create(changes) if existing is None else existing
        written = self._written(table)
        if written is not None and written >= version:
            self._check_written(table, changes, version, written)
        elif changes.num_rows or existing is None:
            self._write(table, changes, version)

    def _open(self) -> DeltaTable | None:
        try:
            return DeltaTable(self._target.location)
        except TableNotFoundError:
            return None
        except DeltaError as error:
            # A folder without a log is reported as any other error of it.
            if "no files in log segment" in str(error).lower():
                return None
            raise

    def _written(self, table: DeltaTable) -> int | None:
        """Return the newest version that the table has from this checkpoint and view."""
        return table.transaction_version(self._application)

    def _failure(self, version: int, error: Exception) -> RunFailed:
        """Return the error of a failed write, which another writer may have overtaken."""
        try:
            table = self._open()
            written = None if table is None else self._written(table)
        except (DeltaError, OSError):
            written = None
        if written is not None and written >= version:
            code, help = "OUTPUT_VERSION_CONFLICT", "run one process at a time on a checkpoint"
        else:
            code, help = "OUTPUT_NOT_WRITTEN", "see the reason; delivery is tried again"
        message = f"version {version} was not written to the table: {cleaned(str(error))}"
        return RunFailed(code, message, help=help, path=self._target.identity)

    def _check_written(self, table: DeltaTable, changes: Table, version: int, written: int) -> None:
        """Check that a version that the table has is the one to write, and not one before a rollback.

        Raises:
            StateRefused: OUTPUT_AHEAD.
        """
        committed = origin_of(changes).committed.get(version, "")
        if written == version:
            stored = self._committed(table, version)
            if not committed or not stored or committed == stored:
                return
        raise StateRefused(
            "OUTPUT_AHEAD",
            f"the table has version {written} of this checkpoint from before a rollback, or of a newer copy of it",
            help="restore the newest copy of the checkpoint, or write to another table",
            path=self._target.identity,
        )

    def _committed(self, table: DeltaTable, version: int) -> str:
        """Return when the version in the table was committed; empty if its log no longer says."""
        for entry in table.history():
            same = entry.get(f"{APPLICATION}.transaction") == f"{self._application}/{version}"
            if same:
                return str(entry.get(f"{APPLICATION}.committed", ""))
        return ""

    def _write(self, table: DeltaTable, changes: Table, version: int) -> None:
        labels = {
            f"{APPLICATION}.version": str(version),
            f"{APPLICATION}.transaction": f"{self._application}/{version}",
            f"{APPLICATION}.committed": origin_of(changes).committed.get(version, ""),
            **self._labels,
        }
        commit = CommitProperties(
            custom_metadata=labels, app_transactions=[Transaction(self._application, version)]
        )
        keys = [changes.schema.names[i] for i in origin_of(changes).keys or ()]
        if self._target.mode != VIEW:
            self._put(table, changes, "append", commit)
        elif keys and changes.num_rows:  # a merge of no rows writes no transaction
            _merge(table, changes, keys, commit)
        else:
            self._put(table, self._rows(table, changes), "overwrite", commit)

    def _create(self, changes: Table) -> DeltaTable:
        """Create the table without rows, and open it as it is then.

        A transaction that creates a table would not conflict with another one that does.
        """
        rows = changes if self._target.mode != VIEW else _weighted(changes).drop_columns([WEIGHT])
        schema = rows.schema.remove_metadata()
        DeltaTable.create(self._target.location, schema, mode="ignore")
        return DeltaTable(self._target.location)

    def _put(self, table: DeltaTable, rows: Table, mode: Mode, commit: CommitProperties) -> None:
        """Write rows to the table as it was opened: a version written meanwhile is a conflict."""
        write_deltalake(
            table, rows.replace_schema_metadata(None), mode=mode, commit_properties=commit
        )

    def _rows(self, table: DeltaTable, changes: Table) -> Table:
        """Return the rows of the table after changes; for a view whose rows have no key."""
        new = _weighted(changes)
        names = [name for name in new.column_names if name != WEIGHT]
        old = pa.RecordBatchReader.from_stream(table.scan(columns=names)).read_all().select(names)
        old = old.append_column(WEIGHT, pa.repeat(1, old.num_rows)).cast(new.schema)
        return self._positive(pa.concat_tables([old, new]))

    def _positive(self, rows: Table) -> Table:
        """Return rows as often as their weights say.

        Raises:
            StateRefused: OUTPUT_DAMAGED: a row that is taken away is not there.
        """
        rows = consolidate(rows.combine_chunks())
        weights = rows.column(WEIGHT).to_numpy()
        if (weights < 0).any():
            message = "a row that a version takes away is not in the table: another program has changed it"
            help = "write to another table, which gets all versions"
            raise StateRefused("OUTPUT_DAMAGED", message, help=help, path=self._target.identity)
        repeated = np.repeat(np.arange(rows.num_rows), weights)
        return rows.drop_columns([WEIGHT]).take(pa.array(repeated))


def _application(place: SinkContext) -> str:
    """Return the id under which a table keeps the versions of a checkpoint and a view."""
    try:
        identity = Checkpoint(place.checkpoint).identity
    except StateRefused as error:
        if error.code != "NOT_A_CHECKPOINT":
            raise
        identity = hashlib.sha256(str(place.checkpoint).encode()).hexdigest()[:32]
    return f"{APPLICATION}/{identity}/{place.view}"


def _weighted(changes: Table) -> Table:
    """Return changes without their version, and without what is said of their schema."""
    names = [name for name in changes.column_names if name not in (VERSION, WEIGHT)]
    return changes.select([*names, WEIGHT]).replace_schema_metadata(None)


def _merge(table: DeltaTable, changes: Table, keys: list[str], commit: CommitProperties) -> None:
    """Delete, update and insert the rows of a version by their keys in one transaction."""
    rows = _newest_of_keys(changes, keys)
    names = [name for name in rows.column_names if name != WEIGHT]
    values = {_quoted(name): f"s.{_quoted(name)}" for name in names}
    nullable = {field.name for field in changes.schema if field.nullable}
    same = " AND ".join(
        f"t.{_quoted(key)} {'IS NOT DISTINCT FROM' if key in nullable else '='} s.{_quoted(key)}"
        for key in keys
    )
    (
        table.merge(rows, same, source_alias="s", target_alias="t", commit_properties=commit)
        .when_matched_delete(f"s.{WEIGHT} < 0")
        .when_matched_update(values, predicate=f"s.{WEIGHT} > 0")
        .when_not_matched_insert(values, predicate=f"s.{WEIGHT} > 0")
        .execute()
    )


def _newest_of_keys(changes: Table, keys: list[str]) -> Table:
    """Return the last change of each key; a version has its retractions before its insertions."""
    if VERSION in changes.column_names:
        order = pc.sort_indices(changes, sort_keys=[(VERSION, "ascending"), (WEIGHT, "ascending")])
        changes = changes.take(order)
    rows = _weighted(changes).combine_chunks()
    codes = row_bytes(rows.select([*keys, WEIGHT])).dictionary_encode().indices.to_numpy()
    last = np.zeros(codes.max(initial=-1) + 1, np.int64)
    last[codes] = np.arange(len(codes))
    return rows.take(pa.array(last))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _check_types(schema: pa.Schema, place: str) -> None:
    """Refuse columns that a Delta table would not keep as they are.

    Raises:
        UsageError: OUTPUT_TYPE_REFUSED.
    """
    for field in schema:
        if any(map(_is_refused, _types_in(field.type))):
            message = f"a Delta table cannot hold the column {field.name} of type {field.type}"
            help = "cast it in the query to a number, text, date or a timestamp of microseconds"
            raise UsageError("OUTPUT_TYPE_REFUSED", message, help=help, path=place)


def _is_refused(type_: pa.DataType) -> bool:
    is_time = pa.types.is_time(type_) or pa.types.is_duration(type_)
    return bool(is_time or (pa.types.is_timestamp(type_) and type_.unit == "ns"))


def _types_in(type_: pa.DataType) -> list[pa.DataType]:
    children = [type_.field(i).type for i in range(type_.num_fields)]
    return [type_, *(inner for child in children for inner in _types_in(child))]
