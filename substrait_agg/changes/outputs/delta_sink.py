"""A sink that writes a Delta table with deltalake: each version is one transaction.

The transaction names the version, so that the table itself says which version comes next. The
record in the checkpoint serves tools that do not open the table.
"""

from __future__ import annotations

from typing import Literal as OneOf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from substrait_agg.changes.outputs.sinks import SinkContext, Table
from substrait_agg.changes.outputs.versioned_sink import LABEL, LakeSink, types_in
from substrait_agg.changes.postgres.keyed import VERSION, WEIGHT
from substrait_agg.changes.records import Record
from substrait_agg.changes.targets.delta import VIEW, DeltaTarget
from substrait_agg.commit.documents.change_metadata import origin_of
from substrait_agg.commit.log.fence import NO_FENCE, Fence
from substrait_agg.commit.tasks.consolidate import consolidate, row_bytes
from substrait_agg.errors import StateRefused, UsageError
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Location

KIND = "delta"

Mode = OneOf["append", "overwrite"]


class DeltaSink(LakeSink[DeltaTable]):
    """Writes every version to a Delta table in one transaction, exactly once.

    Args:
        target: the table and what it has: all changes, or the rows of the view.
    """

    format = "a Delta"

    def __init__(self, target: DeltaTarget) -> None:
        self._target = target = target.absolute
        super().__init__(f"{KIND}={target}", f"{KIND}={target.identity}", target.identity)

    def record_in(self, checkpoint: Location, fence: Fence = NO_FENCE, view: str = "") -> Record:
        """Return the record of the output in a checkpoint."""
        return Record.of(checkpoint, f"{self.identity}?mode={self._target.mode}", fence, view)

    def _check_output(self, place: SinkContext) -> None:
        folder = self._target.local_path
        if folder is not None and folder.exists() and not folder.is_dir():
            message = "output delta needs a folder, but this is a file"
            help = "give the path of a folder; it is created if it does not exist"
            raise UsageError("OUTPUT_NOT_A_FOLDER", message, help=help, path=str(folder))
        super()._check_output(place)

    def _has_data(self, table: DeltaTable | None) -> bool:
        if table is not None:
            return bool(table.count())
        folder = self._target.local_path
        return bool(
            folder is not None and folder.exists() and filesystem().names(folder, folders=True)
        )

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        return DeltaError, OSError, pa.ArrowException

    def _is_refused(self, type_: pa.DataType) -> bool:
        return any(
            pa.types.is_time(inner)
            or pa.types.is_duration(inner)
            or (pa.types.is_timestamp(inner) and inner.unit == "ns")
            for inner in types_in(type_)
        )

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

    @property
    def _application(self) -> str:
        """The id under which the table keeps the versions of a checkpoint and a view."""
        return "/".join((LABEL, *self._owner))

    def _read_version(self, table: DeltaTable) -> int | None:
        return table.transaction_version(self._application)

    def _read_commit_time(self, table: DeltaTable, version: int) -> str | None:
        for entry in table.history():
            if entry.get(f"{LABEL}.transaction") == f"{self._application}/{version}":
                return entry.get(f"{LABEL}.committed") or None
        return None

    def _write(self, table: DeltaTable, rows: Table, version: int, committed: str) -> None:
        view = self._owner[1]
        labels = {
            f"{LABEL}.version": str(version),
            f"{LABEL}.transaction": f"{self._application}/{version}",
            f"{LABEL}.committed": committed,
            **({f"{LABEL}.view": view} if view else {}),
        }
        commit = CommitProperties(
            custom_metadata=labels, app_transactions=[Transaction(self._application, version)]
        )
        origin = origin_of(rows)
        # A merge would keep one of several equal rows.
        keys = () if origin.repeats else origin.keys or ()
        if self._target.mode != VIEW:
            self._put(table, rows, "append", commit)
        elif keys and rows.num_rows:  # a merge of no rows writes no transaction
            _merge(table, rows, [rows.schema.names[i] for i in keys], commit)
        else:
            self._put(table, self._view(table, rows), "overwrite", commit)

    def _create(self, rows: Table) -> DeltaTable:
        # A transaction that creates a table would not conflict with another one that does.
        if self._target.mode == VIEW:
            rows = _drop_version(rows).drop_columns([WEIGHT])
        DeltaTable.create(self._target.location, rows.schema.remove_metadata(), mode="ignore")
        return DeltaTable(self._target.location)

    def _put(self, table: DeltaTable, rows: Table, mode: Mode, commit: CommitProperties) -> None:
        write_deltalake(
            table, rows.replace_schema_metadata(None), mode=mode, commit_properties=commit
        )

    def _view(self, table: DeltaTable, changes: Table) -> Table:
        """Return the rows of the table after changes; for a view whose rows have no key."""
        new = _drop_version(changes)
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
            raise StateRefused("OUTPUT_DAMAGED", message, help=help, path=self._place)
        repeated = np.repeat(np.arange(rows.num_rows), weights)
        return rows.drop_columns([WEIGHT]).take(pa.array(repeated))


def _drop_version(changes: Table) -> Table:
    """Return changes without their version, and without what is said of their schema."""
    names = [name for name in changes.column_names if name not in (VERSION, WEIGHT)]
    return changes.select([*names, WEIGHT]).replace_schema_metadata(None)


def _merge(table: DeltaTable, changes: Table, keys: list[str], commit: CommitProperties) -> None:
    """Delete, update and insert the rows of a version by their keys in one transaction."""
    rows = _newest_of_keys(changes, keys)
    names = [name for name in rows.column_names if name != WEIGHT]
    values = {_quote(name): f"s.{_quote(name)}" for name in names}
    nullable = {field.name for field in changes.schema if field.nullable}
    same = " AND ".join(
        f"(t.{_quote(key)} {'IS NOT DISTINCT FROM' if key in nullable else '='} s.{_quote(key)})"
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
    rows = _drop_version(changes).combine_chunks()
    codes = row_bytes(rows.select([*keys, WEIGHT])).dictionary_encode().indices.to_numpy()
    last = np.zeros(codes.max(initial=-1) + 1, np.int64)
    last[codes] = np.arange(len(codes))
    return rows.take(pa.array(last))


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
