"""Complete tables: column types from their sources, names of CSV columns from the plan.

A plan may give no types for the columns of a table. A CSV file may have no header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_schema

from substrait_agg.bind.bound import BoundRead
from substrait_agg.bind.context import SourceSchemas, UntypedTable
from substrait_agg.bind.plan.table_sources import source_of
from substrait_agg.errors import InputRefused
from substrait_agg.notices import notice
from substrait_agg.plan.plannable import plannable
from substrait_agg.plan.types import Type, names_width
from substrait_agg.redaction import safe_cause
from substrait_agg.spark.sources.connected import with_connected
from substrait_agg.spark.sources.files import InputFiles, escape, local_files, look_up
from substrait_agg.spark.sources.open import unreadable
from substrait_agg.spark.sources.readers import read_source, schema_of_file
from substrait_agg.spark.sources.specs import SourceSpec, Table, as_spec
from substrait_agg.spark.types.source_columns import find_column

Source = str | SourceSpec | DataFrame

NO_TYPES = frozenset({"csv", "text", "xml"})
"""File formats without column types. Types inferred from some values may not fit later values."""

_SIMPLE: dict[type[st.DataType], Type] = {
    st.BooleanType: Type("bool"),
    st.ByteType: Type("i8"),
    st.ShortType: Type("i16"),
    st.IntegerType: Type("i32"),
    st.LongType: Type("i64"),
    st.FloatType: Type("fp32"),
    st.DoubleType: Type("fp64"),
    st.StringType: Type("string"),
    st.CharType: Type("string"),
    st.VarcharType: Type("string"),
    st.BinaryType: Type("binary"),
    st.DateType: Type("date"),
    st.TimestampNTZType: Type("precision_timestamp", params=(6,)),
    st.TimestampType: Type("precision_timestamp_tz", params=(6,)),
    st.TimeType: Type("precision_time", params=(6,)),
    st.DayTimeIntervalType: Type("interval_day", params=(6,)),
    st.YearMonthIntervalType: Type("interval_year"),
    st.VariantType: Type("struct", children=(Type("binary"), Type("binary"))),
}
"""Spark type without parameters -> plan type.

Every type is nullable, because a file stream reports every column as nullable.
"""


def source_schemas(
    tables: Sequence[UntypedTable],
    sources: Mapping[str, Source],
    session: Callable[[], SparkSession],
    *,
    footers: bool = False,
) -> SourceSchemas:
    """Return the columns of the tables that a plan reads without types.

    Args:
        tables: the tables, as `substrait_agg.bind.untyped_tables` returns them.
        sources: the sources of the plan's tables by name.
        session: returns the session that opens the sources. It is not called if every source is a
            DataFrame.
        footers: whether footers of local Parquet files are read without Spark, if Spark reads their
            types in the same way.

    Raises:
        InputRefused: ``SOURCE_MISSING``, ``SOURCE_AMBIGUOUS``, ``SOURCE_NOT_FOUND``,
            ``SOURCE_EMPTY``, ``SOURCE_UNREADABLE``, ``SOURCE_TYPES_UNKNOWN``, ``COLUMN_MISSING``,
            ``COLUMN_AMBIGUOUS``.
    """
    by_table = {table: source_of(table, sources) for table, _ in tables}
    schemas = {
        table: (_of_footer(source) if footers else None) or schema_of(source, table, session)
        for table, source in by_table.items()
    }
    return {key: columns_of(key, schemas[key[0]]) for key in tables}


def columns_of(
    key: UntypedTable, schema: st.StructType
) -> tuple[tuple[str, ...], tuple[Type, ...]]:
    """Return names and types of the top-level columns of a table whose source has `schema`.

    The plan lists column names depth first. The names of nested fields are skipped.

    Raises:
        InputRefused: ``COLUMN_MISSING``, ``COLUMN_AMBIGUOUS``, ``SOURCE_TYPES_UNKNOWN``.
    """
    table, written = ".".join(key[0]), list(key[1])
    names, types = [], []
    while written:
        name = written.pop(0)
        field = schema.fields[find_column(name, schema.names, table)]
        names.append(name)
        types.append(_type(field.dataType, name, table))
        del written[: names_width(types[-1]) - 1]
    return tuple(names), tuple(types)


def _type(actual: st.DataType, name: str, table: str) -> Type:
    simple = _SIMPLE.get(type(actual))
    if simple is not None:
        return simple
    if isinstance(actual, st.DecimalType):
        return Type("decimal", params=(actual.precision, actual.scale))
    if isinstance(actual, st.ArrayType):
        return Type("list", children=(_type(actual.elementType, name, table),))
    if isinstance(actual, st.MapType):
        parts = (actual.keyType, actual.valueType)
        return Type("map", children=tuple(_type(part, name, table) for part in parts))
    if isinstance(actual, st.StructType):
        parts_of = (field.dataType for field in actual.fields)
        return Type("struct", children=tuple(_type(part, name, table) for part in parts_of))
    raise InputRefused(
        "SOURCE_TYPES_UNKNOWN",
        f"column {name} of {table} is {actual.simpleString()} in the source, and no type of a plan matches it",
        help="convert the column in the source, or write the column types into the plan",
    )


def _of_footer(source: Source) -> st.StructType | None:
    """Return the columns of the oldest local Parquet file; None if Spark has to look at them."""
    spec = None if isinstance(source, DataFrame) else as_spec(source)
    if spec is None or spec.format != "parquet" or ":" in spec.location:
        return None
    files = local_files(spec.location, spec.file_rules)
    oldest = min(files, key=lambda file: (file.modified, file.name)) if files else None
    if oldest is None or "=" in oldest.name.rpartition("/")[0]:
        return None
    try:
        columns = pq.read_schema(oldest.path)
    except (pa.ArrowInvalid, OSError):
        return None
    if not all(map(_is_plain, columns.types)):
        return None
    return from_arrow_schema(plannable(columns), prefer_timestamp_ntz=True)


def _is_plain(type_: pa.DataType) -> bool:
    """Return whether Spark reads values of a type from Parquet as Arrow does."""
    tests = (
        pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_date32, pa.types.is_decimal128,
        pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary,
        pa.types.is_float32, pa.types.is_float64,
    )  # fmt: skip
    time = pa.types.is_timestamp(type_) and type_.unit in ("ms", "us")
    return time or any(test(type_) for test in tests)


def schema_of(
    source: Source, table: tuple[str, ...], session: Callable[[], SparkSession]
) -> st.StructType:
    """Return the schema of a source as Spark has it.

    Raises:
        InputRefused: as `source_schemas`.
    """
    if isinstance(source, DataFrame):
        return source.schema
    shown, spec = ".".join(table), as_spec(source)
    if spec.change == "debezium" or spec.format in NO_TYPES:
        raise InputRefused(
            "SOURCE_TYPES_UNKNOWN",
            f"the plan gives no column types for {shown}, and its source ({spec.redact()}) has none",
            help="give a source with types, such as Parquet or a DataFrame, or write the types into the plan",
        )
    if spec.is_connected:
        connected = as_spec(with_connected({table: spec})[table])
        return from_arrow_schema(plannable(connected.schema))
    spark = session()
    try:
        if not spec.is_files:
            return read_source(spark, spec, {}, shown)[0].schema
        return _schema_of_files(spark, spec, shown)
    except (PySparkException, Py4JJavaError) as error:
        raise unreadable(spec, shown, error) from safe_cause(error)


def _schema_of_files(spark: SparkSession, spec: SourceSpec, table: str) -> st.StructType:
    """Return the columns of the oldest file, and those in the names of folders.

    The oldest file does not change when files arrive, so a continued run sees the same columns.
    """
    place = look_up(spark, spec.location, spec.file_rules)
    if place is None or not place.files:
        code, what = (
            ("SOURCE_NOT_FOUND", "does not exist")
            if place is None
            else ("SOURCE_EMPTY", "has no file yet")
        )
        raise InputRefused(
            code,
            f"the source of {table} ({spec.redact()}) {what}, so the column types are not known",
            help="start the run when the first file exists, or write the column types into the plan",
        )
    return schema_of_file(spark, spec, place, _oldest(place))


def _oldest(place: InputFiles) -> list[str]:
    if len(place.modified) != len(place.files):
        return place.first_file
    return [escape(min(zip(place.modified, place.files, strict=True))[1])]


def with_names(sources: Mapping[Table, Source], reads: Iterable[BoundRead]) -> dict[Table, Source]:
    """Return the sources with names of the plan: of columns without a header, and of struct fields.

    A warning lists the columns of each source without a header.

    Raises:
        InputRefused: TABLE_READS_DIFFER: the plan declares the columns of such a table in several
            ways.
    """
    by_table: dict[Table, list[BoundRead]] = {}
    for read in reads:
        by_table.setdefault(read.table, []).append(read)
    return {
        table: source
        if isinstance(source, DataFrame)
        else _with_positions(_with_fields(as_spec(source), by_table[table]), table, by_table[table])
        for table, source in sources.items()
    }


def _with_fields(spec: SourceSpec, reads: Sequence[BoundRead]) -> SourceSpec:
    """Add the names of struct fields on which all reads of a table agree."""
    pairs = {(n, f) for read in reads for n, f in zip(read.names, read.fields, strict=False) if f}
    names = [name for name, _ in pairs]
    return replace(spec, fields=tuple(sorted(p for p in pairs if names.count(p[0]) == 1)))


def _with_positions(spec: SourceSpec, table: Table, reads: Sequence[BoundRead]) -> SourceSpec:
    name, declared = ".".join(table), {read.names for read in reads}
    if not spec.by_position:
        return spec
    if len(declared) > 1:
        raise InputRefused(
            "TABLE_READS_DIFFER",
            f"the source of {name} has no header, and the plan declares the table with different columns",
            help="give files with a header, or declare the table in the same way in every read",
        )
    (names,) = declared
    columns = ", ".join(f"{place}: {column}" for place, column in enumerate(names, 1))
    notice(
        "CSV_BY_POSITION",
        f"the source of {name} has no header, so its columns are matched by position ({columns})",
        help="to match columns by name, write a header into every file and remove header=false",
    )
    return replace(spec, columns=names)
