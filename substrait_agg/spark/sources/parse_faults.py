"""Parse numbers of text files (CSV, JSON), and find the column and value that make a row unreadable.

Spark keeps the text of such a row and sets the unreadable columns to null. A column is therefore at
fault if the text has a value for it and the row has null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from substrait_agg.plan.types import Type
from substrait_agg.spark.session.errors import ROW_OF_FILE
from substrait_agg.spark.sources.format_options import OF_FOLDERS, with_csv_quotes
from substrait_agg.spark.sources.specs import SourceSpec
from substrait_agg.spark.types.bad_rows import CORRUPT, Fault, error_text, row_as_json
from substrait_agg.spark.types.text_numbers import NumberTexts

_SHOWN = 100
_MALFORMED = "malformed"
_OF_FILES = frozenset({*OF_FOLDERS, "header", "multiLine", "lineSep", "encoding", "charset"})
"""Options that apply to a file as a whole and not to a single row."""


def row_options(options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the options of a CSV source that apply to a single row."""
    every = with_csv_quotes(options).items()
    return {name: text for name, text in every if name not in _OF_FILES and "." not in name}


def load_texts(
    load: Callable[[st.StructType], DataFrame], spec: SourceSpec, schema: st.StructType
) -> DataFrame:
    """Return the rows of files; numbers of CSV and JSON are parsed from their texts.

    A row with a text that is no number fails the batch, or has its text in `CORRUPT` if the schema
    has that column.

    Args:
        load: loads the files with the columns that it is given.
        spec: the specification.
        schema: the columns and their types.
    """
    numbers = _number_texts(spec)
    if numbers is None:
        return load(schema)
    fields = ((f.name, numbers.in_file(f.dataType)) for f in schema)
    read = st.StructType([st.StructField(name, type_) for name, type_ in fields])
    rows = load(read)
    if read == schema:
        return rows
    path_of_row = F.col("_metadata.file_path")
    rows = rows.select("*", path_of_row).toDF(*(f"p{i}" for i in range(len(schema) + 1)))
    columns = [F.col(f"p{i}") for i in range(len(schema))]
    broken = [numbers.unreadable(c, f.dataType) for c, f in zip(columns, schema, strict=True)]
    values = [numbers.parse(c, f.dataType) for c, f in zip(columns, schema, strict=True)]
    if schema.names[-1:] == [CORRUPT]:
        values = [F.when(~test, value) for test, value in zip(broken, values, strict=True)]
        row = _write(columns[:-1], read, spec)
        any_broken = reduce(lambda a, b: a | b, broken)
        values[-1] = F.coalesce(columns[-1], F.when(any_broken, row))
    else:
        values = [
            value if numbers.in_file(f.dataType) == f.dataType else
            F.when(~test, value).otherwise(_raise(column, f, F.col(f"p{len(schema)}")))
            for test, value, column, f in zip(broken, values, columns, schema, strict=True)
        ]  # fmt: skip
    return rows.select(*(v.alias(f.name) for v, f in zip(values, schema, strict=True)))


def _number_texts(spec: SourceSpec) -> NumberTexts | None:
    if spec.change == "debezium" or spec.format not in ("csv", "json"):
        return None
    options = {name.lower(): value for name, value in spec.options}
    named = {"nanvalue": "NaN", "positiveinf": "Infinity", "negativeinf": "-Infinity"}
    texts = [(options[name], meaning) for name, meaning in named.items() if name in options]
    return NumberTexts(spec.format == "csv", spec.decimal == ",", texts)


def _write(columns: Sequence[Column], read: st.StructType, spec: SourceSpec) -> Column:
    """Return a row as text of its format."""
    fields = read.fields[: len(columns)]
    if spec.format == "csv":
        return F.to_csv(F.struct(*columns), row_options(spec.options))
    return row_as_json([(f.name, c, f.dataType) for c, f in zip(columns, fields, strict=True)])


def _raise(column: Column, field: st.StructField, path: Column) -> Column:
    text = F.concat(
        F.lit(f"[ROW_UNREADABLE] {ROW_OF_FILE}"),
        path,
        F.lit(f" cannot be read: column {field.name} has the value '"),
        F.left(column.cast("string"), F.lit(_SHOWN)),
        F.lit(f"', which is not a valid {field.dataType.simpleString()}"),
    )
    return F.raise_error(text).cast(field.dataType)


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of the plan that is parsed from text.

    Attributes:
        name: the name in the file.
        ordinal: the position in the file; for JSON, in the reader's schema.
        value: the parsed value; null if parsing failed.
    """

    name: str
    ordinal: int
    value: Column
    type: Type


def parse_faults(
    spec: SourceSpec, columns: Sequence[TextColumn], count: int, table: str = ""
) -> list[Fault]:
    """Return the faults of rows whose text is in the column `CORRUPT`; none for other formats."""
    if spec.format == "csv":
        return _csv_faults(columns, count, row_options(spec.options), table)
    return _json_faults(columns, table) if spec.format == "json" else []


def _csv_faults(
    columns: Sequence[TextColumn], count: int, options: Mapping[str, str], table: str
) -> list[Fault]:
    corrupt = F.col(CORRUPT)
    schema = ", ".join([*(f"t{i} string" for i in range(count)), f"{_MALFORMED} string"])
    texts = F.from_csv(corrupt, schema, {**options, "columnNameOfCorruptRecord": _MALFORMED})
    width = (
        texts[_MALFORMED].isNotNull(),
        error_text(
            "ROW_UNREADABLE",
            f"{_row(table)} does not have {count} values, as the files have columns; if values contain line breaks, "
            "add multiLine=true to the source",
        ),
    )
    values = [_column_fault(texts[f"t{c.ordinal}"], c, table) for c in columns]
    return [width, *values, (corrupt.isNotNull(), _is_unparsed(table, "CSV"))]


def _json_faults(columns: Sequence[TextColumn], table: str) -> list[Fault]:
    corrupt = F.col(CORRUPT)
    no_object = corrupt.isNotNull() & F.json_object_keys(corrupt).isNull()
    values = [
        _column_fault(F.get_json_object(corrupt, f"$['{c.name}']"), c, table)
        for c in columns
        if not set("'\\]") & set(c.name)
    ]
    return [
        (no_object, error_text("ROW_UNREADABLE", f"{_row(table)} is not a JSON object")),
        *values,
        (corrupt.isNotNull(), _is_unparsed(table, "JSON")),
    ]


def _column_fault(text: Column, column: TextColumn, table: str) -> Fault:
    of_table = f" of table {table}" if table else ""
    start = f"[ROW_UNREADABLE] column {column.name}{of_table} has the value '"
    message = F.concat(
        F.lit(start),
        F.left(text, F.lit(_SHOWN)),
        F.lit(f"', which is not a valid {replace(column.type, nullable=False)}"),
    )
    return text.isNotNull() & column.value.isNull(), message


def _is_unparsed(table: str, form: str) -> Column:
    return error_text(
        "ROW_UNREADABLE", f"{_row(table)} cannot be parsed as {form} with the types of the plan"
    )


def _row(table: str) -> str:
    return f"a row of table {table}" if table else "it"
