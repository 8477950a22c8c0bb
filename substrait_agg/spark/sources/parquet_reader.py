"""Read Parquet files of a source on the driver, without a Spark job.

A `ParquetReader` gives the rows that `open_source` gives with Spark, or None where it is not certain
of that: Spark then reads the files, and reports what is wrong with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from substrait_agg.errors import InputRefused
from substrait_agg.evaluation.steps import whole
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import Type
from substrait_agg.spark.session.errors import SPARK_ERRORS
from substrait_agg.spark.sources.files import is_local, read_end
from substrait_agg.spark.sources.specs import OPERATIONS, SourceSpec
from substrait_agg.spark.types.parquet_types import INT96_UNIT, misread
from substrait_agg.spark.types.schema import column_name, to_spark

UNREADABLE = (OSError, pa.ArrowException, KeyError, ValueError)
"""Exceptions for files that Spark has to read, or to complain about."""

VALUE_BYTES = 8
"""Bytes of a value in memory, at least."""
FOOTER_BYTES = 1 << 16
"""Bytes that are read first from the end of a file in a store. Most footers are shorter."""
FOOTERS_AT_ONCE = 16
"""Footers of a store that are read at the same time."""
THREADED_ROWS = 1 << 15
"""Rows of a file from which on its columns are read in several threads."""
_PLAIN_OPTIONS = frozenset(
    {"latestfirst", "maxfileage", "maxfilespertrigger", "maxbytespertrigger", "recursivefilelookup",
     "pathglobfilter", "filenameonly", "mergeschema"}
)  # fmt: skip
"""Options that choose files, but do not change what is read from them."""
_INTEGERS: Mapping[str, pa.DataType] = {
    "i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64(),
}  # fmt: skip
_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_TEXTS = (pa.string(), pa.large_string())
_PLAIN: Mapping[str, st.DataType] = {
    "bool": st.BooleanType(),
    "fp32": st.FloatType(),
    "fp64": st.DoubleType(),
    "string": st.StringType(),
    "varchar": st.StringType(),
    "fixedchar": st.StringType(),
    "binary": st.BinaryType(),
    "date": st.DateType(),
    "precision_timestamp": st.TimestampNTZType(),
    "precision_timestamp_tz": st.TimestampType(),
}
"""Kind -> the type that Spark must have found in the files, so that values stay as they are."""
_FIRST_DATE = pa.scalar(date(1582, 10, 15))
_FIRST_INSTANT = pa.scalar(datetime(1900, 1, 1), pa.timestamp("us"))  # noqa: DTZ001
"""Spark may shift earlier values: old releases wrote them in another calendar."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column to read.

    Attributes:
        name: its name in the files.
        types: the Arrow types of a file that are read.
        read_as: the type that Spark reads.
        target: the type of the values.
        required: whether no value may be null.
    """

    name: str
    types: tuple[pa.DataType, ...]
    read_as: st.DataType
    target: pa.DataType
    required: bool


@dataclass(frozen=True, slots=True)
class OpenedFiles:
    """Files of a batch that a `ParquetReader` has opened.

    Attributes:
        bytes: bytes of the columns that are read, decompressed; at least `VALUE_BYTES` per value,
            because a file stores repeated values once.
    """

    bytes: int
    _reader: ParquetReader
    _paths: tuple[str, ...]

    def read(self) -> pa.Table | None:
        """Return the columns ``c0``, ``c1``, ... in the plan's types, and the weight (int64).

        Returns:
            None if Spark has to read the files.
        """
        try:
            tables = [self._reader.rows_of(path) for path in self._paths]
        except UNREADABLE:
            return None
        return pa.concat_tables(tables).combine_chunks()


@dataclass(frozen=True, slots=True)
class ParquetReader:
    """A source of local Parquet files with plain types.

    Attributes:
        columns: the columns of the table.
        change: the column of weights or operations; None if every row is an insert.
        signs: operation -> weight; None if the column has weights.
    """

    columns: tuple[_Column, ...]
    change: _Column | None
    signs: Mapping[str, int] | None

    def open(self, uris: Sequence[str]) -> OpenedFiles | None:
        """Look at the files by their URIs; None if Spark has to read them.

        Raises:
            InputRefused: COLUMN_TYPE_MISMATCH: Spark would read other values.
        """
        paths, size = [], 0
        try:
            for uri in uris:
                paths.append(_local_path(uri))
                if "=" in paths[-1]:
                    return None  # a folder may have the value of a column in its name
                with _open(paths[-1]) as file:
                    values = VALUE_BYTES * file.metadata.num_rows
                    read = self._find(file, uri)
                    size += sum(max(values, _bytes(file, c.name)) for c in read)
        except UNREADABLE:
            return None
        return OpenedFiles(size, self, tuple(paths))

    def rows_of(self, path: str) -> pa.Table:
        """Read a file; one of `UNREADABLE` means that Spark has to read it."""
        with _open(path, self._dictionaries()) as file:
            present = self._find(file, path)
            rows, names = file.metadata.num_rows, [column.name for column in present]
            read = file.read(columns=names, use_threads=rows >= THREADED_ROWS)
        columns = {}
        for i, column in enumerate(self.columns):
            is_present = column in present
            values = (
                whole(read.column(column.name)) if is_present else pa.nulls(rows, column.target)
            )
            columns[column_name(i)] = _convert(values, column)
        columns[WEIGHT] = self._weights(read, rows)
        return pa.table(columns)

    def _dictionaries(self) -> list[str] | None:
        """Return the column of operations: each different text is compared once."""
        if self.change is None or self.signs is None:
            return None
        return None if self.change.name in {c.name for c in self.columns} else [self.change.name]

    def _find(self, file: pq.ParquetFile, name: str) -> list[_Column]:
        """Return the columns that a file has, each once; `name` is the name of the file."""
        schema = file.schema_arrow
        lower_names = [name.lower() for name in schema.names]
        columns = []
        for column in (*self.columns, *([self.change] if self.change else [])):
            times = lower_names.count(column.name.lower())
            if not times and column is not self.change:
                continue  # Spark reads nulls
            # Spark compares names without regard to case.
            if times != 1 or column.name not in schema.names:
                raise KeyError(column.name)
            type_ = schema.field(column.name).type
            if column is self.change and pa.types.is_dictionary(type_):
                type_ = type_.value_type
            _check_type(column.name, type_, column.read_as, name)
            if type_ not in column.types:
                raise KeyError(column.name)
            columns.append(column)
        return list(dict.fromkeys(columns))

    def _weights(self, read: pa.Table, rows: int) -> pa.Array:
        if self.change is None:
            return pa.array(np.ones(rows, np.int64))
        values = whole(read.column(self.change.name))
        if self.signs is None:
            return _convert(values, self.change)
        if not pa.types.is_dictionary(values.type):
            return self._signs_of(_convert(values, self.change), self.signs)
        if values.null_count:
            raise ValueError(self.change.name)
        signs = self._signs_of(_convert(values.dictionary, self.change), self.signs)
        return signs.take(values.indices)

    def _signs_of(self, operations: pa.Array, signs: Mapping[str, int]) -> pa.Array:
        places = pc.index_in(operations, pa.array(signs, pa.string()))
        if places.null_count:
            raise ValueError("an unknown operation")
        return pa.array(list(signs.values()), pa.int64()).take(places)


def check_types(
    schema: st.StructType, uris: Sequence[str], session: Callable[[], SparkSession]
) -> None:
    """Check that Spark reads the values that files have.

    A file that cannot be read, and a column that a file does not have, are left to Spark.

    Args:
        schema: what Spark reads from the files.
        uris: their URIs.
        session: returns the session that reads the files of stores.

    Raises:
        InputRefused: COLUMN_TYPE_MISMATCH, COLUMN_AMBIGUOUS.
    """
    read_as = {field.name.lower(): field.dataType for field in schema.fields}

    def columns(uri: str) -> pa.Schema:
        """Return the columns of a file; none if it cannot be read."""
        with suppress(*UNREADABLE, *SPARK_ERRORS):
            place = _local_path(uri) if is_local(uri) else _footer(session(), uri)
            with _open(place) as file:
                return file.schema_arrow
        return pa.schema([])

    local = all(map(is_local, uris))
    with ThreadPoolExecutor(1 if local else FOOTERS_AT_ONCE) as pool:
        schemas = map(columns, uris) if local else pool.map(columns, uris)
        for uri, in_file in zip(uris, schemas, strict=True):
            _check_names(in_file.names, read_as, uri)
            for field in in_file:
                if field.name.lower() in read_as:
                    _check_type(field.name, field.type, read_as[field.name.lower()], uri)


def _open(place: str | bytes, dictionaries: list[str] | None = None) -> pq.ParquetFile:
    """Open a file, or the end of one, by its path or its bytes."""
    source = place if isinstance(place, str) else pa.BufferReader(place)
    unit = INT96_UNIT
    return pq.ParquetFile(source, read_dictionary=dictionaries, coerce_int96_timestamp_unit=unit)


def _footer(session: SparkSession, uri: str) -> bytes:
    """Return the end of a file in a store, with the whole footer."""
    end = read_end(session, uri, FOOTER_BYTES)
    length = int.from_bytes(end[-8:-4], "little") + 8
    return end if length <= len(end) else read_end(session, uri, length)


def _check_names(names: Sequence[str], read: Collection[str], file: str) -> None:
    """Check that each column that is read, by its name in lower case, is in a file once."""
    counts = Counter(name.lower() for name in names)
    for name in (name for name in read if counts[name] > 1):
        same = ", ".join(n for n in names if n.lower() == name)
        raise InputRefused(
            "COLUMN_AMBIGUOUS",
            f"the file has several columns {name} (in upper or lower case): {same}",
            help="give every column a name of its own; nothing of the batch was committed",
            path=file,
        )


def _check_type(name: str, type_: pa.DataType, read_as: st.DataType, file: str) -> None:
    for part, in_file, as_ in misread(type_, read_as, name):
        raise InputRefused(
            "COLUMN_TYPE_MISMATCH",
            f"column {part} is {in_file} in the file, and is read as {as_.simpleString()}",
            help=f"write the column as {as_.simpleString()} in the file; nothing of the batch was committed",
            path=file,
        )


def parquet_reader(
    spec: SourceSpec, schema: st.StructType, origin: TableOrigin
) -> ParquetReader | None:
    """Return a reader of the files of a source; None if Spark has to read them all.

    Args:
        spec: the source.
        schema: what Spark reads from the files.
        origin: the columns of the plan, in whose order the reader gives them.
    """
    plain = all(key.lower() in _PLAIN_OPTIONS for key, _ in spec.options)
    if spec.format != "parquet" or spec.bad_rows != "fail" or not plain:
        return None
    if spec.change == "debezium" or origin.upsert is not None:
        return None
    columns = [_column(n, t, schema) for n, t in zip(origin.names, origin.types, strict=True)]
    kinds = {"weight": Type("i64", nullable=False), "op": Type("string", nullable=False)}
    kind = kinds.get(spec.change)
    change = None if kind is None else _column(spec.change_column, kind, schema)
    readable = tuple(column for column in columns if column is not None)
    if len(readable) < len(columns) or (kind is not None and change is None):
        return None
    return ParquetReader(readable, change, OPERATIONS if spec.change == "op" else None)


def _column(name: str, type_: Type, schema: st.StructType) -> _Column | None:
    """Return how to read a column; None if Spark has to read it."""
    matching = [f for f in schema.fields if f.name.lower() == name.lower()]
    if len(matching) != 1 or "." in matching[0].name:
        return None
    field, required = matching[0], not type_.nullable
    if type_.kind in _INTEGERS:
        fits = field.dataType == st.LongType()
        if not fits:
            return None
        return _Column(field.name, _SIGNED, field.dataType, _INTEGERS[type_.kind], required)
    expected = to_spark(type_) if type_.kind == "decimal" else _PLAIN.get(type_.kind)
    if field.dataType != expected:
        return None
    target = to_arrow(type_)
    types = _TEXTS if target == pa.string() else (target,)
    return _Column(field.name, types, field.dataType, target, required)


def _local_path(uri: str) -> str:
    """Return the path of a URI of a local file."""
    scheme, _, rest = uri.partition(":")
    path = unquote(rest.removeprefix("//"))
    if scheme != "file" or not path.startswith("/"):
        raise ValueError(uri)
    return path


def _bytes(file: pq.ParquetFile, name: str) -> int:
    """Return the decompressed bytes of a column in a file."""
    place, metadata = file.schema.names.index(name), file.metadata
    groups = (metadata.row_group(g).column(place) for g in range(metadata.num_row_groups))
    return sum(int(chunk.total_uncompressed_size) for chunk in groups)


def _convert(values: pa.Array, column: _Column) -> pa.Array:
    """Return values in the type of the plan."""
    if column.required and values.null_count:
        raise ValueError(column.name)
    if column.target == pa.string():
        values.validate(full=True)
    converted = values.cast(column.target)
    first = None
    if pa.types.is_date(column.target):
        first = _FIRST_DATE
    elif pa.types.is_timestamp(column.target) and column.target.tz is not None:
        converted, first = converted.view(pa.timestamp("us")), _FIRST_INSTANT
    if first is not None and pc.any(pc.less(converted, first)).as_py():
        raise ValueError(column.name)
    return converted if converted.type == column.target else converted.view(column.target)
