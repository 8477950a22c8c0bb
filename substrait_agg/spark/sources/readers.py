"""Streams of rows from files, tables and other Spark formats, with the columns that a plan wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from substrait_agg.errors import InputRefused
from substrait_agg.plan.types import Type
from substrait_agg.spark.sources.files import Place, look_up
from substrait_agg.spark.sources.specs import SourceSpec
from substrait_agg.spark.types.bad_rows import CORRUPT, FILE, POSITION
from substrait_agg.spark.types.schema import in_text, to_spark
from substrait_agg.spark.types.source_columns import check_type, find_column, reader_type

Wanted = Mapping[str, Type]
"""Columns to read: name in the plan -> type in the plan."""

NO_FILE_TOO_OLD = "100000d"
"""Spark leaves out files that are a week older than the newest one unless told otherwise."""

LOCATION_OPTION = {"kafka": "subscribe"}
"""The option that a location stands for in formats that have no path."""


def read_stream(spark: SparkSession, spec: SourceSpec, wanted: Wanted, table: str) -> DataFrame:
    """The stream of all rows of a source; it has the `wanted` columns, and maybe others.

    Where bad rows are set aside, the columns `FILE` and `POSITION` come last, before them `CORRUPT` for CSV and JSON.

    Raises:
        InputRefused: ``SOURCE_NOT_FOUND``, ``SOURCE_EMPTY``, ``COLUMN_MISSING``, ``COLUMN_AMBIGUOUS``,
            ``COLUMN_TYPE_MISMATCH``, ``CSV_HEADER_MISSING``.
        PySparkException: where Spark cannot open it.
    """
    frame = _read_files if spec.is_files else _read_others
    rows = frame(spark, spec, wanted, table)
    return rows if spec.bad_rows == "fail" else _with_place(rows, spec)


_NOWHERE = "string(null)"
_POSITION = {
    "parquet": "string(_metadata.row_index)",
    "kafka": "concat(topic, '/', partition, '/', offset)",
}
"""Format -> where in its file or topic a row is, as an expression."""


def _with_place(rows: DataFrame, spec: SourceSpec) -> DataFrame:
    file = "_metadata.file_path" if spec.is_files else _NOWHERE
    position = _POSITION.get(spec.format, _NOWHERE)
    return rows.select("*", F.expr(file).alias(FILE), F.expr(position).alias(POSITION))


def _read_others(spark: SparkSession, spec: SourceSpec, _wanted: Wanted, _table: str) -> DataFrame:
    reader = spark.readStream.options(**dict(spec.options))
    if spec.format == "table":
        return reader.table(spec.location)
    if spec.format == "changes":
        return reader.changes(spec.location)
    reader = reader.format(spec.format)
    if spec.format in LOCATION_OPTION and spec.location:
        return reader.option(LOCATION_OPTION[spec.format], spec.location).load()
    return reader.load(spec.location) if spec.location else reader.load()


def _read_files(spark: SparkSession, spec: SourceSpec, wanted: Wanted, table: str) -> DataFrame:
    place = look_up(spark, spec.location)
    if place is None:
        raise InputRefused(
            "SOURCE_NOT_FOUND",
            f"the source of {table} ({spec.redacted()}) does not exist",
            help="check the path; a folder that is to be filled later must exist already",
        )
    schema, extra = SCHEMAS.get(spec.format, _own_schema)(spark, spec, place, wanted, table)
    options = {"latestFirst": "false", "maxFileAge": NO_FILE_TOO_OLD, **dict(spec.options), **extra}
    if place.only_file:
        options["pathGlobFilter"] = place.only_file
    if spec.batch_files is not None:
        options["maxFilesPerTrigger"] = str(spec.batch_files)
    return spark.readStream.format(spec.format).options(**options).schema(schema).load(place.path)


SchemaOf = Callable[
    [SparkSession, SourceSpec, Place, Wanted, str], tuple[st.StructType, dict[str, str]]
]
"""Gives the schema to read files with, and further options of the reader."""


def _batch_schema(spark: SparkSession, spec: SourceSpec, paths: list[str]) -> st.StructType:
    return spark.read.format(spec.format).options(**dict(spec.options)).load(paths).schema


def _planned(wanted: Wanted) -> st.StructType:
    return st.StructType([st.StructField(n, to_spark(t)) for n, t in wanted.items()])


def _chosen(
    actual: st.StructType,
    wanted: Wanted,
    table: str,
    ask: Callable[[st.DataType, Type], st.DataType],
) -> st.StructType:
    fields: dict[str, st.StructField] = {}
    for name, type_ in wanted.items():
        field = actual.fields[find_column(name, actual.names, table)]
        check_type(name, field.dataType, type_, table)
        fields.setdefault(field.name, st.StructField(field.name, ask(field.dataType, type_)))
    return st.StructType(list(fields.values()))


def _parquet_schema(
    spark: SparkSession, spec: SourceSpec, place: Place, wanted: Wanted, table: str
) -> tuple[st.StructType, dict[str, str]]:
    if not place.files:
        assumed = [st.StructField(n, reader_type(to_spark(t), t)) for n, t in wanted.items()]
        return st.StructType(assumed), {}
    actual = _batch_schema(spark, spec, place.load_paths)
    return _chosen(actual, wanted, table, reader_type), {}


def _own_schema(
    spark: SparkSession, spec: SourceSpec, place: Place, wanted: Wanted, table: str
) -> tuple[st.StructType, dict[str, str]]:
    """Other formats whose files carry a schema: read as they are, converted afterwards."""
    if not place.files:
        return _planned(wanted), {}
    actual = _batch_schema(spark, spec, place.load_paths)
    return _chosen(actual, wanted, table, lambda found, type_: found), {}


def _csv_schema(
    spark: SparkSession, spec: SourceSpec, place: Place, wanted: Wanted, table: str
) -> tuple[st.StructType, dict[str, str]]:
    """Every column of the files, those of the plan in the plan's types; a file with another header fails."""
    if not place.files:
        raise InputRefused(
            "SOURCE_EMPTY",
            f"the source of {table} ({spec.redacted()}) has no file yet, so its columns are not known",
            help="start when the first file is there",
        )
    header = {} if spec.by_position else {"header": "true"}
    text = replace_options(spec, inferSchema="false", **header)
    names = _batch_schema(spark, text, place.first_file).names
    if spec.by_position:
        names = _names_by_position(spec, names, wanted, table)
    elif not any(_has(name, names) for name in wanted) and wanted:
        raise InputRefused(
            "CSV_HEADER_MISSING",
            f"the first line of {place.files[0]}, a source of {table}, names no column that the plan reads"
            f" ({', '.join(wanted)}); its values are {', '.join(names)}",
            help="write the column names in the first line of every file, or add ?header=false, which takes columns by position",
        )
    types = {find_column(n, names, table): t for n, t in wanted.items()}
    fields = [
        st.StructField(name, to_spark(in_text(types[i])) if i in types else st.StringType())
        for i, name in enumerate(names)
    ]
    return _of_text(spec, fields, {**header, "enforceSchema": "false"})


def _names_by_position(spec: SourceSpec, found: list[str], wanted: Wanted, table: str) -> list[str]:
    """The names of columns that have none in the file: first those of the plan, then Spark's ``_c<position>``."""
    names = spec.columns or tuple(wanted)
    if len(found) < len(names):
        raise InputRefused(
            "COLUMN_MISSING",
            f"the source of {table} ({spec.redacted()}) has {len(found)} columns without a header, and the plan declares"
            f" {len(names)}: {', '.join(names)}",
            help="give files with a column for each of them, in this order, or with a header",
        )
    return [*names, *found[len(names) :]]


def _of_text(
    spec: SourceSpec, fields: list[st.StructField], options: dict[str, str]
) -> tuple[st.StructType, dict[str, str]]:
    """The schema and options with which rows that cannot be parsed fail, or keep their text where they are set aside."""
    if spec.bad_rows == "fail":
        return st.StructType(fields), {**options, "mode": "FAILFAST"}
    kept = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    corrupt = st.StructField(CORRUPT, st.StringType())
    return st.StructType([*fields, corrupt]), {**options, **kept}


def _json_schema(
    spark: SparkSession, spec: SourceSpec, place: Place, wanted: Wanted, table: str
) -> tuple[st.StructType, dict[str, str]]:
    """Keys as the files write them (Spark tells them apart by case); a key that no row has is missing."""
    names: dict[str, Type] = {}
    found = _batch_schema(spark, spec, place.first_file).names if place.files else []
    if any(not _has(name, found) for name in wanted) and len(place.files) > 1:
        found = _batch_schema(spark, spec, place.load_paths).names
    for name, type_ in wanted.items():
        names[found[find_column(name, found, table)] if found else name] = in_text(type_)
    if spec.bad_rows == "quarantine" and not names:
        # Spark does not read the text of rows alone.
        names = dict.fromkeys(found[:1], Type("string"))
    return _of_text(spec, _planned(names).fields, {})


def _has(name: str, found: list[str]) -> bool:
    return name.lower() in (f.lower() for f in found)


def replace_options(spec: SourceSpec, **options: str) -> SourceSpec:
    """The specification with `options` in place of those of the same name."""
    kept = tuple(p for p in spec.options if p[0].lower() not in {o.lower() for o in options})
    return replace(spec, options=kept + tuple(options.items()))


SCHEMAS: dict[str, SchemaOf] = {
    "parquet": _parquet_schema,
    "csv": _csv_schema,
    "json": _json_schema,
}
"""Format -> how its schema is found; others carry their own."""
