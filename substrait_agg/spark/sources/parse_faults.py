"""Find the column and value that made Spark fail to parse a row of text (CSV, JSON).

Spark keeps the text of such a row and sets the unreadable columns to null. A column is therefore at
fault if the text has a value for it and the row has null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from substrait_agg.plan.types import Type
from substrait_agg.spark.sources.format_options import OF_FOLDERS, with_csv_quotes
from substrait_agg.spark.sources.specs import SourceSpec
from substrait_agg.spark.types.bad_rows import CORRUPT, Fault, error_text

_SHOWN = 100
_MALFORMED = "malformed"
_OF_FILES = frozenset({*OF_FOLDERS, "header", "multiLine", "lineSep", "encoding", "charset"})
"""Options that apply to a file as a whole and not to a single row."""


def row_options(options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the options of a CSV source that apply to a single row."""
    every = with_csv_quotes(options).items()
    return {name: text for name, text in every if name not in _OF_FILES and "." not in name}


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
    return [width, *values, (corrupt.isNotNull(), _unparsed(table, "CSV"))]


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
        (corrupt.isNotNull(), _unparsed(table, "JSON")),
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


def _unparsed(table: str, form: str) -> Column:
    return error_text(
        "ROW_UNREADABLE", f"{_row(table)} cannot be parsed as {form} with the types of the plan"
    )


def _row(table: str) -> str:
    return f"a row of table {table}" if table else "it"
