"""How far event time is at a version, what that makes late, complete and idle, and how it moves on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from substrait_agg.commit.documents.snapshot import SideFile, Snapshot
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.operator.common.completeness import KeyBound
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.policy import EmitPolicy
from substrait_agg.operator.common.watermarks import (
    EventTimeStats,
    SourceTime,
    Ttl,
    WatermarkRule,
    idle_at,
    moved,
    watermark_of,
)
from substrait_agg.spark.inputs.event_sources import EventSource
from substrait_agg.spark.inputs.late_rows import BranchRows, Lateness
from substrait_agg.spark.types.bad_rows import BadRows


@dataclass(frozen=True, slots=True)
class EventOptions:
    """What a run was told about time.

    Attributes:
        sources: the sources with a watermark.
        ttl: for how long groups are remembered; None: for ever.
        keep_late: late rows are kept beside the changes.
    """

    sources: tuple[EventSource, ...] = ()
    ttl: Ttl | None = None
    keep_late: bool = False

    @property
    def rules(self) -> tuple[WatermarkRule, ...]:
        """How the watermark of each source follows from its rows."""
        return tuple(source.rule for source in self.sources)


@dataclass(frozen=True, slots=True)
class EventState:
    """How far event time is.

    Attributes:
        options: what the run was told.
        watermark: see `Snapshot.watermark`.
        sources: see `Snapshot.sources`; empty before the first batch.
        idle: see `Snapshot.idle`.
    """

    options: EventOptions
    watermark: int | None = None
    sources: tuple[SourceTime, ...] = ()
    idle: int | None = None

    @staticmethod
    def at(options: EventOptions, last: Snapshot | None) -> EventState:
        """The state at a version, None before the first."""
        if last is None:
            return EventState(options)
        return EventState(options, last.watermark, last.sources, last.idle)

    def after(self, heard: Sequence[EventTimeStats], now: int) -> EventState:
        """The state after a batch.

        Args:
            heard: its event times by source; empty where it has no rows.
            now: its instant.
        """
        rules, watermark, sources = self.options.rules, self.watermark, self.sources
        if rules:
            before = sources or (None,) * len(rules)
            given = heard or (EventTimeStats(),) * len(rules)
            sources = tuple(moved(*each, now) for each in zip(rules, before, given, strict=True))
            watermark = watermark_of(rules, sources, watermark, now)
        made = replace(self, watermark=watermark, sources=sources)
        return replace(made, idle=made._idle(now))

    def instant(self, now: int) -> int:
        """The event time of a batch's rows where groups are forgotten by the clock.

        Where the clock was set back, new rows still come after what is forgotten: else they would be forgotten at once.
        """
        if self.options.sources or self.idle is None:
            return now
        return max(now, self.idle + 1)

    def _idle(self, now: int) -> int | None:
        instant = self.watermark if self.options.sources else now
        if self.options.ttl is None or instant is None:
            return self.idle
        reached = self.options.ttl.idle(instant)
        return reached if self.idle is None else max(self.idle, reached)

    def due(self, now: int) -> int | None:
        """The next instant at which the state moves without rows; None where it does not."""
        if not self.options.sources:
            return None if self.options.ttl is None else self.options.ttl.next(now)
        # Before the first batch no source has begun to be idle.
        return idle_at(self.options.rules, self.sources, now) if self.sources else None

    def limits(self, node: Node) -> tuple[KeyBound, ...]:
        """What makes groups of an operator complete."""
        if self.watermark is None:
            return ()
        keys = ((e.key, e) for e in node.events)
        return tuple(KeyBound(k, e.end, e.limit(self.watermark)) for k, e in keys if k is not None)

    def ended(self, node: Node) -> int | None:
        """The instant by which sessions of an operator have to have ended to be finished; None where nothing is known."""
        if self.watermark is None:
            return None
        return next((e.limit(self.watermark) for e in node.events if e.key is None), None)

    def lateness(self, flow: Flow) -> list[Lateness]:
        """What is late for each operator."""
        return [
            Lateness(self.limits(node), self.idle if node.timed else None, self.ended(node))
            for node in flow.operators
        ]

    def settling(
        self, before: EventState, node: Node, policy: EmitPolicy, now: int, *, whole: bool
    ) -> Emission:
        """The rules of the second pass for an operator whose groups the view shows.

        Args:
            before: the state before the batch.
            node: the operator.
            policy: when its groups are emitted.
            now: the instant of the batch by the clock of the policy.
            whole: look for complete and idle groups even where nothing has moved since the version before.
        """
        limits = self.limits(node)
        if limits == before.limits(node) and not whole:
            limits = ()
        ended = self.ended(node)
        if ended == before.ended(node) and not whole:
            ended = None
        idle = self.idle if node.forget and (whole or self.idle != before.idle) else None
        return replace(
            policy.watermark_pass(now),
            limits=limits,
            complete=policy.watermark,
            close=True,
            idle=idle,
            instant=now,
            watermark=ended,
        )


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """What is known of the time of a batch.

    Attributes:
        instant: when it was planned, microseconds since 1970: the same however often it is computed.
        heard: gives the event times of each source with a watermark, once the batch has been read.
        parts: its rows by branch, which know how many of them were late.
        bad: its bad rows by table.
    """

    instant: int
    heard: Callable[[], Sequence[EventTimeStats]] = tuple
    parts: tuple[BranchRows, ...] = ()
    bad: tuple[BadRows, ...] = ()


@dataclass(frozen=True, slots=True)
class Moved:
    """How far event time is after a version, how many of its rows were late or bad, and where they are kept."""

    state: EventState
    late: int = 0
    files: tuple[SideFile, ...] = ()
    bad: int = 0
    bad_files: tuple[SideFile, ...] = ()
