"""Read the columns of a source: from Parquet footers, from a sample of CSV and JSON files, or by Spark.

A SQL query needs the columns of its tables before it can be planned. The types found here become
part of the plan, and the run then reads the source with the types of the plan. So both agree, and a
later value that does not fit fails its batch with ROW_UNREADABLE.

Local files of these formats are read without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from substrait_agg.errors import InputRefused
from substrait_agg.plan.plannable import plannable
from substrait_agg.spark.sources.files import is_glob, local_files, look_up, refuse_archives
from substrait_agg.spark.sources.format_options import csv_separator
from substrait_agg.spark.sources.specs import SourceSpec, as_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE_BYTES = 4 * 1024 * 1024
"""How much of the oldest file is read to infer the types of CSV and JSON."""

_DAY = r"\d{4}-\d\d-\d\d"
_TIME = rf"{_DAY}[T ]\d\d:\d\d:\d\d(\.\d{{1,6}})?"
_TEXTS: tuple[tuple[str, pa.DataType], ...] = (
    (rf"^{_DAY}$", pa.date32()),
    (rf"^{_TIME}$", pa.timestamp("us")),
    (rf"^{_TIME}(Z|[+-]\d\d:?\d\d)$", pa.timestamp("us", "UTC")),
)
"""Pattern that all strings of a JSON column match -> type of the column."""

_HELP = "declare the columns: CREATE TABLE {table} (column type, ...) in the SQL text"


def inferred_columns(source: Any, table: str, session: Callable[[], SparkSession]) -> pa.Schema:
    """Return the columns of a source as a SQL query sees them.

    Columns of weights and operations are not among them. The oldest file decides, because it does
    not change when files arrive: a run that is continued finds the same types.

    Args:
        source: a SPEC, a DataFrame, or the schema itself.
        table: name of the table, for messages.
        session: returns the session that opens sources that cannot be read without Spark.

    Raises:
        InputRefused: ``SOURCE_NOT_FOUND``, ``SOURCE_EMPTY``, ``SOURCE_UNREADABLE``,
            ``SOURCE_TYPES_UNKNOWN``, ``COLUMN_AMBIGUOUS``.
        UsageError: ``CONNECT_NOT_SUPPORTED``.
    """
    if isinstance(source, pa.Schema):
        return plannable(source)
    if not isinstance(source, str | SourceSpec):
        from substrait_agg.spark.session.session import require_classic

        require_classic((source,))
        return _of_spark(source.schema)
    spec = as_spec(source)
    if spec.change == "debezium":
        raise _refuse_unknown(
            table, f"the source of {table} is a stream of change events, which state no types"
        )
    if spec.is_connected:
        from substrait_agg.spark.sources.connected import with_connected

        connected = as_spec(with_connected({(table,): spec})[(table,)])
        if connected.schema is not None:
            return plannable(connected.schema)
    schema = _of_files(spec, table, session)
    if schema is None:
        schema = _by_spark(spec, table, session)
    # A later file may have nulls in a column of which the first one says that it has none.
    schema = pa.schema([field.with_nullable(True) for field in schema])
    hidden = {spec.change_column.lower(), *_FEED.get(spec.format, ())} - {""}
    return pa.schema([field for field in plannable(schema) if field.name.lower() not in hidden])


def columns_of_sources(
    sources: Mapping[str, Any], session: Callable[[], SparkSession], names: Container[str]
) -> dict[str, pa.Schema]:
    """Return the columns of the sources whose names a query contains.

    Args:
        sources: name of a table -> its source.
        session: as in `inferred_columns`.
        names: the names in the query, in lower case.

    Raises:
        InputRefused: as `inferred_columns`.
    """
    return {
        name: inferred_columns(source, name, session)
        for name, source in sources.items()
        if name.split(".")[-1].lower() in names
    }


_FEED = {"changes": ("_change_type", "_commit_version", "_commit_timestamp")}
"""Format -> columns that say what happened to a row."""


def _of_files(
    spec: SourceSpec, table: str, session: Callable[[], SparkSession]
) -> pa.Schema | None:
    """Return the columns of local files; None if Spark has to look at them.

    Spark infers the types of columns in the names of folders.
    """
    reader = _READERS.get(spec.format)
    if reader is None or ":" in spec.location:
        return None
    files = local_files(spec.location, spec.file_rules)
    if files is None and is_glob(spec.location):
        return None
    if not files:
        code, what = ("SOURCE_NOT_FOUND", "does not exist")
        if files is not None:
            code, what = ("SOURCE_EMPTY", "has no file yet")
        raise InputRefused(
            code,
            f"the source of {table} ({spec.redact()}) {what}, so its columns are not known",
            help=f"check the path; or {_HELP.format(table=table)}",
        )
    oldest = min(files, key=lambda file: (file.modified, file.name))
    if spec.format != "parquet":
        refuse_archives([oldest.path.absolute().as_uri()], table)
    try:
        columns = reader(str(oldest.path), spec, table)
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise InputRefused(
            "SOURCE_UNREADABLE",
            f"the columns of {table} cannot be read from {oldest.path}: {str(error).splitlines()[0]}",
            help=f"correct the file; or {_HELP.format(table=table)}",
        ) from error
    if columns is None or spec.file_rules.recursive or "=" not in oldest.name.rpartition("/")[0]:
        return columns
    return _with_partitions(columns, spec, session())


def _with_partitions(in_file: pa.Schema, spec: SourceSpec, spark: SparkSession) -> pa.Schema:
    """Return columns of a file with those of folders, which replace columns of the same name."""
    from substrait_agg.spark.sources.readers import partition_columns

    place = look_up(spark, spec.location, spec.file_rules)
    if place is None:
        return in_file
    partitions = {f.name.lower(): f for f in _of_spark(partition_columns(spark, spec, place))}
    columns = [partitions.pop(field.name.lower(), field) for field in in_file]
    return pa.schema([*columns, *partitions.values()])


def _csv(file: str, spec: SourceSpec, table: str) -> pa.Schema:
    if spec.by_position:
        raise _refuse_unknown(
            table, f"the files of {table} have no header, so the columns have no names"
        )
    options = {name.lower(): value for name, value in spec.options}
    separator = csv_separator(spec.options)
    if len(separator) > 1:
        raise _refuse_unknown(table, f"the separator of {table} has more than one character")
    quote = options.get("quote", '"')
    parse: dict[str, Any] = {"quote_char": quote or False}
    if options.get("escape", quote) != quote:
        parse["escape_char"] = options["escape"]
    encoding = options.get("encoding", options.get("charset", "utf-8"))
    convert = pyarrow.csv.ConvertOptions(
        null_values=["", *filter(None, [options.get("nullvalue")])],
        strings_can_be_null=True,
        decimal_point=spec.decimal,
    )
    read = pyarrow.csv.ReadOptions(block_size=SAMPLE_BYTES, encoding=encoding, use_threads=False)
    with pa.input_stream(file, compression="detect") as stream:
        reader = pyarrow.csv.open_csv(
            stream,
            read_options=read,
            parse_options=pyarrow.csv.ParseOptions(delimiter=separator, **parse),
            convert_options=convert,
        )
        with reader:
            _check_header(reader.schema.names, file, table)
            _check_text(reader.schema, file, encoding, table)
            return pa.schema([_without_time_of_day(field) for field in reader.schema if field.name])


def _check_header(names: list[str], file: str, table: str) -> None:
    repeated = next((name for name in names if name and names.count(name) > 1), None)
    if repeated is not None:
        raise InputRefused(
            "COLUMN_AMBIGUOUS",
            f"the first line of {file}, a source of {table}, has more than one column {repeated}",
            help="give every column a name of its own",
        )


def _check_text(schema: pa.Schema, file: str, encoding: str, table: str) -> None:
    """Refuse a file whose texts are in another encoding. Spark would replace their characters."""
    for field in schema:
        if pa.types.is_binary(field.type):
            raise InputRefused(
                "SOURCE_UNREADABLE",
                f"column {field.name} of {table} is not {encoding} in {file}",
                help="save the file as UTF-8, or add its encoding to the source, such as encoding=ISO-8859-1",
            )


def _without_time_of_day(field: pa.Field) -> pa.Field:
    return field.with_type(pa.string()) if pa.types.is_time(field.type) else field


def _json(file: str, spec: SourceSpec, _table: str) -> pa.Schema:
    options = {name.lower(): value for name, value in spec.options}
    parse = pyarrow.json.ParseOptions(newlines_in_values=options.get("multiline") == "true")
    with pa.input_stream(file, compression="detect") as stream:
        data = _whole_lines(stream.read(SAMPLE_BYTES))
    read = pyarrow.json.ReadOptions(use_threads=False, block_size=max(len(data), 1))
    sample = pyarrow.json.read_json(pa.BufferReader(data), read_options=read, parse_options=parse)
    # Arrow reads some texts as times without their zones. They are read again as they are.
    texts = [f.with_type(pa.string()) for f in sample.schema if pa.types.is_timestamp(f.type)]
    parse = pyarrow.json.ParseOptions(
        explicit_schema=pa.schema(texts), newlines_in_values=parse.newlines_in_values
    )
    again = pyarrow.json.read_json(pa.BufferReader(data), read_options=read, parse_options=parse)
    return pa.schema([_of_texts(again.column(f.name), f) for f in sample.schema])


def _whole_lines(data: bytes) -> bytes:
    if len(data) < SAMPLE_BYTES or b"\n" not in data:
        return data
    return data[: data.rindex(b"\n") + 1]


def _of_texts(column: pa.ChunkedArray, field: pa.Field) -> pa.Field:
    """Return a field of the type that all texts of a column have."""
    if not pa.types.is_string(column.type):
        return field.with_type(column.type)
    for pattern, type_ in _TEXTS:
        matches = pc.all(pc.match_substring_regex(column, pattern)).as_py()
        if matches:
            return field.with_type(type_)
    return field.with_type(pa.string())


def _parquet(file: str) -> pa.Schema | None:
    """Return the columns of a file; None if one may be a variant, which Spark tells from a struct."""
    columns = pq.read_schema(file)
    return None if any("metadata: binary" in str(type_) for type_ in columns.types) else columns


_READERS: Mapping[str, Callable[[str, SourceSpec, str], pa.Schema | None]] = {
    "parquet": lambda file, _spec, _table: _parquet(file),
    "csv": _csv,
    "json": _json,
}


def _refuse_unknown(table: str, message: str) -> InputRefused:
    return InputRefused("SOURCE_TYPES_UNKNOWN", message, help=_HELP.format(table=table))


# --- by Spark -----------------------------------------------------------------------------------


def _by_spark(spec: SourceSpec, table: str, session: Callable[[], SparkSession]) -> pa.Schema:
    from substrait_agg.spark.sources.source_types import schema_of

    return _of_spark(schema_of(spec, (table,), session))


def _of_spark(schema: Any) -> pa.Schema:
    """Return the columns of a schema of Spark."""
    from substrait_agg.spark.types.schema import arrow_columns

    return arrow_columns(schema)
