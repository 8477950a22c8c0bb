"""Read a micro-batch once for all operators: on the driver where it is small, else as DataFrames.

The driver reads local Parquet files itself. It collects other small batches by one Spark job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from substrait_agg.errors import RunFailed
from substrait_agg.evaluation.steps import whole, with_sets
from substrait_agg.flow.graph.graph import Branch, TableOrigin
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.common.spec import InputSpec
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.spark.inputs.arrow_inputs import can_exchange, can_prepare, prepared_rows
from substrait_agg.spark.offsets.planned_files import PlannedSource
from substrait_agg.spark.session.errors import SPARK_ERRORS
from substrait_agg.spark.sources.open import SourceFrame
from substrait_agg.spark.sources.parquet_reader import PlannedFiles, count_rows
from substrait_agg.spark.types.schema import column_name

Collect = Callable[[DataFrame], pa.Table | None]
"""Returns the rows of a DataFrame; None if they are too large."""

TAG = "__stream"
"""Column of a tagged stream: the ordinal of the set of columns that a row has."""


@dataclass(frozen=True, eq=False)
class TableUse:
    """A branch from a streaming table to an operator, the same object in every batch of a run.

    Attributes:
        origin: the columns that the branch reads.
        opened: the columns that are read from the source; the branches of a table may share them.
        tag: the set of columns in the stream.
        whole: whether the stream has the rows of the table; otherwise it has prepared rows of the
            operator.
    """

    node: Node
    branch: Branch
    origin: TableOrigin
    opened: TableOrigin
    tag: int
    whole: bool
    _last: list[tuple[InputSpec, bool]] = field(default_factory=list, init=False, repr=False)

    def fits_arrow(self, spec: InputSpec) -> bool:
        """Return whether the driver can prepare the rows of an operator; it has one spec in a run."""
        if not self._last or self._last[0][0] is not spec:
            prepared = can_prepare(self.origin.types, self.node, self.branch, spec)
            self._last[:] = [(spec, prepared and self.origin.upsert is None)]
        return self._last[0][1]


class StreamBatch:
    """A micro-batch of the stream of a run.

    Args:
        frame: the rows of the batch, tagged if there are several sets of columns.
        sets: number of sets of columns.
        sources: the tables in the order of Spark's sources.
        planned: what Spark has planned to read from each source; empty if that is not known.
        of_files: whether `frame` has no columns, and the rows are read from the planned files. There
            is a set of columns for each table then.
        exact: returns the rows of the batch where Spark reads files of `frame` more than once.

    Attributes:
        files: the files of all tables that have rows; None if Spark has to read the batch.

    Raises:
        InputRefused: Spark would read other rows or values from a file (`SourceFrame.check_files`).
    """

    def __init__(
        self,
        frame: DataFrame,
        sets: int,
        sources: Mapping[TableOrigin, SourceFrame],
        planned: Sequence[PlannedSource],
        *,
        of_files: bool,
        exact: Callable[[], DataFrame] | None = None,
    ) -> None:
        self._stream, self._sources, self._of_files = frame, sources, of_files
        self._exact = exact
        all_planned = len(planned) == len(sources)
        self._planned = dict(zip(sources, planned, strict=True)) if all_planned else {}
        if of_files and not all(source.empty or source.files for source in self._planned.values()):
            self._planned = {}
        if of_files and not self._planned:
            raise RunFailed(
                "BATCH_FAILED",
                "the files of the batch are not in the log of Spark",
                help="restore the whole checkpoint folder from one copy",
            )
        tags = enumerate(sources) if of_files else ()
        self._origins = {tag: origin for tag, origin in tags if self.has_rows(origin)}
        self._tags = tuple(self._origins) if of_files else tuple(range(sets))
        self._collected: pa.Table | None = None
        self._unreadable = False
        self._shared: DataFrame | None = None
        self._read: dict[TableOrigin, pa.Table] = {}
        self.files = self._opened()

    def has_rows(self, origin: TableOrigin) -> bool:
        """Return whether a table may have rows in the batch."""
        return origin not in self._planned or not self._planned[origin].empty

    def _opened(self) -> Mapping[TableOrigin, PlannedFiles] | None:
        """Open the files of all tables that have rows.

        Raises:
            InputRefused: Spark would read other rows or values from a file (`SourceFrame.check_files`).
        """
        files: dict[TableOrigin, PlannedFiles | None] = {}
        for origin, planned in self._planned.items():
            if planned.empty:
                continue
            source, uris = self._sources[origin], planned.files or ()
            files[origin] = source.reader.open(uris) if source.reader and uris else None
            if files[origin] is None:
                source.check_files(uris)
        opened = {origin: part for origin, part in files.items() if part is not None}
        return opened if self._planned and len(opened) == len(files) else None

    @property
    def rows_without_spark(self) -> tuple[int, ...]:
        """Return the number of rows of each source that has any; empty if Spark's stream read them."""
        streamed = self._shared is not None or self._collected is not None or not self._read
        if streamed and not self._of_files:
            return ()
        if self.files is not None:
            return tuple(files.rows for files in self.files.values())
        return tuple(count_rows(p.files) for p in self._planned.values() if p.files)

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
    def _frame(self) -> DataFrame:
        """Return the rows of the batch, tagged if there are several sets of columns."""
        if not self._of_files:
            return self._stream if self._exact is None else self._exact()
        return tagged([self.frame(tag) for tag in self._tags], self._tags)

    @cached_property
    def bytes(self) -> int:
        """Return the bytes of the batch, as Spark estimates them before reading."""
        frame: Any = self._frame
        return int(str(frame._jdf.queryExecution().analyzed().stats().sizeInBytes()))

    def collected(self, tag: int, collect: Collect) -> pa.Table:
        """Return a set of columns of the batch, which one Spark job collects for all operators.

        Raises:
            RunFailed: Spark could not read the rows, or they are too many.
        """
        if self._collected is None:
            self._unreadable = True
            self._collected = collect(self._shared or self._frame)
            if self._collected is None:
                raise RunFailed("BATCH_FAILED", "the batch is too large for the driver")
            self._unreadable = False
        rows = self._collected
        if len(self._tags) == 1:
            return rows
        own = rows.column(f"o{tag}")
        names = [field.name for field in own.type]
        fields = [whole(column) for column in own.flatten()]
        return pa.table(fields, names=names).filter(pc.equal(rows.column(TAG), tag))

    def frame(self, tag: int) -> DataFrame:
        """Return a set of columns of the batch as a DataFrame."""
        if self._of_files:
            return self._frame_of_files(self._origins[tag])
        if self._shared is None:
            self._shared = self._share()
        if len(self._tags) == 1:
            return self._shared
        return self._shared.where(F.col(TAG) == tag).select(f"o{tag}.*")

    def _frame_of_files(self, origin: TableOrigin) -> DataFrame:
        read, files = self._sources[origin].of_files, self._planned[origin].files
        if read is None or files is None:
            raise TypeError(origin)
        return read(self._stream.sparkSession, files)

    def _share(self) -> DataFrame:
        """Return the batch as a DataFrame that may be read several times."""
        if self._collected is not None:
            session: SparkSession = self._frame.sparkSession
            return session.createDataFrame(self._collected, self._frame.schema)
        return self._frame.persist() if len(self._tags) > 1 else self._frame

    def close(self) -> None:
        """Release what the batch keeps."""
        if self._shared is not None and len(self._tags) > 1:
            with suppress(*SPARK_ERRORS):
                self._shared.unpersist()


def tagged(frames: Sequence[DataFrame], tags: Sequence[int]) -> DataFrame:
    """Return several sets of columns as one: a tag, and the columns of each as a struct ``o{tag}``.

    A single set is returned unchanged.
    """
    if len(frames) == 1:
        return frames[0]
    # Arrow refuses a null struct with required fields.
    schemas = [StructType([StructField(f.name, f.dataType) for f in r.schema]) for r in frames]
    parts = []
    for tag, frame in zip(tags, frames, strict=True):
        own = F.struct(*(F.col(name) for name in frame.columns))
        columns = [
            (own if other == tag else F.lit(None)).cast(schema).alias(f"o{other}")
            for other, schema in zip(tags, schemas, strict=True)
        ]
        parts.append(frame.select(F.lit(tag).alias(TAG), *columns))
    return reduce(DataFrame.unionAll, parts)


class TableRows:
    """The rows of tables for an operator in a micro-batch."""

    table = ""

    def __init__(
        self, batch: StreamBatch, uses: Sequence[TableUse], prepared: Callable[[], DataFrame]
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
        batch = self._batch
        if not batch.on_driver:
            return False
        steps = {use: use.fits_arrow(spec) for use in self._uses}
        self._direct = batch.files is not None and all(steps.values())
        return self._direct or all(
            steps[use] if use.whole else can_exchange(use.node, use.branch, spec) for use in steps
        )

    @property
    def needs_job(self) -> bool:
        """Return whether `arrow_rows` needs a Spark job; call `fits_arrow` before."""
        return not self._direct

    def size(self, _written: Mapping[str, int]) -> int | None:
        """Return the bytes of the rows; call `fits_arrow` before."""
        files = self._batch.files
        if files is None or not self._direct:
            return self._batch.bytes
        return sum(files[opened].bytes for opened in {use.opened for use in self._uses})

    def arrow_rows(self, collect: Collect) -> pa.Table:
        """Return the input rows of the operator as Arrow; call `fits_arrow` before.

        Args:
            collect: collects a DataFrame; None if it is too large.

        Raises:
            RunFailed: a value cannot be computed, or Spark has to read the rows.
        """
        tables = [use for use in self._uses if use.whole or self._direct]
        parts = [prepared_rows(self._rows_of(use, collect), use.node, use.branch) for use in tables]
        tags = {use.tag: use.node for use in self._uses if use not in tables}
        parts += [with_sets(self._batch.collected(t, collect), n) for t, n in tags.items()]
        return pa.concat_tables(parts, promote_options="default")

    def _rows_of(self, use: TableUse, collect: Collect) -> pa.Table:
        """Return the columns of a table that a branch reads, in its order, and the weight."""
        opened, origin = use.opened, use.origin
        batch = self._batch
        rows = batch.table(opened) if self._direct else batch.collected(use.tag, collect)
        places = [opened.names.index(name) for name in origin.names]
        names = [column_name(i) for i in range(len(places))]
        columns = [rows.column(column_name(place)) for place in places]
        typed = zip(columns, origin.types, strict=True)
        columns = [column.cast(to_arrow(type_)) for column, type_ in typed]
        return pa.table([*columns, rows.column(WEIGHT)], names=[*names, WEIGHT])
