"""Find the row of a CSV or JSON file that Spark could not parse: its line, column and value.

The error of a reader names the file, but not the row. So the file is read again, only after a
failure, and rows that cannot be parsed are read as text. A column is at fault if the text has a
value and the parsed row has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from substrait_agg.errors import RunFailed
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.plan.types import Type
from substrait_agg.spark.session.errors import row_unreadable
from substrait_agg.spark.sources.files import escape, look_up
from substrait_agg.spark.sources.open import columns_to_read
from substrait_agg.spark.sources.parse_faults import TextColumn, load_texts, parse_faults
from substrait_agg.spark.sources.readers import SCHEMAS
from substrait_agg.spark.sources.specs import SourceSpec, Table, as_spec
from substrait_agg.spark.types.bad_rows import CORRUPT, first_fault

_FORMATS = ("csv", "json")
_PLACE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?(?=/)")
"""The scheme and host of a path."""
_SHOWN = 200
_ONE_PARTITION = 1 << 33
"""From here on, values of `monotonically_increasing_id` belong to a second partition and are not
line numbers."""


def explain(
    spark: SparkSession,
    error: RunFailed,
    sources: Mapping[Table, str | SourceSpec | DataFrame],
    origins: Iterable[TableOrigin],
) -> RunFailed:
    """Add the row that could not be parsed to an error; return it unchanged if no row is found.

    Args:
        spark: session in which the file is read again.
        error: the error of a batch.
        sources: the sources of the tables.
        origins: the reads of tables.
    """
    if error.code != "ROW_UNREADABLE" or not error.path:
        return error
    for origin in origins:
        source = sources.get(origin.table)
        if source is None or isinstance(source, DataFrame):
            continue
        try:
            refused = _find_in_file(spark, as_spec(source), origin, error.path)
        except Exception:  # noqa: BLE001, S112 - the first error is more important
            continue
        if refused is not None:
            return refused
    return error


@dataclass(frozen=True, slots=True)
class _TextFile:
    """A file with the reader options of its source.

    Attributes:
        file: its path.
        path: its path, escaped for Spark.
        rows: its rows that cannot be parsed: the parsed columns, and the text in `CORRUPT`.
        names: names of the columns in the file.
        types: the types of the columns that the plan reads, by name in the file.
    """

    file: str
    path: str
    rows: DataFrame
    names: tuple[str, ...]
    types: Mapping[str, Type]


def _find_in_file(
    spark: SparkSession, spec: SourceSpec, origin: TableOrigin, file: str
) -> RunFailed | None:
    if spec.format not in _FORMATS or spec.change == "debezium":
        return None
    table = ".".join(origin.table)
    read = _open(spark, spec, columns_to_read(spec, origin), table, file)
    if read is None:
        return None
    columns = [
        TextColumn(name, i, F.col(f"`{name.replace('`', '``')}`"), read.types[name])
        for i, name in enumerate(read.names)
        if name in read.types
    ]
    faults = parse_faults(spec, columns, len(read.names))
    row = read.rows.select(first_fault(faults).alias("fault"), F.col(CORRUPT).alias("text")).first()
    if row is None:
        return None
    line = _line(spark, read.path, row["text"])
    place = "a row" if line is None else f"line {line}"
    fault = row["fault"].partition("] ")[2]
    what = f"{place} of table {table} cannot be read: {fault}"
    return row_unreadable(f"{what} (the row is {_cut(row['text'])})", read.file)


def _open(
    spark: SparkSession, spec: SourceSpec, columns: Mapping[str, Type], table: str, file: str
) -> _TextFile | None:
    place = look_up(spark, spec.location, spec.file_rules)
    # Spark's message contains the path as part of a URL.
    paths = (_path(file), unquote(_path(file)))
    same = [f for f in place.files if _path(f) in paths] if place is not None else []
    if place is None or not same:
        return None
    schema, extra = SCHEMAS[spec.format](spark, spec, place, columns, table)
    own = {k: v for k, v in {**dict(spec.options), **extra}.items() if k.lower() != "mode"}
    options = {**own, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    fields = [f for f in schema.fields if f.name != CORRUPT]
    with_corrupt = st.StructType([*fields, st.StructField(CORRUPT, st.StringType())])
    path = escape(same[0])
    reader = spark.read.format(spec.format).options(**options)
    rows = load_texts(lambda read: reader.schema(read).load(path), spec, with_corrupt)
    types = {name.lower(): type_ for name, type_ in columns.items()}
    return _TextFile(
        same[0],
        path,
        rows.where(F.col(CORRUPT).isNotNull()),
        tuple(f.name for f in fields),
        {f.name: types[f.name.lower()] for f in fields if f.name.lower() in types},
    )


def _line(spark: SparkSession, path: str, text: str) -> int | None:
    """Return the number of the first line with a text, from 1.

    None for a row over several lines, and for a file that Spark reads in several partitions.
    """
    lines = spark.read.text(path).select(F.monotonically_increasing_id().alias("n"), "value")
    first = lines.where(F.col("value") == text).agg(F.min("n").alias("n")).first()
    number = None if first is None else first["n"]
    return None if number is None or number >= _ONE_PARTITION else int(number) + 1


def _path(location: str) -> str:
    return _PLACE.sub("", location)


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
