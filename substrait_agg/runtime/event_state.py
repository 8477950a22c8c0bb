"""Compute the event time state of a version: watermark and idle bound, and what follows from them.

From the state follow the late rows, the complete groups and the idle groups of the next batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic

from substrait_agg.commit.documents.snapshot import SideFile, Snapshot
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.operator.common.completeness import KeyBound, key_bounds
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.policy import EmitPolicy
from substrait_agg.operator.common.watermarks import (
    EventTimeStats,
    SourceTime,
    Ttl,
    WatermarkRule,
    idle_at,
    move,
    watermark_of,
)
from substrait_agg.runtime.event_sources import EventSource
from substrait_agg.runtime.left_out import Lateness, LeftOut, Rows_co


@dataclass(frozen=True, slots=True)
class EventOptions:
    """The options of a run that concern time.

    Attributes:
        sources: the sources with a watermark.
        ttl: the time to live of the state of groups; None for no limit.
        keep_late: whether late rows are written to files beside the changes.
    """

    sources: tuple[EventSource, ...] = ()
    ttl: Ttl | None = None
    keep_late: bool = False

    @property
    def rules(self) -> tuple[WatermarkRule, ...]:
        """Return the watermark rule of each source."""
        return tuple(source.rule for source in self.sources)


@dataclass(frozen=True, slots=True)
class EventState:
    """The progress of event time at a version.

    Attributes:
        options: the options of the run.
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
        """Return the state at a version; `last` is None before the first version."""
        if last is None:
            return EventState(options)
        return EventState(options, last.watermark, last.sources, last.idle)

    def after(self, observed: Sequence[EventTimeStats], now: int) -> EventState:
        """Return the state after a batch.

        Args:
            observed: the observed event times by source; empty if the batch has no rows.
            now: the instant of the batch, in microseconds since 1970.
        """
        rules, watermark, sources = self.options.rules, self.watermark, self.sources
        if rules:
            before = sources or (None,) * len(rules)
            stats = observed or (EventTimeStats(),) * len(rules)
            sources = tuple(move(*each, now) for each in zip(rules, before, stats, strict=True))
            watermark = watermark_of(rules, sources, watermark, now)
        advanced = replace(self, watermark=watermark, sources=sources)
        return replace(advanced, idle=advanced.find_idle(now))

    def instant(self, now: int) -> int:
        """Return the event time of the rows of a batch if groups expire by the clock.

        If the clock was set back, the result is still after the idle bound. Otherwise new rows
        would expire at once.
        """
        if self.options.sources or self.idle is None:
            return now
        return max(now, self.idle + 1)

    def find_idle(self, now: int) -> int | None:
        """Return the instant up to which groups are idle; None if there is no time to live."""
        instant = self.watermark if self.options.sources else now
        if self.options.ttl is None or instant is None:
            return self.idle
        reached = self.options.ttl.idle(instant)
        return reached if self.idle is None else max(self.idle, reached)

    def due(self, now: int) -> int | None:
        """Return the next instant at which the state changes without rows, or None."""
        if not self.options.sources:
            return None if self.options.ttl is None else self.options.ttl.next(now)
        # A source can only become idle after the first batch.
        return idle_at(self.options.rules, self.sources, now) if self.sources else None

    def limits(self, node: Node) -> tuple[KeyBound, ...]:
        """Return the bounds on keys below which groups of an operator are complete."""
        return key_bounds(node.events, self.watermark)

    def ended(self, node: Node) -> int | None:
        """Return the instant before which ended sessions of an operator are complete.

        The result is None without a watermark, or if the operator has no sessions.
        """
        if self.watermark is None:
            return None
        return next((e.limit(self.watermark) for e in node.events if e.key is None), None)

    def lateness(self, flow: Flow) -> list[Lateness]:
        """Return the tests for late rows, per operator."""
        return [
            Lateness(self.limits(node), self.idle if node.timed else None, self.ended(node))
            for node in flow.operators
        ]

    def settle(
        self, before: EventState, node: Node, policy: EmitPolicy, now: int, *, whole: bool
    ) -> Emission:
        """Return the emission rules of the watermark pass for an operator that the view shows.

        Args:
            before: the state before the batch.
            node: the operator.
            policy: when its groups are emitted.
            now: the instant of the batch by the clock of the policy.
            whole: search for complete and idle groups even if no bound has changed since the
                previous version.
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
class BatchTimes(Generic[Rows_co]):
    """The time of a batch, and its statistics of event times, late rows and bad rows.

    Attributes:
        instant: when the batch was planned, in microseconds since 1970. It stays the same if the
            batch is computed again.
        observed: returns the observed event times of each source with a watermark. Call it after the
            batch has been read.
        late_rows: the rows by branch, with the number of late rows in each.
        bad: the bad rows by table.
    """

    instant: int
    observed: Callable[[], Sequence[EventTimeStats]] = tuple
    late_rows: tuple[LeftOut[Rows_co], ...] = ()
    bad: tuple[LeftOut[Rows_co], ...] = ()


@dataclass(frozen=True, slots=True)
class AdvancedEventState:
    """The event time state after a version.

    Attributes:
        state: the state.
        late: the number of late rows in the version.
        files: the files with the late rows.
        bad: the number of bad rows in the version.
        bad_files: the files with the bad rows.
    """

    state: EventState
    late: int = 0
    files: tuple[SideFile, ...] = ()
    bad: int = 0
    bad_files: tuple[SideFile, ...] = ()
