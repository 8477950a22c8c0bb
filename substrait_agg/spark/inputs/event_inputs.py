"""Inputs of a run with event time or with a quarantine for bad rows.

The source rows stream unchanged, and the linear steps of the plan run on each micro-batch. The
watermark therefore sees every row, also those that filters drop. Lateness is tested after the
steps, so only a row that would change a result counts as late. A bad row is removed from all
branches. Each table is read once, even if the plan reads it several times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from substrait_agg.flow.graph.graph import Branch, RowsOrigin, TableOrigin
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.operator.common.names import TIME, WEIGHT
from substrait_agg.operator.common.watermarks import EventTimeStats
from substrait_agg.spark.inputs.event_sources import EventSource, Table
from substrait_agg.spark.inputs.event_time_observer import EventTimeObserver
from substrait_agg.spark.inputs.inputs import (
    Frames,
    Source,
    table_origins,
    tagged,
    untagged,
    written_rows,
)
from substrait_agg.spark.inputs.late_rows import BranchRows, Lateness, LateRowOrigin, micros
from substrait_agg.spark.inputs.linear_steps import apply_steps, prepare, union_all
from substrait_agg.spark.sources.open import open_source
from substrait_agg.spark.types.bad_rows import BAD, BadRows
from substrait_agg.spark.types.schema import column_name


@dataclass(frozen=True, slots=True)
class BatchRows:
    """The rows of one batch for the operators, and statistics that exist after the rows are read.

    Attributes:
        frames: prepared rows by operator id, without late rows.
        observed: returns the observed event times of each source with a watermark.
        late_rows: the same rows by branch, with the number of late rows in each.
        bad: the bad rows by table.
        good_rows: the persisted batch, which the caller unpersists; None if it is not persisted.
    """

    frames: Frames
    observed: Callable[[], tuple[EventTimeStats, ...]]
    late_rows: tuple[BranchRows, ...]
    bad: tuple[BadRows, ...] = ()
    good_rows: DataFrame | None = None


class EventInputs:
    """The opened inputs of a flow, each table once.

    Args:
        spark: the session.
        flow: the flow that reads the inputs.
        sources: the source of each table.
        events: the tables with a watermark.

    Attributes:
        stream: the streaming rows, tagged by table if there are several; None if no table streams.
        fixed: the tables that do not stream.

    Raises:
        InputRefused: a source does not exist or does not fit the plan.
    """

    def __init__(
        self,
        spark: SparkSession,
        flow: Flow,
        sources: Mapping[Table, Source],
        events: Sequence[EventSource],
    ) -> None:
        self._spark = spark
        self._events = {source.table: source for source in events}
        self._origins = _whole_origins(flow, self._events)
        self._opened = {t: open_source(spark, sources[t], o) for t, o in self._origins.items()}
        self._streaming = [t for t, source in self._opened.items() if source.streaming]
        self.fixed = frozenset(self._opened) - frozenset(self._streaming)
        self.stream = tagged({i: self._opened[t].frame for i, t in enumerate(self._streaming)})

    def first(self, flow: Flow) -> Frames:
        """Return the rows of the first version by operator id.

        They are the rows written in the plan and the rows of static DataFrames.
        """
        parts: dict[int, list[DataFrame]] = {}
        for node in flow.operators:
            for branch in node.branches:
                frame = self._fixed_rows(branch)
                if frame is not None:
                    rows = prepare(apply_steps(frame, branch.steps), node, port=branch.port)
                    parts.setdefault(node.id, []).append(rows)
        return {node: union_all(frames) for node, frames in parts.items()}

    def _fixed_rows(self, branch: Branch) -> DataFrame | None:
        match branch.origin:
            case RowsOrigin():
                return written_rows(self._spark, branch.origin)
            case TableOrigin(table=table) if table in self.fixed:
                return self._of_branch(self._opened[table].frame, branch.origin)
        return None

    def batch(self, frame: DataFrame, flow: Flow, lateness: Sequence[Lateness]) -> BatchRows:
        """Return the rows of a micro-batch.

        Args:
            frame: the batch of `stream`.
            flow: the flow.
            lateness: the tests for late rows, per operator.
        """
        uses = [
            (node, branch, branch.origin)
            for node in flow.operators
            for branch in node.branches
            if isinstance(branch.origin, TableOrigin) and branch.origin.table not in self.fixed
        ]
        again = max(Counter(o.table for _, _, o in uses).values(), default=0) > 1
        events = tuple(self._events.values())
        shared = again or len(self._streaming) > 1 or any(e.reads_twice for e in events)
        rows = frame.persist() if shared else frame
        times = EventTimeObserver(events, self._streaming, self._origins, rows)
        split = untagged(times.rows, range(len(self._streaming)))
        tables = {table: split[i] for i, table in enumerate(self._streaming)}
        bad = {t: BadRows(".".join(t), f) for t, f in tables.items() if BAD in f.columns}
        tables |= {table: rows_of.good for table, rows_of in bad.items()}
        parts = [
            BranchRows(
                node,
                branch,
                self._of_branch(tables[origin.table], origin),
                lateness[node.id],
                LateRowOrigin(".".join(origin.table), origin.names),
            )
            for node, branch, origin in uses
        ]
        frames: dict[int, DataFrame] = {}
        for part in parts:
            held = frames.get(part.node.id)
            frames[part.node.id] = (
                part.prepared if held is None else union_all([held, part.prepared])
            )
        return BatchRows(
            frames, times.observed, tuple(parts), tuple(bad.values()), rows if shared else None
        )

    def _of_branch(self, frame: DataFrame, origin: TableOrigin) -> DataFrame:
        """Return the columns of a table that a branch reads, in its order, then the added columns.

        The added columns are those of an `UpsertSource`, ``__weight`` and ``__time``, where the
        table has them.
        """
        names = self._origins[origin.table].names
        chosen = [
            F.col(column_name(names.index(name))).alias(column_name(i))
            for i, name in enumerate(origin.names)
        ]
        fields = 0 if origin.keyed is None else origin.keyed.extra
        chosen += [
            F.col(column_name(len(names) + i)).alias(column_name(len(origin.names) + i))
            for i in range(fields)
        ]
        if self._opened[origin.table].weight != "one":
            chosen.append(F.col(WEIGHT))
        event = self._events.get(origin.table)
        if event is not None:
            time = F.col(column_name(names.index(event.column)))
            chosen.append(micros(time, event.type).alias(TIME))
        return frame.select(*chosen)


def _whole_origins(flow: Flow, events: Mapping[Table, EventSource]) -> dict[Table, TableOrigin]:
    """Return all columns that the flow and the watermarks read, per table."""
    whole: dict[Table, TableOrigin] = {}
    for origin in table_origins(flow):
        held = whole.get(origin.table, replace(origin, names=(), types=()))
        typed = dict(zip(held.names, held.types, strict=True))
        typed |= dict(zip(origin.names, origin.types, strict=True))
        if origin.table in events:
            typed |= dict(events[origin.table].needed)
        names = tuple(typed)
        # Only one operator reads the upserts of a table, so its columns come first.
        keyed = None if origin.keyed is None else origin.keyed.behind(len(origin.names), len(names))
        whole[origin.table] = TableOrigin(origin.table, names, tuple(typed.values()), keyed)
    return whole
