"""The rows of the streaming tables in a batch, read once for all operators.

The driver reads local Parquet files itself. It collects other small batches by one Spark job. Larger ones
are DataFrames.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from substrait_agg.errors import RunFailed
from substrait_agg.evaluation.steps import whole
from substrait_agg.flow.graph.graph import Branch, TableOrigin
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.common.spec import InputSpec
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.spark.execution.driver import RowAccess, size_of
from substrait_agg.spark.inputs.arrow_inputs import can_prepare, prepared_rows
from substrait_agg.spark.sources.connected import GivenRows
from substrait_agg.spark.sources.files import FoundFile
from substrait_agg.spark.sources.open import SourceFrame
from substrait_agg.spark.sources.parquet_reader import OpenedFiles
from substrait_agg.spark.types.schema import column_name

Collect = Callable[[DataFrame], pa.Table | None]
"""Returns the rows of a DataFrame; None if they are too large."""

TAG = "__stream"
"""Column of tagged rows: the ordinal of the table that a row belongs to."""


@dataclass(frozen=True, eq=False)
class TableUse:
    """A branch from a streaming table to an operator, the same object in every batch of a run.

    Attributes:
        origin: the columns that the branch reads.
        opened: the columns that are read from the source, for all branches of the table.
    """

    node: Node
    branch: Branch
    origin: TableOrigin
    opened: TableOrigin
    _last: list[tuple[InputSpec, bool]] = field(default_factory=list, init=False, repr=False)

    def fits_arrow(self, spec: InputSpec) -> bool:
        """Return whether the driver can prepare the rows of an operator; it has one spec in a run."""
        if not self._last or self._last[0][0] is not spec:
            is_flat = not any(pa.types.is_nested(to_arrow(t)) for t in self.origin.types)
            prepared = can_prepare(self.origin.types, self.node, self.branch, spec)
            self._last[:] = [(spec, is_flat and prepared and self.origin.upsert is None)]
        return self._last[0][1]


class TableBatch:
    """The rows of the streaming tables in a batch.

    Args:
        spark: the session that reads files.
        sources: the streaming tables.
        files: the files of each table of files that has some in the batch.
        streamed: the rows of each table that a query of Spark reads.
        arrow_rows: the rows of each table that a connector has read.
        to_frame: makes a DataFrame of such rows.

    Attributes:
        files: the opened files of all tables that have rows; None if Spark has to read the batch.

    Raises:
        InputRefused: Spark would read other rows or values from a file (`SourceFrame.check_files`).
    """

    def __init__(
        self,
        spark: SparkSession,
        sources: Mapping[TableOrigin, SourceFrame],
        files: Mapping[TableOrigin, Sequence[FoundFile]],
        streamed: Mapping[TableOrigin, DataFrame],
        arrow_rows: Mapping[TableOrigin, pa.Table],
        to_frame: Callable[[pa.Table], DataFrame],
    ) -> None:
        self._spark, self._sources, self._to_frame = spark, sources, to_frame
        self._found, self._streamed, self._arrow = files, streamed, arrow_rows
        self._present = tuple(
            o for o in sources if files.get(o) or o in streamed or o in arrow_rows
        )
        self._collected: pa.Table | None = None
        self._unreadable = False
        self._frames: dict[TableOrigin, DataFrame] = {}
        self._read: dict[TableOrigin, pa.Table] = {}
        self.files = self._open()

    def has_rows(self, origin: TableOrigin) -> bool:
        """Return whether a table may have rows in the batch."""
        return origin in self._present

    def _open(self) -> Mapping[TableOrigin, OpenedFiles | GivenRows] | None:
        """Open the files of all tables that have rows.

        Raises:
            InputRefused: Spark would read other rows or values from a file (`SourceFrame.check_files`).
        """
        opened: dict[TableOrigin, OpenedFiles | GivenRows] = {}
        for origin in self._present:
            if origin in self._arrow:
                opened[origin] = GivenRows(self._arrow[origin], origin)
                continue
            source, uris = self._sources[origin], self._uris(origin)
            files = source.reader.open(uris) if source.reader and uris else None
            if files is None:
                source.check_files(uris)
            else:
                opened[origin] = files
        return opened if len(opened) == len(self._present) else None

    def _uris(self, origin: TableOrigin) -> list[str]:
        return [file.uri for file in self._found.get(origin, ())]

    def table(self, origin: TableOrigin) -> pa.Table:
        """Return the rows of a table: ``c0``, ``c1``, ... and the weight, read from `files`.

        Raises:
            RunFailed: Spark has to read them.
        """
        if origin not in self._read:
            rows = (self.files or {})[origin].read()
            if rows is None:
                self._unreadable = True
                raise RunFailed("BATCH_FAILED", "the files of a batch cannot be read")
            self._read[origin] = rows
        return self._read[origin]

    @property
    def on_driver(self) -> bool:
        """Return whether the driver can have the rows of the batch as Arrow."""
        return not self._unreadable

    @cached_property
    def bytes(self) -> int:
        """Return the bytes of the batch: those of files, of rows of connectors, and an estimate of Spark."""
        files = sum(file.size for found in self._found.values() for file in found)
        in_memory = sum(int(rows.nbytes) for rows in self._arrow.values())
        return files + in_memory + sum(map(size_of, self._streamed.values()))

    def collect(self, origin: TableOrigin, collect: Collect) -> pa.Table:
        """Return the rows of a table; one Spark job collects those of all tables.

        Raises:
            RunFailed: Spark could not read the rows, or they are too many.
        """
        if self._collected is None:
            self._unreadable = True
            self._collected = collect(tag_rows([self.frame(each) for each in self._present]))
            if self._collected is None:
                raise RunFailed("BATCH_FAILED", "the batch is too large for the driver")
            self._unreadable = False
        return self._of_table(origin, self._collected)

    def _of_table(self, origin: TableOrigin, rows: pa.Table) -> pa.Table:
        if len(self._present) == 1:
            return rows
        tag = self._present.index(origin)
        own = rows.column(f"o{tag}")
        names = [field.name for field in own.type]
        fields = [whole(column) for column in own.flatten()]
        return pa.table(fields, names=names).filter(pc.equal(rows.column(TAG), tag))

    def frame(self, origin: TableOrigin) -> DataFrame:
        """Return the rows of a table as a DataFrame that may be read several times.

        Raises:
            PySparkException: a file cannot be opened.
        """
        if origin not in self._frames:
            self._frames[origin] = self._make(origin)
        return self._frames[origin]

    def _make(self, origin: TableOrigin) -> DataFrame:
        source = self._sources[origin]
        if origin not in self._present:
            return self._spark.createDataFrame([], source.frame.schema)
        if origin in self._streamed:
            return self._streamed[origin]
        if origin in self._arrow and source.of_given is not None:
            return source.of_given(self._to_frame(self._arrow[origin]))
        if source.of_files is None:
            raise TypeError(origin)
        return source.of_files(self._spark, self._uris(origin))

    @property
    def every_frame(self) -> list[DataFrame]:
        """Return the rows of all tables, also of those without rows."""
        return [self.frame(origin) for origin in self._sources]

    def rows_of(self, origin: TableOrigin) -> DataFrame:
        """Return the rows of a table as `frame`, from memory if they are collected."""
        frame = self.frame(origin)
        if self._collected is None or origin not in self._present:
            return frame
        return self._spark.createDataFrame(self._of_table(origin, self._collected), frame.schema)


def tag_rows(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of several tables as one: a tag, and the columns of each as a struct ``o{tag}``.

    A single table is returned unchanged.
    """
    if len(frames) == 1:
        return frames[0]
    # Arrow refuses a null struct with required fields.
    schemas = [StructType([StructField(f.name, f.dataType) for f in r.schema]) for r in frames]
    parts = []
    for tag, frame in enumerate(frames):
        own = F.struct(*(F.col(name) for name in frame.columns))
        columns = [
            (own if other == tag else F.lit(None)).cast(schema).alias(f"o{other}")
            for other, schema in enumerate(schemas)
        ]
        parts.append(frame.select(F.lit(tag).alias(TAG), *columns))
    return reduce(DataFrame.unionAll, parts)


def untag_rows(rows: DataFrame, tables: int) -> list[DataFrame]:
    """Return the rows of each table of `tag_rows`."""
    if tables == 1:
        return [rows]
    return [rows.where(F.col(TAG) == i).select(f"o{i}.*") for i in range(tables)]


class TableRows:
    """The rows of tables for an operator in a batch."""

    table = ""

    def __init__(
        self, batch: TableBatch, uses: Sequence[TableUse], prepared: Callable[[], DataFrame]
    ) -> None:
        self._batch, self._uses, self._prepared = batch, uses, prepared
        self._direct = False

    @property
    def prepared(self) -> DataFrame:
        """Return the input rows of the operator as a DataFrame."""
        return self._prepared()

    def count(self) -> int:
        """Return the number of late rows: no row is late without a watermark."""
        return 0

    def rows(self) -> DataFrame:
        """Return the late rows."""
        raise TypeError("no row is late")

    def fits_arrow(self, spec: InputSpec) -> bool:
        """Return whether `arrow_rows` gives the rows of `prepared`."""
        self._direct = self._batch.files is not None
        return self._batch.on_driver and all(use.fits_arrow(spec) for use in self._uses)

    @property
    def access(self) -> RowAccess:
        """Return how `arrow_rows` reads the rows; call `fits_arrow` before."""
        if not self._direct:
            return RowAccess.JOB
        files = self._batch.files or {}
        in_memory = all(isinstance(files[use.opened], GivenRows) for use in self._uses)
        return RowAccess.MEMORY if in_memory else RowAccess.FILES

    def size(self, _written: Mapping[str, int]) -> int | None:
        """Return the bytes of the rows; call `fits_arrow` before."""
        files = self._batch.files
        if files is None:
            return self._batch.bytes
        return sum(files[opened].bytes for opened in {use.opened for use in self._uses})

    def arrow_rows(self, collect: Collect) -> pa.Table:
        """Return the input rows of the operator as Arrow; call `fits_arrow` before.

        Args:
            collect: collects a DataFrame; None if it is too large.

        Raises:
            RunFailed: a value cannot be computed, or Spark has to read the rows.
        """
        tables = ((self._rows_of(use, collect), use.node, use.branch) for use in self._uses)
        parts = [prepared_rows(*each) for each in tables]
        return pa.concat_tables(parts, promote_options="default")

    def _rows_of(self, use: TableUse, collect: Collect) -> pa.Table:
        """Return the columns of a table that a branch reads, in its order, and the weight."""
        opened, origin = use.opened, use.origin
        batch = self._batch
        rows = batch.table(opened) if self._direct else batch.collect(opened, collect)
        places = [opened.names.index(name) for name in origin.names]
        names = [column_name(i) for i in range(len(places))]
        columns = [rows.column(column_name(place)) for place in places]
        typed = zip(columns, origin.types, strict=True)
        columns = [column.cast(to_arrow(type_)) for column, type_ in typed]
        return pa.table([*columns, rows.column(WEIGHT)], names=[*names, WEIGHT])
