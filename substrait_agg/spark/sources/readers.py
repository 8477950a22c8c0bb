"""Read rows of files, tables and other Spark formats, with the columns of a plan.

A static source is read as a batch, others as a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st
from pyspark.sql.streaming.readwriter import DataStreamReader

from substrait_agg.errors import InputRefused
from substrait_agg.notices import notice
from substrait_agg.plan.types import Type
from substrait_agg.spark.session.errors import SPARK_ERRORS
from substrait_agg.spark.sources.files import (
    InputFiles,
    absolute,
    escape,
    files_unread,
    is_glob,
    look_up,
    refuse_archives,
)
from substrait_agg.spark.sources.format_options import with_csv_quotes, with_strict_times
from substrait_agg.spark.sources.parse_faults import load_texts
from substrait_agg.spark.sources.specs import SourceSpec, as_spec
from substrait_agg.spark.types.bad_rows import CORRUPT, FILE, POSITION
from substrait_agg.spark.types.schema import in_text, to_spark
from substrait_agg.spark.types.source_columns import check_type, find_column, reader_type
from substrait_agg.spark.types.struct_fields import in_plan_order, json_type

ColumnTypes = Mapping[str, Type]
"""Columns to read: name in the plan -> type in the plan."""

DELTA = "delta"
"""A format that takes a path, although its files are not those of a folder."""

LOCATION_OPTION = {"kafka": "subscribe"}
"""Format without a path -> the option that takes the location."""


FilesReader = Callable[[SparkSession, Sequence[str]], DataFrame]
"""Returns the rows of files, given by their URIs."""


def read_source(
    spark: SparkSession, spec: SourceSpec, columns: ColumnTypes, table: str
) -> tuple[DataFrame, FilesReader | None]:
    """Return all rows of a source: a batch if it is static, else a stream.

    The second result reads some files of the source in the same way; None if it has no files. A run
    reads files by it, and takes only the columns from the stream.

    The rows have the `columns` columns and may have others. If bad rows go to the quarantine, the
    columns `FILE` and `POSITION` come last; for CSV and JSON, `CORRUPT` precedes them. Change
    events always have `FILE` and `POSITION`.

    Raises:
        InputRefused: ``SOURCE_NOT_FOUND``, ``SOURCE_EMPTY``, ``COLUMN_MISSING``,
            ``COLUMN_AMBIGUOUS``, ``COLUMN_TYPE_MISMATCH``, ``CSV_HEADER_MISSING``.
        PySparkException: Spark cannot open the source.
    """
    if not spec.is_files:
        return _with_place(_read_others(spark, spec), spec), None
    rows, of_files = _read_files(spark, spec, columns, table)
    return _with_place(rows, spec), lambda session, uris: _with_place(of_files(session, uris), spec)


_NOWHERE = "string(null)"
_POSITION = {
    "parquet": "string(_metadata.row_index)",
    "kafka": "concat(topic, '/', partition, '/', offset)",
}
"""Format -> SQL expression for the position of a row in its file or topic."""


def _with_place(rows: DataFrame, spec: SourceSpec) -> DataFrame:
    if spec.bad_rows == "fail" and spec.change != "debezium":
        return rows
    file = "_metadata.file_path" if spec.is_files else _NOWHERE
    position = _POSITION.get(spec.format, _NOWHERE)
    return rows.select("*", F.expr(file).alias(FILE), F.expr(position).alias(POSITION))


def _read_others(spark: SparkSession, spec: SourceSpec) -> DataFrame:
    reader = _reader(spark, spec).options(**dict(spec.options))
    if spec.format == "table":
        return reader.table(spec.location)
    if spec.format == "changes":
        return reader.changes(spec.location)
    reader = reader.format(spec.format)
    if spec.format in LOCATION_OPTION and spec.location:
        return reader.option(LOCATION_OPTION[spec.format], spec.location).load()
    return reader.load(spec.location) if spec.location else reader.load()


def _reader(spark: SparkSession, spec: SourceSpec) -> DataFrameReader | DataStreamReader:
    """Return the reader of a source."""
    return spark.read if spec.static else spark.readStream


def _read_files(
    spark: SparkSession, spec: SourceSpec, columns: ColumnTypes, table: str
) -> tuple[DataFrame, FilesReader]:
    place = look_up(spark, spec.location, spec.file_rules)
    if place is None:
        raise _not_found(spec, table)
    _check_all_read(spec, place, table)
    schema, extra = SCHEMAS.get(spec.format, _own_schema)(spark, spec, place, columns, table)
    options = {**dict(spec.options), **extra}
    if place.only_file:
        options["pathGlobFilter"] = place.only_file
    if not is_glob(spec.location) and not place.only_file:
        # Spark takes the folder as the base of partition folders only if its name is no glob.
        options = {"basePath": absolute(spark, spec.location), **options}
    reader = _reader(spark, spec).format(spec.format).options(**options)

    def of_files(session: SparkSession, uris: Sequence[str]) -> DataFrame:
        """Return the rows of files of a batch."""
        batch = session.read.format(spec.format).options(**options)
        paths = [escape(unquote(uri)) for uri in uris]
        return load_texts(lambda read: batch.schema(read).load(paths), spec, schema)

    return load_texts(lambda read: reader.schema(read).load(place.path), spec, schema), of_files


def with_absolute_location(
    spark: SparkSession, source: str | SourceSpec | DataFrame
) -> SourceSpec | DataFrame:
    """Return a source whose location does not depend on the working folder."""
    if isinstance(source, DataFrame):
        return source
    spec = as_spec(source)
    if spec.is_files or spec.format == DELTA:
        with suppress(*SPARK_ERRORS):  # opening the source reports what is wrong
            return replace(spec, location=absolute(spark, spec.location))
    return spec


def _not_found(spec: SourceSpec, table: str) -> InputRefused:
    return InputRefused(
        "SOURCE_NOT_FOUND",
        f"the source of {table} ({spec.redact()}) does not exist",
        help="check the path; if files arrive later, create the folder first",
    )


def check_exists(source: str | SourceSpec | DataFrame, table: str) -> None:
    """Check that a source of local files exists, without Spark.

    Raises:
        InputRefused: SOURCE_NOT_FOUND.
    """
    spec = None if isinstance(source, DataFrame) else as_spec(source)
    if spec is None or not spec.is_files or "://" in spec.location or is_glob(spec.location):
        return
    if not Path(spec.location.removeprefix("file:")).exists():
        raise _not_found(spec, table)


def _check_all_read(spec: SourceSpec, place: InputFiles, table: str) -> None:
    """Refuse a source of which Spark silently misses files; warn of files in subfolders."""
    source = f"the source of {table} ({spec.redact()})"
    if place.missed:
        raise files_unread(source, place.missed)
    if place.below:
        warning = files_unread(source, place.below)
        notice(warning.code, warning.message, help=warning.help)


SchemaOf = Callable[
    [SparkSession, SourceSpec, InputFiles, ColumnTypes, str], tuple[st.StructType, dict[str, str]]
]
"""Returns the schema to read files with, and additional options of the reader."""


def _batch_schema(spark: SparkSession, spec: SourceSpec, paths: list[str]) -> st.StructType:
    return spark.read.format(spec.format).options(**dict(spec.options)).load(paths).schema


def schema_of_file(
    spark: SparkSession, spec: SourceSpec, place: InputFiles, file: list[str]
) -> st.StructType:
    """Return the columns of one file and those in the names of the folders, as Spark has them."""
    return with_partitions(_batch_schema(spark, spec, file), partition_columns(spark, spec, place))


def with_partitions(in_file: st.StructType, partitions: st.StructType) -> st.StructType:
    """Return columns of a file with those of folders, which replace columns of the same name."""
    by_name = {field.name.lower(): field for field in partitions.fields}
    columns = [by_name.pop(field.name.lower(), field) for field in in_file.fields]
    return st.StructType([*columns, *by_name.values()])


def partition_columns(spark: SparkSession, spec: SourceSpec, place: InputFiles) -> st.StructType:
    """Return the columns in the names of the folders of a source (``name=value``).

    Spark infers their types from all folders.
    """
    if spec.file_rules.recursive or not any("=" in file for file in place.files):
        return st.StructType()
    reader = spark.read.format(spec.format).options(**dict(spec.options)).schema(st.StructType())
    return reader.load(place.load_paths).schema


def _to_planned(columns: ColumnTypes) -> st.StructType:
    return st.StructType([st.StructField(n, to_spark(t)) for n, t in columns.items()])


def _choose(
    actual: st.StructType,
    columns: ColumnTypes,
    spec: SourceSpec,
    table: str,
    ask: Callable[[st.DataType, Type], st.DataType],
) -> st.StructType:
    fields: dict[str, st.StructField] = {}
    for name, type_ in columns.items():
        field = actual.fields[find_column(name, actual.names, table)]
        inner = dict(spec.fields).get(name, ())
        read_as = in_plan_order(field.dataType, type_, inner, f"{table}.{name}")
        check_type(name, read_as, type_, table)
        fields.setdefault(field.name, st.StructField(field.name, ask(read_as, type_)))
    return st.StructType(list(fields.values()))


def _parquet_schema(
    spark: SparkSession, spec: SourceSpec, place: InputFiles, columns: ColumnTypes, table: str
) -> tuple[st.StructType, dict[str, str]]:
    if not place.files:
        assumed = [st.StructField(n, reader_type(to_spark(t), t)) for n, t in columns.items()]
        return st.StructType(assumed), {}
    actual = _batch_schema(spark, spec, place.load_paths)
    return _choose(actual, columns, spec, table, reader_type), {}


def _own_schema(
    spark: SparkSession, spec: SourceSpec, place: InputFiles, columns: ColumnTypes, table: str
) -> tuple[st.StructType, dict[str, str]]:
    """Return the schema of files that contain one; the columns are converted after reading."""
    if not place.files:
        return _to_planned(columns), {}
    actual = _batch_schema(spark, spec, place.load_paths)
    return _choose(actual, columns, spec, table, lambda actual, type_: actual), {}


def _csv_schema(
    spark: SparkSession, spec: SourceSpec, place: InputFiles, columns: ColumnTypes, table: str
) -> tuple[st.StructType, dict[str, str]]:
    """Return all columns of CSV files: the plan's columns in the plan's types, the others as text.

    Spark fails on a file with a different header.
    """
    if not place.files:
        raise InputRefused(
            "SOURCE_EMPTY",
            f"the source of {table} ({spec.redact()}) has no file yet, so its columns are not known",
            help="start the run when the first file exists",
        )
    refuse_archives(place.files[:1], table)
    header = {} if spec.by_position else {"header": "true"}
    quotes = with_csv_quotes(spec.options)
    text = replace_options(spec, **{**quotes, "inferSchema": "false", **header})
    names = schema_of_file(spark, text, place, place.first_file).names
    if spec.by_position:
        names = _names_by_position(spec, names, columns, table)
    else:
        check_header(names, columns, place.files[0], table)
    types = {find_column(n, names, table): t for n, t in columns.items()}
    fields = [
        st.StructField(name, to_spark(in_text(types[i])) if i in types else st.StringType())
        for i, name in enumerate(names)
    ]
    # Spark counts the values of a row only if it parses all columns.
    strict = {"enforceSchema": "false", "columnPruning": "false"}
    return _of_text(spec, fields, {**quotes, **header, **strict})


def check_header(names: list[str], columns: Collection[str], file: str, table: str) -> None:
    """Check that the first line of a CSV file names columns of the plan, each once.

    Spark appends the position to names that are repeated, also in other case: ``a,A`` becomes
    ``a0,A1``.

    Raises:
        InputRefused: ``COLUMN_AMBIGUOUS``, ``CSV_HEADER_MISSING``.
    """
    where = f"the first line of {file}, a source of {table},"
    for name in columns:
        repeated = [n for i, n in enumerate(names) if n.lower() == f"{name}{i}".lower()]
        if len(repeated) > 1 and not _has(name, names):
            raise InputRefused(
                "COLUMN_AMBIGUOUS",
                f"{where} has more than one column {name} (in upper or lower case)",
                help="give every column a name of its own",
            )
    if columns and not any(_has(name, names) for name in columns):
        raise InputRefused(
            "CSV_HEADER_MISSING",
            f"{where} has no column name that the plan reads ({', '.join(columns)}); it contains {', '.join(names)}",
            help="write the column names into the first line of every file, or add ?header=false to match columns by position",
        )


def _names_by_position(
    spec: SourceSpec, file_names: list[str], columns: ColumnTypes, table: str
) -> list[str]:
    """Return column names for files without a header: the plan's, then Spark's ``_c<position>``."""
    names = spec.columns or tuple(columns)
    if len(file_names) < len(names):
        raise InputRefused(
            "COLUMN_MISSING",
            f"the source of {table} ({spec.redact()}) has {len(file_names)} columns without a header, but the plan "
            f"declares {len(names)}: {', '.join(names)}",
            help="give files with these columns in this order, or files with a header",
        )
    return [*names, *file_names[len(names) :]]


def _of_text(
    spec: SourceSpec, fields: list[st.StructField], options: dict[str, str]
) -> tuple[st.StructType, dict[str, str]]:
    """Return schema and options of a text reader.

    Dates and timestamps are complete. A row that cannot be parsed fails the batch, or keeps its text in `CORRUPT` if bad rows go to
    the quarantine.
    """
    options = with_strict_times({**dict(spec.options), **options})
    if spec.bad_rows == "fail":
        return st.StructType(fields), {**options, "mode": "FAILFAST"}
    fixed = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    corrupt = st.StructField(CORRUPT, st.StringType())
    return st.StructType([*fields, corrupt]), {**options, **fixed}


def _json_schema(
    spark: SparkSession, spec: SourceSpec, place: InputFiles, columns: ColumnTypes, table: str
) -> tuple[st.StructType, dict[str, str]]:
    """Return the schema of JSON files, with the keys spelled as in the files.

    Spark compares keys with regard to case. A key that no row has is reported as missing.
    """
    if not place.files:
        empty = st.StructType()
        return _of_text(spec, _json_fields(spec, empty, columns, table), {})
    refuse_archives(place.files[:1], table)
    first = schema_of_file(spark, spec, place, place.first_file)
    try:
        fields = _json_fields(spec, first, columns, table)
    except InputRefused as error:
        if error.code != "COLUMN_MISSING" or len(place.files) == 1:
            raise
        fields = _json_fields(spec, _batch_schema(spark, spec, place.load_paths), columns, table)
    if spec.bad_rows == "quarantine" and not fields:
        # Spark does not read CORRUPT alone, so another column has to be read.
        fields = [st.StructField(name, st.StringType()) for name in first.names[:1]]
    return _of_text(spec, fields, {})


def _json_fields(
    spec: SourceSpec, actual: st.StructType, columns: ColumnTypes, table: str
) -> list[st.StructField]:
    """Return the columns to read from JSON files in which Spark finds the columns `actual`."""
    inner, fields = dict(spec.fields), {}
    for name, type_ in columns.items():
        key, inferred = name, None
        if actual.names:
            place = find_column(name, actual.names, table)
            key, inferred = actual.names[place], actual.fields[place].dataType
        read = json_type(in_text(type_), inner.get(name, ()), inferred, f"{table}.{name}")
        fields[key] = st.StructField(key, read)
    return list(fields.values())


def _has(name: str, names: list[str]) -> bool:
    return name.lower() in (f.lower() for f in names)


def replace_options(spec: SourceSpec, **options: str) -> SourceSpec:
    """Return the specification with `options` instead of those of the same names."""
    remaining = tuple(p for p in spec.options if p[0].lower() not in {o.lower() for o in options})
    return replace(spec, options=remaining + tuple(options.items()))


SCHEMAS: dict[str, SchemaOf] = {
    "parquet": _parquet_schema,
    "csv": _csv_schema,
    "json": _json_schema,
}
"""Format -> the function that finds its schema. Files of other formats contain their schema."""
