"""A sink that appends changes to an Iceberg table with pyiceberg: each version is one commit.

The commit writes a snapshot whose summary names checkpoint, view and version, and a property of the
table with the version. So the table itself says which version comes next, also when snapshots have
expired. The record in the checkpoint serves tools that do not open the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from substrait_agg.changes.outputs.sinks import Sink, SinkContext, Table
from substrait_agg.changes.outputs.spark_target import bad_target, parse_options
from substrait_agg.changes.records import Record
from substrait_agg.commit.documents.change_metadata import origin_of
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.fence import NO_FENCE, Fence
from substrait_agg.connect.iceberg.catalog import OPTIONS, CatalogAddress, errors_of_catalogs
from substrait_agg.errors import RunFailed, StateRefused, UsageError
from substrait_agg.files.locations import Location
from substrait_agg.redaction import cleaned, safe_cause

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table as IcebergTable

KIND = "iceberg"
LABEL = "substrait-agg"
RETRIES = "commit.retry.num-retries"


@dataclass(frozen=True, slots=True)
class IcebergTarget:
    """An Iceberg table that an output writes.

    Attributes:
        table: its name, with its namespace.
        catalog: the catalogue that has it.
    """

    table: str
    catalog: CatalogAddress

    def __str__(self) -> str:
        return f"{self.table} in {self.catalog}"


def parse_iceberg(text: str) -> IcebergTarget:
    """Parse ``NAMESPACE.TABLE[?catalog=NAME&uri=URI&warehouse=LOCATION]``.

    >>> str(parse_iceberg("shop.totals?catalog=prod"))
    'shop.totals in prod'

    Raises:
        UsageError: OPTION_INVALID; messages do not quote values.
    """
    table, _, query = text.partition("?")
    if not all(table.split(".")) or "." not in table:
        help = "write iceberg=NAMESPACE.TABLE"
        raise bad_target("it needs the name of a table with its namespace", help, KIND)
    options = dict(parse_options(query, KIND))
    for key in options.keys() - OPTIONS:
        raise bad_target(f"option {key} is not known", f"use {', '.join(sorted(OPTIONS))}", KIND)
    return IcebergTarget(table, CatalogAddress.of(options))


def iceberg_record(
    target: IcebergTarget, checkpoint: Location, fence: Fence = NO_FENCE, view: str = ""
) -> Record:
    """Return the record of an output."""
    output = f"{KIND}={target}"
    digest = hashlib.sha256(output.encode()).hexdigest()[:16]
    return Record(checkpoint / "outputs" / f"{digest}.json", output, fence, view)


class IcebergSink(Sink):
    """Appends the changes of every version to an Iceberg table in one commit, exactly once.

    A version that does not change the view writes no snapshot.

    Args:
        target: the table.
    """

    takes_changes = True
    keeps_position = True

    def __init__(self, target: IcebergTarget) -> None:
        self.name = f"{KIND}={target}"
        self._target = target
        self._catalog: Catalog | None = None
        self._record: Record | None = None
        self._position: int | None = None
        self._owner = ("", "")

    @property
    def identity(self) -> str:
        """Return a text that two outputs to one table share."""
        return self.name

    def reached(self, checkpoint: Location, view: str = "") -> int | None:
        """Return the last version delivered from a checkpoint; write nothing."""
        position = iceberg_record(self._target, checkpoint, view=view).read()
        return position[0] if position else None

    def check(self, place: SinkContext) -> None:
        """Check that the table can be written; write nothing.

        Raises:
            UsageError: OUTPUT_EXISTS, SPEC_OPTION_BAD.
            InputRefused: SOURCE_NOT_REACHABLE.
            StateRefused: OUTPUT_RECORD_DAMAGED.
        """
        self._owner = _identity(place.checkpoint), place.view
        catalog = self._target.catalog.load()
        try:
            with self._target.catalog.reached():
                table = self._open(catalog)
                if table is not None and self._written(table) is None and table.scan().count():
                    message = "the table has rows that this output has not written"
                    help = "give the name of a table that does not exist, or of one without rows"
                    raise UsageError("OUTPUT_EXISTS", message, help=help, path=str(self._target))
        finally:
            catalog.close()
        iceberg_record(self._target, place.checkpoint, view=place.view).read()

    def begin(self, place: SinkContext) -> None:
        """Check the table, and read the position of earlier runs.

        Raises:
            UsageError, InputRefused, StateRefused: as `check`.
        """
        self.check(place)
        self._catalog = self._target.catalog.load()
        self._record = iceberg_record(self._target, place.checkpoint, place.fence, place.view)
        position = self._record.read()
        self._position = position[0] if position else None
        self._record.take_over(self._position)

    @property
    def position(self) -> int | None:
        """Return the last version in the record. The table may have the next one."""
        return self._position

    def deliver(self, changes: Table, version: int) -> None:
        """Append the changes of a version, unless the table has them, then update the record.

        Raises:
            RunFailed: OUTPUT_NOT_WRITTEN, OUTPUT_VERSION_CONFLICT; the version can be tried again.
            StateRefused: OUTPUT_AHEAD.
            UsageError: OUTPUT_TYPE_REFUSED.
        """
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        if self._record is None or self._catalog is None:
            raise TypeError("the sink has not started")
        rows = _writable(changes, str(self._target))
        failures = (CommitFailedException, ValidationException, ValueError, pa.ArrowException)
        try:
            self._deliver(self._catalog, rows, version, origin_of(changes).committed)
        except (*failures, *errors_of_catalogs()) as error:
            raise self._failure(self._catalog, version, error) from safe_cause(error)
        self._record.write(version)

    def _deliver(
        self, catalog: Catalog, rows: Table, version: int, committed: Mapping[int, str]
    ) -> None:
        existing = self._open(catalog)
        table = self._create(catalog, rows.schema) if existing is None else existing
        written = self._written(table)
        if written is not None and written >= version:
            self._check_written(table, version, written, committed.get(version, ""))
        elif rows.num_rows or existing is None:
            self._append(table, rows, version, committed.get(version, ""))

    def _open(self, catalog: Catalog) -> IcebergTable | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return catalog.load_table(self._target.table)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def _create(self, catalog: Catalog, schema: pa.Schema) -> IcebergTable:
        catalog.create_namespace_if_not_exists(self._target.table.rpartition(".")[0])
        return catalog.create_table_if_not_exists(self._target.table, schema)

    @property
    def _property(self) -> str:
        """Return the property of a table that has the newest version of this checkpoint and view."""
        return ".".join([LABEL, *filter(None, self._owner), "version"])

    def _written(self, table: IcebergTable) -> int | None:
        """Return the newest version that the table has from this checkpoint and view."""
        text = table.properties.get(self._property)
        return None if text is None else int(text)

    def _labels(self, version: int, committed: str) -> dict[str, str]:
        """Return what the summary of a snapshot says of a version."""
        names = ("checkpoint", "view", "version", "committed")
        values = (*self._owner, str(version), committed)
        return {f"{LABEL}.{name}": value for name, value in zip(names, values, strict=True)}

    def _append(self, table: IcebergTable, rows: Table, version: int, committed: str) -> None:
        """Append rows to the table as it was opened: a commit written meanwhile is a conflict."""
        # pyiceberg repeats an append on top of what another run has appended. The number of
        # repetitions is read from the properties of the table in memory; those stored stay.
        table.metadata.properties[RETRIES] = "0"
        with table.transaction() as transaction:
            transaction.append(rows, snapshot_properties=self._labels(version, committed))
            transaction.set_properties({self._property: str(version)})

    def _failure(self, catalog: Catalog, version: int, error: Exception) -> RunFailed:
        """Return the error of a failed write, which another writer may have overtaken."""
        try:
            table = self._open(catalog)
            written = None if table is None else self._written(table)
        except errors_of_catalogs():
            written = None
        if written is not None and written >= version:
            code, help = "OUTPUT_VERSION_CONFLICT", "run one process at a time on a checkpoint"
        else:
            code, help = "OUTPUT_NOT_WRITTEN", "see the reason; delivery is tried again"
        message = f"version {version} was not written to the table: {cleaned(str(error))}"
        return RunFailed(code, message, help=help, path=str(self._target))

    def _check_written(
        self, table: IcebergTable, version: int, written: int, committed: str
    ) -> None:
        """Check that a version that the table has is the one to write, and not one before a rollback.

        Raises:
            StateRefused: OUTPUT_AHEAD.
        """
        if written == version:
            stored = self._committed(table, version)
            if not committed or not stored or committed == stored:
                return
        raise StateRefused(
            "OUTPUT_AHEAD",
            f"the table has version {written} of this checkpoint from before a rollback, or of a newer copy of it",
            help="restore the newest copy of the checkpoint, or write to another table",
            path=str(self._target),
        )

    def _committed(self, table: IcebergTable, version: int) -> str:
        """Return when the version in the table was committed; empty if its snapshot has expired."""
        names = self._labels(version, "").items()
        for snapshot in table.snapshots():
            labels = snapshot.summary.additional_properties if snapshot.summary else {}
            if all(labels.get(key) == value for key, value in names if value):
                return labels.get(f"{LABEL}.committed", "")
        return ""

    def close(self) -> None:
        """Close the catalogue."""
        if self._catalog is not None:
            self._catalog.close()


def _identity(checkpoint: Location) -> str:
    """Return the id of a checkpoint; before the first version one of its place."""
    try:
        return Checkpoint(checkpoint).identity
    except StateRefused as error:
        if error.code != "NOT_A_CHECKPOINT":
            raise
        return hashlib.sha256(str(checkpoint).encode()).hexdigest()[:32]


def _writable(changes: Table, place: str) -> Table:
    """Return changes as Iceberg stores them: times have microseconds, as those of plans.

    Raises:
        UsageError: OUTPUT_TYPE_REFUSED.
    """
    for field in changes.schema:
        inner = _types_in(field.type)[1:]
        if _is_refused(field.type) or any(map(_is_refused_inside, inner)):
            message = f"an Iceberg table cannot hold the column {field.name} of type {field.type}"
            help = "cast it in the query to a number, text, date or a timestamp of microseconds"
            raise UsageError("OUTPUT_TYPE_REFUSED", message, help=help, path=place)
    schema = pa.schema(
        [
            pa.field(f.name, pa.time64("us") if pa.types.is_time64(f.type) else f.type, f.nullable)
            for f in changes.schema
        ]
    )
    return changes.replace_schema_metadata(None).cast(schema)


def _is_refused(type_: pa.DataType) -> bool:
    is_nanoseconds = pa.types.is_timestamp(type_) and type_.unit == "ns"
    return bool(pa.types.is_duration(type_) or is_nanoseconds)


def _is_refused_inside(type_: pa.DataType) -> bool:
    return bool(_is_refused(type_) or type_ == pa.time64("ns"))


def _types_in(type_: pa.DataType) -> list[pa.DataType]:
    children = [type_.field(i).type for i in range(type_.num_fields)]
    return [type_, *(inner for child in children for inner in _types_in(child))]
