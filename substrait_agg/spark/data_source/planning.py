"""Plan a read: open the view, check the schema, and make the partitions."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from substrait_agg.commit.view.view import View, open_view
from substrait_agg.errors import UsageError
from substrait_agg.spark.data_source.options import ReadOptions
from substrait_agg.spark.data_source.partitions import INSERTED, ChangesPartition, RowsPartition


def view_of(options: ReadOptions) -> View:
    """Open the view that the options name.

    Raises:
        UsageError: VIEW_UNKNOWN, VIEW_NAME_MISSING.
        StateRefused: NOT_A_CHECKPOINT, STATE_DAMAGED.
    """
    return open_view(options.path, options.view)


def columns_of(options: ReadOptions) -> pa.Schema:
    """Return the columns of a read."""
    view = view_of(options)
    if options.content == "changes":
        return view.scan_changes(options.since, options.until).schema
    schema = view.scan(options.version).schema
    return schema if options.content == "rows" else pa.schema([*schema, *INSERTED])


def spark_schema(columns: pa.Schema) -> StructType:
    """Return the schema of a DataFrame with these columns. All are nullable, as Spark wants them."""
    return from_arrow_schema(pa.schema([pa.field(f.name, f.type) for f in columns]))


def ordinals_of(columns: pa.Schema, wanted: StructType) -> list[int]:
    """Return the ordinals of the columns of a schema that a user gives.

    Raises:
        UsageError: OPTION_INVALID for a column that the view does not have, or not with this type.
    """
    known = spark_schema(columns)
    if [(f.name, f.dataType) for f in known] == [(f.name, f.dataType) for f in wanted]:
        return list(range(len(known)))
    types = {field.name: field.dataType for field in known}
    for field in wanted:
        found = types.get(field.name)
        if found != field.dataType:
            there = "none" if found is None else f"one of type {found.simpleString()}"
            raise UsageError(
                "OPTION_INVALID",
                f"the schema has a column {field.name} of type {field.dataType.simpleString()}, and the view has {there}",
                help=f"leave out the schema, or choose from {known.simpleString()}",
                path="schema",
            )
    return [known.fieldNames().index(field.name) for field in wanted]


def partitions(options: ReadOptions, wanted: StructType) -> list[InputPartition]:
    """Return the partitions of a read that is not a stream.

    Args:
        options: the options of the read.
        wanted: the columns to read.

    Raises:
        UsageError: OPTION_INVALID.
        StateRefused: as `View.to_arrow` and `View.changes`.
    """
    view = view_of(options)
    if options.content == "changes":
        return changes_partitions(view, options.since, options.until, wanted)
    return rows_partitions(options, view, options.version, wanted)


def rows_partitions(
    options: ReadOptions, view: View, version: int | None, wanted: StructType
) -> list[InputPartition]:
    """Return partitions of the rows of a version."""
    scan, inserted = view.scan(version), options.content == "rows as changes"
    columns = pa.schema([*scan.schema, *INSERTED]) if inserted else scan.schema
    ordinals = tuple(ordinals_of(columns, wanted))
    parts = scan.split(options.partitions)
    return [RowsPartition(options.path, options.view, part, ordinals, inserted) for part in parts]


def changes_partitions(
    view: View, since: int | None, until: int | None, wanted: StructType
) -> list[InputPartition]:
    """Return partitions of changes."""
    scan = view.scan_changes(since, until)
    ordinals = tuple(ordinals_of(scan.schema, wanted))
    return [ChangesPartition(part, ordinals) for part in scan.split()]
