"""Open the inputs of a flow: one stream of all streaming rows, and rows for the first version.

Each micro-batch of the stream is split into the rows of every operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.files.locations import Location, Remote, location_of
from substrait_agg.flow.graph.graph import Branch, OperatorOrigin, RowsOrigin, TableOrigin
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.flow.passes.upserts import output_names
from substrait_agg.operator.common.names import TIME, WEIGHT
from substrait_agg.plan.types import Type
from substrait_agg.spark.execution.task_runner import BatchFunction
from substrait_agg.spark.expressions import to_column
from substrait_agg.spark.inputs.event_sources import EventSource
from substrait_agg.spark.inputs.event_state import BatchTimes, EventState
from substrait_agg.spark.inputs.event_time_observer import EventTimeObserver
from substrait_agg.spark.inputs.late_rows import BranchRows, Lateness, LateRowOrigin, micros
from substrait_agg.spark.inputs.linear_steps import apply_steps, prepare, union_all
from substrait_agg.spark.inputs.stream_batch import TAG, StreamBatch, TableRows, TableUse, tagged
from substrait_agg.spark.offsets.planned_files import (
    PlannedSource,
    spark_repeats_files,
    wildcard_refused,
)
from substrait_agg.spark.sources.files import escaped
from substrait_agg.spark.sources.open import (
    SourceFrame,
    has_files,
    is_static,
    open_source,
    sets_aside,
)
from substrait_agg.spark.sources.specs import SourceSpec, Table
from substrait_agg.spark.types.bad_rows import BAD, BadRows
from substrait_agg.spark.types.literals import literal
from substrait_agg.spark.types.schema import column_name, to_spark
from substrait_agg.spark.types.source_columns import all_nullable

Source = str | SourceSpec | DataFrame
"""A source of a table: SPEC text, a parsed SPEC or a DataFrame."""

Frames = Mapping[int, DataFrame]
"""Prepared input rows by operator id."""


def table_origins(flow: Flow) -> tuple[TableOrigin, ...]:
    """Return all reads of tables in the flow."""
    return tuple(
        branch.origin
        for node in flow.operators
        for branch in node.branches
        if isinstance(branch.origin, TableOrigin)
    )


@dataclass(frozen=True, slots=True)
class BatchInputs:
    """The rows of a micro-batch.

    Attributes:
        frames: prepared rows by operator id.
        tables: rows by operator id that the executor prepares. An operator without new rows in its
            tables has none.
        times: the event times of the batch, and the rows that it leaves out.
    """

    frames: Frames
    tables: Mapping[int, TableRows]
    times: BatchTimes[DataFrame]


class Inputs:
    """The opened inputs of a flow.

    The linear steps of the plan run inside the stream, with two exceptions. The rows of a table that
    several branches read stream once and unchanged. And rows may have to be looked at first: with
    watermarks or a quarantine for bad rows, the rows of every table stream unchanged. The steps then
    run on each micro-batch. A watermark sees every row, also those that filters drop. Lateness is
    tested after the steps, so only a row that would change a result counts as late. A bad row is
    removed from all branches.

    Attributes:
        first: the rows of the first version by operator id: those written in the plan and those of
            static tables.
        stream: the streaming rows, tagged if they have several sets of columns; None if nothing
            streams.
        of_files: whether batches are read from the files that Spark plans.

    Raises:
        InputRefused: a source does not exist or does not fit the plan.
    """

    def __init__(
        self,
        spark: SparkSession,
        flow: Flow,
        sources: Mapping[Table, Source],
        events: tuple[EventSource, ...] = (),
    ) -> None:
        self._spark, self._flow, self._sources = spark, flow, sources
        self._events = {event.table: event for event in events}
        self._looked_at = bool(events) or any(map(sets_aside, sources.values()))
        self._opened: dict[TableOrigin, SourceFrame] = {}
        self.of_files = not self._looked_at and self._has_files()
        self._whole = whole_origins(flow, self._events, every=self._looked_at or self.of_files)
        self._uses: list[tuple[Node, Branch, TableOrigin]] = []
        self._first: list[tuple[Node, Branch, DataFrame]] = []
        prepared: dict[int, list[DataFrame]] = {}
        for node in flow.operators:
            for branch in node.branches:
                self._open(node, branch, prepared)
        nodes = dict.fromkeys(node.id for node, _, _ in self._first)
        self.first = {
            id: union_all([rows for node, _, rows in self._first if node.id == id]) for id in nodes
        }
        self._operators = tuple(prepared)
        self._tables = tuple(dict.fromkeys(origin.table for _, _, origin in self._uses))
        whole = [self._source(self._whole[table]) for table in self._tables]
        self.stream = self._stream(list(map(union_all, prepared.values())), whole)
        self._table_uses = self._ordered_uses()

    def _open(
        self,
        node: Node,
        branch: Branch,
        prepared: dict[int, list[DataFrame]],
    ) -> None:
        """Open the origin of a branch, and add its rows where they are read."""
        origin, streams = branch.origin, False
        if isinstance(origin, OperatorOrigin):
            return
        if isinstance(origin, RowsOrigin):
            frame = written_rows(self._spark, origin)
        else:
            source = self._source(self._whole.get(origin.table, origin))
            if source.streaming and origin.table in self._whole:
                self._uses.append((node, branch, origin))
                return
            frame = self._of_branch(source.frame, origin)
            streams = source.streaming
        rows = prepare(apply_steps(frame, branch.steps), node, port=branch.port)
        if streams:
            prepared.setdefault(node.id, []).append(rows)
        else:
            self._first.append((node, branch, rows))

    @property
    def has_readers(self) -> bool:
        """Return whether the driver may read batches without Spark, from files that it names."""
        opened = (self._source(use.opened) for use in self._table_uses)
        return not self._looked_at and all(source.reader is not None for source in opened)

    def batch_of_file(self, path: str) -> DataFrame | None:
        """Return a batch of one file as Spark plans it.

        Returns:
            None if the stream is not one branch of a table that is read from the names of files.
        """
        if self.of_files or self._looked_at or len(self._table_uses) != 1:
            return None
        use = self._table_uses[0]
        source = self._source(use.opened)
        if not source.by_name or source.of_files is None:
            return None
        rows = source.of_files(self._spark, (Path(path).absolute().as_uri(),))
        return self._prepared_branch(rows, use)

    @property
    def streams(self) -> tuple[Source, ...]:
        """Return the sources of the tables, in the order of the sources of the stream."""
        opened = dict.fromkeys(use.opened for use in self._table_uses)
        return tuple(self._sources[origin.table] for origin in opened)

    def check_static_files(self) -> None:
        """Check the files of static tables.

        Raises:
            InputRefused: Spark would read other rows or values from a file (`SourceFrame.check_files`).
        """
        for source in self._opened.values():
            source.check_static_files()

    def first_rows(self, node: Node, port: int) -> DataFrame:
        """Return the rows of the first version that come in through a port."""
        return union_all([r for n, b, r in self._first if n.id == node.id and b.port == port])

    def _has_files(self) -> bool:
        """Return whether batches are read from the files that Spark plans, for several tables.

        The stream has no columns then, so that Spark plans a batch quickly.
        """
        origins = whole_origins(self._flow, self._events).values()
        streams = [o for o in origins if not is_static(self._sources[o.table])]
        return len(streams) > 1 and all(has_files(self._sources[o.table], o) for o in streams)

    def _stream(self, prepared: list[DataFrame], whole: list[SourceFrame]) -> DataFrame | None:
        """Return prepared rows and the rows of tables as one stream; None if nothing streams."""
        if self.of_files:
            read = [source.stream for source in whole if source.stream is not None]
            return reduce(DataFrame.unionAll, (rows.select(F.lit(True)) for rows in read))
        frames = [*prepared, *(source.frame for source in whole)]
        return tagged(frames, range(len(frames))) if frames else None

    def _ordered_uses(self) -> tuple[TableUse, ...]:
        """Return the branches from streaming tables in the order of the sources of the stream."""
        uses = [
            TableUse(
                node, branch, branch.origin, branch.origin, self._operators.index(node.id), False
            )
            for node in self._flow.operators
            for branch in node.branches
            if isinstance(branch.origin, TableOrigin)
            and branch.origin.table not in self._whole
            and self._source(branch.origin).streaming
        ]
        uses.sort(key=lambda use: use.tag)
        for node, branch, origin in self._uses:
            tag = len(self._operators) + self._tables.index(origin.table)
            uses.append(TableUse(node, branch, origin, self._whole[origin.table], tag, True))
        return tuple(uses)

    def _source(self, origin: TableOrigin) -> SourceFrame:
        """Return the source of a table, opened once, so that all its readers see the same offsets.

        If no rows have to be looked at, reads of different columns are sources of their own.
        """
        if origin not in self._opened:
            self._opened[origin] = open_source(self._spark, self._sources[origin.table], origin)
        return self._opened[origin]

    @contextmanager
    def batch(
        self,
        frame: DataFrame,
        state: EventState,
        instant: int,
        planned: Sequence[PlannedSource] = (),
        count: Callable[[Sequence[int]], None] = lambda _: None,
    ) -> Iterator[BatchInputs]:
        """Yield the rows of a micro-batch by operator, with their time and statistics.

        Rows that are late at the previous version are left out. A batch that Spark reads more than
        once is persisted until the end.

        Args:
            frame: the batch of `stream`.
            state: the event time at the previous version.
            instant: when the batch was planned, in microseconds since 1970.
            planned: what Spark has planned to read from each source; empty if that is not known.
            count: called with the numbers of rows, by source, that were read without Spark.

        Raises:
            InputRefused: Spark would read other rows or values from a file (`SourceFrame.check_files`).
        """
        opened = {use.opened: self._source(use.opened) for use in self._table_uses}
        again = not self.of_files and spark_repeats_files(planned)
        if self._looked_at:
            frame = self._frame_of_files(frame.sparkSession, planned) if again else frame
            of_sources = planned if len(planned) == len(opened) else ()
            for source, files in zip(opened.values(), of_sources, strict=False):
                source.check_files(files.files or ())
            with self._observed_batch(frame, state, instant) as (rows, times):
                yield BatchInputs(rows, {}, times)
            return
        sets = len(self._operators) + len(self._tables)
        exact = partial(self._frame_of_files, frame.sparkSession, planned) if again else None
        batch = StreamBatch(frame, sets, opened, planned, of_files=self.of_files, exact=exact)
        try:
            yield BatchInputs({}, self._table_rows(batch, self._table_uses), BatchTimes(instant))
            count(batch.rows_without_spark)
        finally:
            batch.close()

    def rows_of_files(
        self, planned: Sequence[PlannedSource], operators: Collection[int]
    ) -> tuple[dict[int, DataFrame], dict[int, TableRows]]:
        """Return the rows that operators have from files, and those written in the plan.

        Returns:
            Rows of the first version by operator, and rows of tables that the executor prepares.
        """
        origins = tuple(dict.fromkeys(use.opened for use in self._table_uses))
        sources = {origin: self._source(origin) for origin in origins}
        none = self._spark.range(0)
        batch = StreamBatch(none, len(origins), sources, planned, of_files=True)
        uses = [
            replace(use, tag=origins.index(use.opened), whole=True)
            for use in self._table_uses
            if use.node.id in operators
        ]
        first = {operator: rows for operator, rows in self.first.items() if operator in operators}
        return first, self._table_rows(batch, uses)

    def _table_rows(self, batch: StreamBatch, uses: Iterable[TableUse]) -> dict[int, TableRows]:
        by_node: dict[int, list[TableUse]] = {}
        for use in uses:
            if batch.has_rows(use.opened):
                by_node.setdefault(use.node.id, []).append(use)
        return {
            node: TableRows(batch, found, partial(self._prepared, batch, found))
            for node, found in by_node.items()
        }

    def _prepared(self, batch: StreamBatch, uses: Sequence[TableUse]) -> DataFrame:
        """Return the rows of an operator in a batch as a DataFrame."""
        tags = dict.fromkeys(use.tag for use in uses if not use.whole)
        frames = [batch.frame(tag) for tag in tags]
        whole = (use for use in uses if use.whole)
        frames += [self._prepared_branch(batch.frame(use.tag), use) for use in whole]
        return union_all(frames)

    def _prepared_branch(self, rows: DataFrame, use: TableUse) -> DataFrame:
        """Return the rows of a table as input rows of an operator."""
        stepped = apply_steps(self._of_branch(rows, use.origin), use.branch.steps)
        return prepare(stepped, use.node, port=use.branch.port)

    def _frame_of_files(self, spark: SparkSession, planned: Sequence[PlannedSource]) -> DataFrame:
        """Return a batch of the stream, read from its files in one batch read per source.

        Raises:
            InputRefused: SOURCE_FILE_NAME: a source has no known files.
        """
        opened = tuple(dict.fromkeys(use.opened for use in self._table_uses))
        readers = [self._source(origin).of_files for origin in opened]
        if len(planned) != len(opened) or None in readers:
            raise wildcard_refused(planned)
        rows = {
            origin: read(spark, source.files or ())
            for origin, read, source in zip(opened, readers, planned, strict=True)
            if read is not None
        }
        prepared: dict[int, list[DataFrame]] = {operator: [] for operator in self._operators}
        for use in self._table_uses:
            if not use.whole:
                prepared[use.node.id].append(self._prepared_branch(rows[use.opened], use))
        whole = (rows[self._whole[table]] for table in self._tables)
        frames = [*map(union_all, prepared.values()), *whole]
        return tagged(frames, range(len(frames)))

    @contextmanager
    def _observed_batch(
        self, frame: DataFrame, state: EventState, instant: int
    ) -> Iterator[tuple[Frames, BatchTimes[DataFrame]]]:
        """Yield the rows of a micro-batch whose rows have to be looked at."""
        events = tuple(self._events.values())
        sets = len(self._operators) + len(self._tables)
        again = len(self._uses) > len(self._tables) or any(e.reads_twice for e in events)
        shared = again or sets > 1
        rows = frame.persist() if shared else frame
        try:
            times = EventTimeObserver(events, self._tables, self._whole, rows)
            split = _untagged(times.rows, sets)
            tables = dict(zip(self._tables, split[len(self._operators) :], strict=True))
            bad = {t: BadRows(".".join(t), f) for t, f in tables.items() if BAD in f.columns}
            tables |= {table: rows_of.good for table, rows_of in bad.items()}
            parts = tuple(self._branches(tables, state.lateness(self._flow)))
            frames = dict(zip(self._operators, split, strict=False))
            for node in dict.fromkeys(part.node.id for part in parts):
                frames[node] = union_all([p.prepared for p in parts if p.node.id == node])
            yield frames, BatchTimes(instant, times.observed, parts, tuple(bad.values()))
        finally:
            if shared:
                rows.unpersist()

    def _branches(
        self, tables: Mapping[Table, DataFrame], lateness: Sequence[Lateness]
    ) -> Iterator[BranchRows]:
        for node, branch, origin in self._uses:
            frame = self._of_branch(tables[origin.table], origin)
            named = LateRowOrigin(".".join(origin.table), origin.names)
            yield BranchRows(node, branch, frame, lateness[node.id], named)

    def _of_branch(self, frame: DataFrame, origin: TableOrigin) -> DataFrame:
        """Return the columns of a table that a branch reads, in its order, then the added columns.

        The added columns are those of an `UpsertSource`, ``__weight`` and ``__time``, where the
        table has them.
        """
        opened = self._whole.get(origin.table, origin)
        names = opened.names
        places = range(len(names)) if opened is origin else map(names.index, origin.names)
        columns = [F.col(column_name(p)).alias(column_name(i)) for i, p in enumerate(places)]
        fields = 0 if origin.upsert is None else origin.upsert.extra
        columns += [
            F.col(column_name(len(names) + i)).alias(column_name(len(origin.names) + i))
            for i in range(fields)
        ]
        if self._source(opened).weight != "append_only":
            columns.append(F.col(WEIGHT))
        event = self._events.get(origin.table)
        if event is not None:
            time = F.col(column_name(names.index(event.column)))
            columns.append(micros(time, event.type).alias(TIME))
        return frame.select(*columns)


def whole_origins(
    flow: Flow, events: Mapping[Table, EventSource], *, every: bool = True
) -> dict[Table, TableOrigin]:
    """Return all columns that the flow and the watermarks read, per table.

    Args:
        flow: the flow.
        events: the tables with a watermark.
        every: whether tables with only one reader are included.
    """
    readers = Counter(origin.table for origin in table_origins(flow))
    whole: dict[Table, TableOrigin] = {}
    for origin in table_origins(flow):
        if readers[origin.table] == 1 and not every:
            continue
        other = whole.get(origin.table, replace(origin, names=(), types=()))
        typed = dict(zip(other.names, other.types, strict=True))
        typed |= dict(zip(origin.names, origin.types, strict=True))
        if origin.table in events:
            typed |= dict(events[origin.table].needed)
        names = tuple(typed)
        # Only one operator reads the upserts of a table, so its columns come first.
        keyed = (
            None if origin.upsert is None else origin.upsert.behind(len(origin.names), len(names))
        )
        whole[origin.table] = TableOrigin(origin.table, names, tuple(typed.values()), keyed)
    return whole


def _untagged(batch: DataFrame, streams: int) -> list[DataFrame]:
    """Return the rows of each stream in a batch of `Inputs.stream`."""
    if streams == 1:
        return [batch]
    return [batch.where(F.col(TAG) == i).select(f"o{i}.*") for i in range(streams)]


def written_rows(spark: SparkSession, origin: RowsOrigin) -> DataFrame:
    """Return the rows written in a plan, as columns ``c0``, ``c1``, ..."""
    one = spark.range(1)
    names = [column_name(i) for i in range(len(origin.types))]
    rows = [
        one.select(*(to_column(e, ()).alias(n) for e, n in zip(row, names, strict=True)))
        for row in origin.rows
    ]
    if rows:
        return reduce(DataFrame.unionAll, rows)
    typed = zip(origin.types, names, strict=True)
    return one.where(F.lit(False)).select(
        *(literal(None, all_nullable(t)).alias(n) for t, n in typed)
    )


def operator_changes(
    spark: SparkSession,
    below: Node,
    node: Node,
    branch: Branch,
    paths: Sequence[Location],
    lateness: Lateness,
) -> BranchRows:
    """Return the changes of another operator in this batch as input rows of `node`.

    Args:
        spark: the session.
        below: the other operator.
        node: the operator that reads the changes.
        branch: the branch from `below` to `node`.
        paths: the change files.
        lateness: the tests for rows that are late for `node`. Only changes of upserts, and of joins
            that pass rows of tables on, can be late. Other operators change no closed group,
            because they drop late rows themselves.
    """
    frame = read_changes(spark, below, paths)
    if below.time is not None:
        time = micros(F.col(column_name(below.time)), below.types[below.time])
        frame = frame.withColumn(TIME, time)
    if not below.passes_late:
        return BranchRows(node, branch, frame, Lateness())
    if not below.is_source:
        return BranchRows(node, branch, frame, lateness)
    origin = below.branches[0].origin
    table = ".".join(origin.table) if isinstance(origin, TableOrigin) else ""
    return BranchRows(
        node, branch, frame, lateness, LateRowOrigin(table, tuple(output_names(below)))
    )


PIECE_ROWS = 1 << 16


def read_changes(spark: SparkSession, node: Node, paths: Sequence[Location]) -> DataFrame:
    """Read the rows of change files.

    Spark reads local files itself. It may have no access to an object store that holds the
    checkpoint, so Python workers read the files from there.

    Returns:
        Columns ``c0``, ``c1``, ... with the operator's output types, and ``__weight`` (int64).
    """
    remote = [str(path) for path in paths if isinstance(path, Remote)]
    fields = [st.StructField(column_name(i), to_spark(t)) for i, t in enumerate(node.types)]
    schema = st.StructType([*fields, st.StructField(WEIGHT, st.LongType())])
    if not remote:
        reader = spark.read
        if not any(_differs_in_parquet(type_) for type_ in node.types):
            # Otherwise Spark runs a job that reads the schema from the files.
            reader = reader.schema(schema)
        return reader.parquet(*(escaped(str(path)) for path in paths))
    count = min(len(remote), spark.sparkContext.defaultParallelism)
    names = spark.createDataFrame([(path,) for path in remote], "path string").repartition(count)
    return names.mapInArrow(_reader(to_arrow_schema(schema, timezone="UTC")), schema)


def _differs_in_parquet(type_: Type) -> bool:
    """Return whether Spark reads a type from Parquet files in another way than `to_spark` declares it."""
    return type_.kind in ("precision_time", "interval_day") or any(
        _differs_in_parquet(child) for child in type_.children
    )


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
