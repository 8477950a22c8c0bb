"""Open the inputs of a run, and split each micro-batch into the rows of every operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.spark.inputs.event_inputs import EventInputs
from substrait_agg.spark.inputs.event_sources import EventSource, Table
from substrait_agg.spark.inputs.event_state import BatchTimes, EventState
from substrait_agg.spark.inputs.inputs import Frames, Source, open_inputs, untagged
from substrait_agg.spark.sources.open import sets_aside


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """The rows of a micro-batch by operator id, with their time and statistics."""

    frames: Frames
    times: BatchTimes


class PlainFeed:
    """Inputs without event time; the linear steps of the plan run inside the stream.

    Attributes:
        first: the rows of the first version by operator id.
        stream: the streaming rows; None if nothing streams.
    """

    def __init__(self, spark: SparkSession, flow: Flow, sources: Mapping[Table, Source]) -> None:
        inputs = open_inputs(spark, flow, sources)
        self.first, self.stream = inputs.first, inputs.stream
        self._operators = inputs.operators

    @contextmanager
    def batch(self, frame: DataFrame, _state: EventState, instant: int) -> Iterator[StreamBatch]:
        """Yield the rows of a micro-batch that was planned at an instant.

        A persisted batch is unpersisted at the end.
        """
        shared = len(self._operators) > 1
        rows = frame.persist() if shared else frame
        try:
            yield StreamBatch(untagged(rows, self._operators), BatchTimes(instant))
        finally:
            if shared:
                rows.unpersist()


class EventFeed:
    """Inputs with event time or with a quarantine for bad rows; attributes as in `PlainFeed`."""

    def __init__(
        self,
        spark: SparkSession,
        flow: Flow,
        sources: Mapping[Table, Source],
        events: tuple[EventSource, ...],
    ) -> None:
        self._flow = flow
        self._inputs = EventInputs(spark, flow, sources, events)
        self.first = self._inputs.first(flow)
        self.stream = self._inputs.stream

    @contextmanager
    def batch(self, frame: DataFrame, state: EventState, instant: int) -> Iterator[StreamBatch]:
        """Yield the rows of a micro-batch without rows that are late at the previous version."""
        rows = self._inputs.batch(frame, self._flow, state.lateness(self._flow))
        try:
            yield StreamBatch(
                rows.frames, BatchTimes(instant, rows.observed, rows.late_rows, rows.bad)
            )
        finally:
            if rows.good_rows is not None:
                rows.good_rows.unpersist()


Feed = PlainFeed | EventFeed


def open_feed(
    spark: SparkSession,
    flow: Flow,
    sources: Mapping[Table, Source],
    events: tuple[EventSource, ...],
) -> Feed:
    """Open the inputs of a flow.

    Raises:
        InputRefused: a source does not exist or does not fit the plan.
    """
    if events or any(map(sets_aside, sources.values())):
        return EventFeed(spark, flow, sources, events)
    return PlainFeed(spark, flow, sources)
