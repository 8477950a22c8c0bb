"""A sink that appends changes to an Iceberg table with pyiceberg: each version is one commit.

The commit writes a snapshot whose summary names checkpoint, view and version, and a property of the
table with the version. So the table itself says which version comes next, also when snapshots have
expired. The record in the checkpoint serves tools that do not open the table.
"""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    ValidationException,
)
from pyiceberg.table import Table as IcebergTable

from substrait_agg.changes.outputs.sinks import SinkContext, Table
from substrait_agg.changes.outputs.versioned_sink import LABEL, LakeSink, types_in
from substrait_agg.changes.targets.iceberg import KIND, IcebergTarget
from substrait_agg.connect.iceberg.catalog import errors_of_catalogs

RETRIES = "commit.retry.num-retries"


class IcebergSink(LakeSink[IcebergTable]):
    """Appends the changes of every version to an Iceberg table in one commit, exactly once.

    Args:
        target: the table.
    """

    format = "an Iceberg"

    def __init__(self, target: IcebergTarget) -> None:
        super().__init__(f"{KIND}={target}", f"{KIND}={target}", str(target))
        self._target = target
        self._opened: Catalog | None = None

    @property
    def _catalog(self) -> Catalog:
        if self._opened is None:
            raise TypeError("the sink has not started")
        return self._opened

    def _check_output(self, place: SinkContext) -> None:
        self._opened = self._target.catalog.load()
        try:
            with self._target.catalog.reach_version():
                super()._check_output(place)
        finally:
            self.close()

    def _read_position(self, place: SinkContext) -> int | None:
        self._opened = self._target.catalog.load()
        return super()._read_position(place)

    def _has_data(self, table: IcebergTable | None) -> bool:
        return table is not None and bool(table.scan().count())

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        failures = (CommitFailedException, ValidationException, ValueError, pa.ArrowException)
        return (*failures, *errors_of_catalogs())

    def _open(self) -> IcebergTable | None:
        try:
            return self._catalog.load_table(self._target.table)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def _create(self, rows: Table) -> IcebergTable:
        self._catalog.create_namespace_if_not_exists(self._target.table.rpartition(".")[0])
        return self._catalog.create_table_if_not_exists(self._target.table, rows.schema)

    @property
    def _property(self) -> str:
        """The property of a table that has the newest version of this checkpoint and view."""
        return ".".join([LABEL, *filter(None, self._owner), "version"])

    def _read_version(self, table: IcebergTable) -> int | None:
        text = table.properties.get(self._property)
        return None if text is None else int(text)

    def _labels(self, version: int, committed: str) -> dict[str, str]:
        """Return what the summary of a snapshot says of a version."""
        names = ("checkpoint", "view", "version", "committed")
        values = (*self._owner, str(version), committed)
        return {f"{LABEL}.{name}": value for name, value in zip(names, values, strict=True)}

    def _write(self, table: IcebergTable, rows: Table, version: int, committed: str) -> None:
        # pyiceberg repeats an append on top of what another run has appended. The number of
        # repetitions is read from the properties of the table in memory; those stored stay.
        table.metadata.properties[RETRIES] = "0"
        with table.transaction() as transaction:
            transaction.append(rows, snapshot_properties=self._labels(version, committed))
            transaction.set_properties({self._property: str(version)})

    def _read_commit_time(self, table: IcebergTable, version: int) -> str | None:
        names = self._labels(version, "").items()
        for snapshot in table.snapshots():
            labels = snapshot.summary.additional_properties if snapshot.summary else {}
            if all(labels.get(key) == value for key, value in names if value):
                return labels.get(f"{LABEL}.committed") or None
        return None

    def _rows(self, changes: Table) -> Table:
        """Return changes as Iceberg stores them: times have microseconds, as those of plans."""
        schema = super()._rows(changes).schema.remove_metadata()
        for i, field in enumerate(schema):
            if pa.types.is_time64(field.type):
                schema = schema.set(i, field.with_type(pa.time64("us")))
        return changes.cast(schema)

    def _is_refused(self, type_: pa.DataType) -> bool:
        return any(
            pa.types.is_duration(inner)
            or (pa.types.is_timestamp(inner) and inner.unit == "ns")
            or (inner is not type_ and inner == pa.time64("ns"))
            for inner in types_in(type_)
        )

    def close(self) -> None:
        """Close the catalogue."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
