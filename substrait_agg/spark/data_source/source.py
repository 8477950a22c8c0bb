"""The data source that Spark registers as ``substrait_agg``.

A worker imports this module, so it imports little.

Spark creates a data source in a worker. The working folder of a worker is that in which Spark was
started, which need not be that of the program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from substrait_agg.errors import UsageError
from substrait_agg.files.filesystem import filesystem
from substrait_agg.spark.data_source.options import ReadOptions
from substrait_agg.spark.data_source.partitions import read_partition, report_errors

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

_PROCESSES = Path("/proc")

_MOST_ANCESTORS = 10


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


def absolute(path: str) -> str:
    """Return the path of a checkpoint, a relative one in the working folder of the Python program.

    Raises:
        UsageError: OPTION_INVALID for a relative path if the program is not known: it did not start
            Spark itself, or the system does not tell which process did.
    """
    if _SCHEME.match(path) or Path(path).is_absolute():
        return path
    folder = program_folder()
    if folder is None:
        raise UsageError(
            "OPTION_INVALID",
            f"the path {path!r} is relative, and Spark does not know the working folder of your program",
            help="give an absolute path: str(Path(...).resolve())",
            path="path",
        )
    return str(folder / path)


def program_folder(process: int | None = None) -> Path | None:
    """Return the working folder of the Python program that started the JVM above a process.

    Returns:
        The folder; None if no Python program started the JVM, or the system has no ``/proc``.
    """
    current = os.getpid() if process is None else process
    try:
        for _ in range(_MOST_ANCESTORS):
            parent = _parent(current)
            if _program(current) == "java":
                is_python = _program(parent).startswith("python")
                return (_PROCESSES / str(parent) / "cwd").readlink() if is_python else None
            current = parent
    except (OSError, ValueError):
        return None
    return None


def _program(process: int) -> str:
    return (_PROCESSES / str(process) / "exe").readlink().name


def _parent(process: int) -> int:
    # The name of the program, in brackets, may contain blanks and brackets.
    status = filesystem().read(_PROCESSES / str(process) / "stat").decode(errors="replace")
    return int(status.rpartition(")")[2].split()[1])
