"""The data source that Spark registers as ``substrait_agg``."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from substrait_agg.errors import UsageError
from substrait_agg.spark.data_source.options import ReadOptions
from substrait_agg.spark.data_source.partitions import report_errors
from substrait_agg.spark.data_source.reader import ViewReader
from substrait_agg.spark.data_source.working_folder import absolute


class DefaultSource(DataSource):
    """Views as DataFrames: ``spark.read.format("substrait_agg").load(checkpoint)``.

    Spark creates it with the options of a read. docs/reading-views.md describes them.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # A later call in another process must not resolve a relative path in another folder.
        for name in [name for name in options if name.lower() == "path" and options[name]]:
            with report_errors():
                self.options[name] = absolute(options[name])

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "substrait_agg"

    def _options(self) -> ReadOptions:
        return ReadOptions.of(dict(self.options))

    def schema(self) -> StructType:
        """Return the columns of the view at the version that is read.

        Changes also have ``__version`` and ``__weight``.
        """
        from substrait_agg.spark.data_source.planning import columns_of, spark_schema

        with report_errors():
            return spark_schema(columns_of(self._options()))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of a version, or of changes."""
        with report_errors():
            return ViewReader(self._options(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader that follows the changes."""
        with report_errors():
            try:
                from substrait_agg.spark.data_source.stream import ViewStreamReader
            except ImportError as error:
                raise UsageError(
                    "PYSPARK_MISSING",
                    "this PySpark is too old: streams of substrait_agg need PySpark 4.2",
                    help="pip install 'pyspark>=4.2'",
                ) from error
            return ViewStreamReader(self._options(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Refuse a write."""
        self._refuse_writes()

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802 - Spark's name
        """Refuse a write of a stream."""
        self._refuse_writes()

    def _refuse_writes(self) -> NoReturn:
        with report_errors():
            raise UsageError(
                "VIEW_READ_ONLY",
                "a view cannot be written: its rows are the result of its plan",
                help="write the rows to a source of the plan, or in another format",
                path=self.options.get("path", ""),
            )
        raise AssertionError  # `report_errors` raises every error again
