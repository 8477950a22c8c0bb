"""Observe the event times of a batch while its rows are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.operator.common.watermarks import EventTimeStats
from substrait_agg.runtime.event_sources import EventSource, Table
from substrait_agg.spark.inputs.late_rows import micros
from substrait_agg.spark.session.errors import SPARK_ERRORS
from substrait_agg.spark.types.schema import column_name

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
