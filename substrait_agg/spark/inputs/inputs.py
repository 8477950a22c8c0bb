"""Open the inputs of a flow: the rows for the first version, and the tables whose rows come in batches.

A batch is divided into the rows of every operator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.files.locations import Location
from substrait_agg.flow.graph.graph import (
    Branch,
    FeedbackOrigin,
    OperatorOrigin,
    RowsOrigin,
    TableOrigin,
)
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.flow.passes.upserts import output_names
from substrait_agg.operator.common.names import TIME, WEIGHT
from substrait_agg.operator.common.watermarks import EventTimeStats
from substrait_agg.runtime.event_sources import EventSource
from substrait_agg.runtime.event_state import BatchTimes, EventState
from substrait_agg.runtime.left_out import Lateness
from substrait_agg.spark.execution.checkpoint_files import GivenRowsWriter, read_changes
from substrait_agg.spark.expressions import to_column
from substrait_agg.spark.inputs.late_rows import BranchRows, LateRowOrigin, micros
from substrait_agg.spark.inputs.linear_steps import apply_steps, prepare, union_all
from substrait_agg.spark.inputs.table_batch import (
    TableBatch,
    TableRows,
    TableUse,
    tag_rows,
    untag_rows,
)
from substrait_agg.spark.session.errors import SPARK_ERRORS
from substrait_agg.spark.sources.files import FoundFile
from substrait_agg.spark.sources.open import SourceFrame, open_source, sets_aside
from substrait_agg.spark.sources.specs import SourceSpec, Table
from substrait_agg.spark.types.bad_rows import BAD, BadRows
from substrait_agg.spark.types.literals import literal
from substrait_agg.spark.types.schema import column_name
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
    """The rows of a batch.

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

    A batch has the rows of each table once and unchanged. The linear steps of the plan run on each
    batch. A watermark sees every row, also those that filters drop. Lateness is tested after the steps,
    so only a row that would change a result counts as late. A bad row is removed from all branches.

    Attributes:
        first: the rows of the first version by operator id: those written in the plan and those of
            static tables.
        tables: the streaming tables with what is read from them, in the order in which the plan reads
            them.

    Raises:
        InputRefused: a source does not exist or does not fit the plan.
    """

    def __init__(
        self,
        spark: SparkSession,
        flow: Flow,
        sources: Mapping[Table, Source],
        changes: FolderFiles,
        events: tuple[EventSource, ...] = (),
    ) -> None:
        self._spark, self._flow, self._sources = spark, flow, sources
        self._changes = changes
        self._events = {event.table: event for event in events}
        self._looked_at = bool(events) or any(map(sets_aside, sources.values()))
        self._opened: dict[TableOrigin, SourceFrame] = {}
        self._whole = whole_origins(flow, self._events)
        self._uses: list[TableUse] = []
        self._first: list[tuple[Node, Branch, DataFrame]] = []
        for node in flow.operators:
            for branch in node.branches:
                self._open(node, branch)
        nodes = dict.fromkeys(node.id for node, _, _ in self._first)
        self.first = {
            id: union_all([rows for node, _, rows in self._first if node.id == id]) for id in nodes
        }
        self.tables = {use.opened.table: self._opened[use.opened] for use in self._uses}

    def _open(self, node: Node, branch: Branch) -> None:
        """Open the origin of a branch, and add its rows where they are read."""
        origin = branch.origin
        if isinstance(origin, OperatorOrigin | FeedbackOrigin):
            return
        if isinstance(origin, RowsOrigin):
            frame = written_rows(self._spark, origin)
        else:
            opened = self._whole[origin.table]
            source = self._source(opened)
            if source.streaming:
                self._uses.append(TableUse(node, branch, origin, opened))
                return
            frame = self._of_branch(source.frame, origin)
        rows = prepare(apply_steps(frame, branch.steps), node, port=branch.port)
        self._first.append((node, branch, rows))

    def column_names(self, table: Table) -> tuple[str, ...]:
        """Return the columns that are read of a table."""
        return self._whole[table].names

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

    def _source(self, origin: TableOrigin) -> SourceFrame:
        """Return the source of a table, opened once."""
        if origin not in self._opened:
            self._opened[origin] = open_source(self._spark, self._sources[origin.table], origin)
        return self._opened[origin]

    def _table_batch(
        self,
        files: Mapping[Table, Sequence[FoundFile]],
        streamed: Mapping[Table, DataFrame],
        arrow_rows: Mapping[Table, pa.Table],
        to_frame: Callable[[pa.Table], DataFrame],
    ) -> TableBatch:
        opened = {self._whole[table]: source for table, source in self.tables.items()}
        return TableBatch(
            self._spark,
            opened,
            {self._whole[table]: found for table, found in files.items()},
            {self._whole[table]: rows for table, rows in streamed.items()},
            {self._whole[table]: rows for table, rows in arrow_rows.items()},
            to_frame,
        )

    @contextmanager
    def batch(
        self,
        files: Mapping[Table, Sequence[FoundFile]],
        streamed: Mapping[Table, DataFrame],
        arrow_rows: Mapping[Table, pa.Table],
        state: EventState,
        instant: int,
        version: int,
    ) -> Iterator[BatchInputs]:
        """Yield the rows of a batch by operator, with their time and statistics.

        Rows that are late at the previous version are left out. Rows of a query of Spark that are read
        more than once are persisted until the end.

        Args:
            files: the files of each table that has some.
            streamed: the rows of each table that a query of Spark reads.
            arrow_rows: the rows of each table that a connector has read.
            state: the event time at the previous version.
            instant: when the batch began, in microseconds since 1970.
            version: the version that the batch leads to.

        Raises:
            InputRefused: Spark would read other rows or values from a file (`SourceFrame.check_files`).
        """
        writer = GivenRowsWriter(self._spark, self._changes, version)
        several = len(self._uses) > 1 or len(streamed) > 1
        persisted = [rows.persist() for rows in streamed.values() if several]
        try:
            batch = self._table_batch(files, streamed, arrow_rows, writer.frame)
            if self._looked_at:
                with self._observed_batch(batch, state, instant) as (rows, times):
                    yield BatchInputs(rows, {}, times)
            else:
                rows_by_node = self._table_rows(batch, self._uses)
                yield BatchInputs({}, rows_by_node, BatchTimes(instant))
        finally:
            writer.close()
            for frame in persisted:
                with suppress(*SPARK_ERRORS):
                    frame.unpersist()

    def rows_of_files(
        self, files: Mapping[Table, Sequence[FoundFile]], operators: Collection[int]
    ) -> tuple[dict[int, DataFrame], dict[int, TableRows]]:
        """Return the rows that operators have from files, and those written in the plan.

        Returns:
            Rows of the first version by operator, and rows of tables that the executor prepares.
        """
        uses = [use for use in self._uses if use.node.id in operators]
        first = {operator: rows for operator, rows in self.first.items() if operator in operators}
        return first, self._table_rows(
            self._table_batch(files, {}, {}, self._spark.createDataFrame), uses
        )

    def _table_rows(self, batch: TableBatch, uses: Iterable[TableUse]) -> dict[int, TableRows]:
        by_node: dict[int, list[TableUse]] = {}
        for use in uses:
            if batch.has_rows(use.opened):
                by_node.setdefault(use.node.id, []).append(use)
        return {
            node: TableRows(batch, found, partial(self._prepare, batch, found))
            for node, found in by_node.items()
        }

    def _prepare(self, batch: TableBatch, uses: Sequence[TableUse]) -> DataFrame:
        """Return the rows of an operator in a batch as a DataFrame."""
        return union_all([self._prepared_branch(batch.rows_of(use.opened), use) for use in uses])

    def _prepared_branch(self, rows: DataFrame, use: TableUse) -> DataFrame:
        """Return the rows of a table as input rows of an operator."""
        stepped = apply_steps(self._of_branch(rows, use.origin), use.branch.steps)
        return prepare(stepped, use.node, port=use.branch.port)

    @contextmanager
    def _observed_batch(
        self, batch: TableBatch, state: EventState, instant: int
    ) -> Iterator[tuple[Frames, BatchTimes[DataFrame]]]:
        """Yield the rows of a batch whose rows have to be looked at."""
        events, tables = tuple(self._events.values()), tuple(self.tables)
        again = len(self._uses) > len(tables) or any(e.reads_twice for e in events)
        shared = again or len(tables) > 1
        every = tag_rows(batch.every_frame)
        rows = every.persist() if shared else every
        try:
            times = EventTimeObserver(events, tables, self._whole, rows)
            frames = dict(zip(tables, untag_rows(times.rows, len(tables)), strict=True))
            bad = {t: BadRows(".".join(t), f) for t, f in frames.items() if BAD in f.columns}
            frames |= {table: rows_of.good for table, rows_of in bad.items()}
            parts = tuple(self._branches(frames, state.lateness(self._flow)))
            nodes = dict.fromkeys(part.node.id for part in parts)
            by_node = {
                node: union_all([p.prepared for p in parts if p.node.id == node]) for node in nodes
            }
            yield by_node, BatchTimes(instant, times.read_observed, parts, tuple(bad.values()))
        finally:
            if shared:
                rows.unpersist()

    def _branches(
        self, tables: Mapping[Table, DataFrame], lateness: Sequence[Lateness]
    ) -> Iterator[BranchRows]:
        for use in self._uses:
            frame = self._of_branch(tables[use.origin.table], use.origin)
            named = LateRowOrigin(".".join(use.origin.table), use.origin.names)
            yield BranchRows(use.node, use.branch, frame, lateness[use.node.id], named)

    def _of_branch(self, frame: DataFrame, origin: TableOrigin) -> DataFrame:
        """Return the columns of a table that a branch reads, in its order, then the added columns.

        The added columns are those of an `UpsertSource`, ``__weight`` and ``__time``, where the
        table has them.
        """
        opened = self._whole[origin.table]
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


def whole_origins(flow: Flow, events: Mapping[Table, EventSource]) -> dict[Table, TableOrigin]:
    """Return all columns that the flow and the watermarks read, per table.

    Args:
        flow: the flow.
        events: the tables with a watermark.
    """
    whole: dict[Table, TableOrigin] = {}
    for origin in table_origins(flow):
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


_TIME, _AT, _BY = "t", "at", "by"


class EventTimeObserver:
    """An observer of the event times in the rows of a batch.

    Args:
        events: the sources with a watermark.
        streaming: the tables that stream, in the order of their tags.
        origins: the columns of each table.
        rows: the batch. It is persisted if a rule reads it a second time.

    Attributes:
        rows: the observed batch. The computation of the batch reads it.
    """

    def __init__(
        self,
        events: Sequence[EventSource],
        streaming: Sequence[Table],
        origins: Mapping[Table, TableOrigin],
        rows: DataFrame,
    ) -> None:
        self._events = events
        self._streaming = streaming
        self._origins = origins
        self._plain = rows
        self._observed = Observation()
        self._metrics: list[Column] = []
        for i, event in enumerate(events):
            if event.table in streaming:
                time = self._time(event)
                self._metrics += [
                    F.count(time).alias(f"rows{i}"),
                    F.max(time).alias(f"greatest{i}"),
                ]
        self.rows = rows.observe(self._observed, *self._metrics) if self._metrics else rows

    def _column(self, event: EventSource, name: str) -> Column:
        place = column_name(self._origins[event.table].names.index(name))
        if len(self._streaming) == 1:
            return F.col(place)
        return F.col(f"o{self._streaming.index(event.table)}.{place}")

    def _time(self, event: EventSource) -> Column:
        return micros(self._column(event, event.column), event.type)

    def read_observed(self) -> tuple[EventTimeStats, ...]:
        """Return the event times of each source with a watermark, after the rows have been read."""
        values = self._observation()
        return tuple(self._stats(event, i, values) for i, event in enumerate(self._events))

    def _observation(self) -> Mapping[str, int]:
        if not self._metrics:
            return {}
        try:
            return self._observed.get
        except SPARK_ERRORS:
            # Spark records no observation if it finds that a filter drops all rows.
            return self._plain.agg(*self._metrics).collect()[0].asDict()

    def _stats(self, event: EventSource, i: int, values: Mapping[str, int]) -> EventTimeStats:
        if not values.get(f"rows{i}"):
            return EventTimeStats()
        latest = () if event.rule.percent is None else self._last_times(event)
        partitions = self._partitions(event) if event.rule.by else None
        return EventTimeStats(values[f"rows{i}"], values[f"greatest{i}"], latest, partitions)

    def _last_times(self, event: EventSource) -> tuple[int, ...]:
        times = self._plain.select(
            self._time(event).alias(_TIME), F.monotonically_increasing_id().alias(_AT)
        )
        last = times.where(F.col(_TIME).isNotNull()).orderBy(F.desc(_AT)).limit(event.rule.events)
        return tuple(row[_TIME] for row in reversed(last.collect()))

    def _partitions(self, event: EventSource) -> dict[str, int]:
        by = F.coalesce(self._column(event, event.rule.by).cast("string"), F.lit(""))
        times = self._plain.select(self._time(event).alias(_TIME), by.alias(_BY))
        rows_with_time = times.where(F.col(_TIME).isNotNull()).groupBy(_BY)
        return {
            row[_BY]: row[_TIME] for row in rows_with_time.agg(F.max(_TIME).alias(_TIME)).collect()
        }
