"""Exchange rows with Spark by Parquet files in the folder of change files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from substrait_agg.commit.documents.file_names import change_name
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.files.locations import Location, Remote, location_of
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.plan.types import Type
from substrait_agg.runtime.left_out import BatchFunction
from substrait_agg.spark.sources.connected import given_schema
from substrait_agg.spark.sources.files import escape
from substrait_agg.spark.types.schema import column_name, to_spark

PIECE_ROWS = 1 << 16
"""Rows of a file that are read at once."""
EMBEDDED_BYTES = 1 << 20
"""Bytes of rows up to which they are part of the plan of a DataFrame, which Spark copies several times."""
FILE_BYTES = 64 << 20
"""Bytes of rows after which another file begins."""


class GivenRowsWriter:
    """Makes DataFrames of Arrow rows, and deletes the files of large ones at the end.

    Args:
        spark: the session of the DataFrames.
        files: the folder of change files.
        version: the version that the rows lead to. A sweep deletes files that a kill left.
    """

    def __init__(self, spark: SparkSession, files: FolderFiles, version: int) -> None:
        self._spark, self._files, self._version = spark, files, version
        self._names: list[str] = []

    def frame(self, rows: pa.Table) -> DataFrame:
        """Return rows as a DataFrame with the same columns."""
        schema = given_schema(rows.schema)
        if rows.nbytes <= EMBEDDED_BYTES:
            return self._spark.createDataFrame(rows, schema)
        names = [self._write(part) for part in _parts(rows)]
        return read_parquet(self._spark, [self._files.path(name) for name in names], schema)

    def _write(self, rows: pa.Table) -> str:
        name = change_name(self._version, "input")
        self._names.append(name)
        with self._files.create(name, durable=False) as sink:
            pq.write_table(rows, sink, row_group_size=PIECE_ROWS * 4, compression="lz4")
        return name

    def close(self) -> None:
        """Delete the files."""
        for name in self._names:
            self._files.delete(name)


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield rows in parts of about `FILE_BYTES`."""
    step = max(1, rows.num_rows * FILE_BYTES // rows.nbytes)
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


def read_changes(spark: SparkSession, node: Node, paths: Sequence[Location]) -> DataFrame:
    """Read the rows of change files.

    Returns:
        Columns ``c0``, ``c1``, ... with the operator's output types, and ``__weight`` (int64).
    """
    fields = [st.StructField(column_name(i), to_spark(t)) for i, t in enumerate(node.types)]
    schema = st.StructType([*fields, st.StructField(WEIGHT, st.LongType())])
    places = (i for i, type_ in enumerate(node.types) if _differs_in_parquet(type_))
    return read_parquet(spark, paths, schema, inferred=frozenset(map(column_name, places)))


def read_parquet(
    spark: SparkSession,
    paths: Iterable[Location],
    schema: st.StructType,
    *,
    inferred: frozenset[str] = frozenset(),
) -> DataFrame:
    """Read Parquet files of a checkpoint.

    Spark reads local files itself. It may have no access to an object store that holds the
    checkpoint, so Python workers read the files from there.

    Args:
        spark: the session.
        paths: the files.
        schema: the columns of the files.
        inferred: columns whose types Spark has to read from local files, which takes a job.
    """
    remote = [str(path) for path in paths if isinstance(path, Remote)]
    if not remote:
        names = [escape(str(path)) for path in paths]
        if inferred:
            stored = spark.read.parquet(*names).schema
            schema = st.StructType([stored[f.name] if f.name in inferred else f for f in schema])
        return spark.read.schema(schema).parquet(*names)
    count = min(len(remote), spark.sparkContext.defaultParallelism)
    rows = spark.createDataFrame([(path,) for path in remote], "path string").repartition(count)
    return rows.mapInArrow(_reader(to_arrow_schema(schema, timezone="UTC")), schema)


def _differs_in_parquet(type_: Type) -> bool:
    """Return whether Spark reads a type from Parquet files in another way than `to_spark` declares it."""
    return type_.kind == "precision_time" or any(
        _differs_in_parquet(child) for child in type_.children
    )


def _reader(schema: pa.Schema) -> BatchFunction:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files whose paths arrive."""
        for batch in batches:
            for path in batch.column("path").to_pylist():
                yield from _pieces(path, schema)

    return read


def _pieces(path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    place = location_of(path)
    with pq.ParquetFile(FolderFiles(place.parent).map(place.name)) as file:
        for piece in file.iter_batches(PIECE_ROWS, columns=schema.names):
            yield piece.cast(schema)
