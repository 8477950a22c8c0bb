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


def ordinals_of(columns: pa.Schema, requested: StructType) -> list[int]:
    """Return the ordinals of the columns of a schema that a user gives.

    Raises:
        UsageError: OPTION_INVALID for a column that the view does not have, or not with this type.
    """
    schema = spark_schema(columns)
    if [(f.name, f.dataType) for f in schema] == [(f.name, f.dataType) for f in requested]:
        return list(range(len(schema)))
    types = {field.name: field.dataType for field in schema}
    for field in requested:
        type_ = types.get(field.name)
        if type_ != field.dataType:
            view_column = "none" if type_ is None else f"one of type {type_.simpleString()}"
            raise UsageError(
                "OPTION_INVALID",
                f"the schema has a column {field.name} of type {field.dataType.simpleString()}, and the view has {view_column}",
                help=f"leave out the schema, or choose from {schema.simpleString()}",
                path="schema",
            )
    return [schema.fieldNames().index(field.name) for field in requested]


def partitions(options: ReadOptions, schema: StructType) -> list[InputPartition]:
    """Return the partitions of a read that is not a stream.

    Raises:
        UsageError: OPTION_INVALID.
        StateRefused: as `View.to_arrow` and `View.changes`.
    """
    view = view_of(options)
    if options.content == "changes":
        return changes_partitions(view, options.since, options.until, schema)
    return rows_partitions(options, view, options.version, schema)


def rows_partitions(
    options: ReadOptions, view: View, version: int | None, schema: StructType
) -> list[InputPartition]:
    """Return partitions of the rows of a version."""
    scan, inserted = view.scan(version), options.content == "rows as changes"
    columns = pa.schema([*scan.schema, *INSERTED]) if inserted else scan.schema
    ordinals = tuple(ordinals_of(columns, schema))
    parts = scan.split(options.partitions)
    return [RowsPartition(options.path, options.view, part, ordinals, inserted) for part in parts]


def changes_partitions(
    view: View, since: int | None, until: int | None, schema: StructType
) -> list[InputPartition]:
    """Return partitions of changes."""
    scan = view.scan_changes(since, until)
    ordinals = tuple(ordinals_of(scan.schema, schema))
    return [ChangesPartition(part, ordinals) for part in scan.split()]
