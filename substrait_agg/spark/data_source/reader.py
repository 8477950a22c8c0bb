"""Read a version of a view, or changes.

A worker imports this module, so it imports little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from substrait_agg.spark.data_source.options import ReadOptions
from substrait_agg.spark.data_source.partitions import read_partition, report_errors


class ViewReader(DataSourceReader):
    """Reads rows of a version, or changes."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return partitions by ranges of hashes, or of change files."""
        from substrait_agg.spark.data_source.planning import partitions

        with report_errors():
            return partitions(self._options, self._schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        return read_partition(partition, self._schema)
