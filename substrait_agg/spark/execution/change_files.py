"""Read change files as a DataFrame: the rows that one operator hands to the next within a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.files.locations import Location, Remote, location_of
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.spark.execution.task_runner import BatchFunction
from substrait_agg.spark.sources.files import escaped
from substrait_agg.spark.types.schema import column_name, to_spark

PIECE_ROWS = 1 << 16


def read_changes(spark: SparkSession, node: Node, paths: Sequence[Location]) -> DataFrame:
    """Read the rows of change files.

    Spark reads local files itself. It may have no access to an object store that holds the
    checkpoint, so Python workers read the files from there.

    Args:
        spark: the session.
        node: the operator that wrote the changes.
        paths: the files, at least one.

    Returns:
        Columns ``c0``, ``c1``, ... with the operator's output types, and ``__weight`` (int64).
    """
    remote = [str(path) for path in paths if isinstance(path, Remote)]
    if not remote:
        return spark.read.parquet(*(escaped(str(path)) for path in paths))
    fields = [st.StructField(column_name(i), to_spark(t)) for i, t in enumerate(node.types)]
    schema = st.StructType([*fields, st.StructField(WEIGHT, st.LongType())])
    count = min(len(remote), spark.sparkContext.defaultParallelism)
    names = spark.createDataFrame([(path,) for path in remote], "path string").repartition(count)
    return names.mapInArrow(_reader(to_arrow_schema(schema, timezone="UTC")), schema)


def _reader(schema: pa.Schema) -> BatchFunction:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                yield from _pieces(path, schema)

    return read


def _pieces(path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    place = location_of(path)
    with pq.ParquetFile(FolderFiles(place.parent).map(place.name)) as file:
        for piece in file.iter_batches(PIECE_ROWS, columns=schema.names):
            yield piece.cast(schema)
