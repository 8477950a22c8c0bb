"""What all batches of a run have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic

from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.retention import DEFAULT, Retention
from substrait_agg.flow.graph.aggregate import Recursion
from substrait_agg.flow.graph.nodes import Flow, keyless_views
from substrait_agg.operator.common.policy import EVERY_BATCH, EmitPolicy
from substrait_agg.operator.common.protocol import StatefulOperator
from substrait_agg.operator.registry import operator_of
from substrait_agg.refresh.chooser import RefreshChooser
from substrait_agg.runtime.event_state import EventOptions
from substrait_agg.runtime.executor import Executor, Rows
from substrait_agg.runtime.join_watch import JoinWatch
from substrait_agg.runtime.recursions import recursions_by_end


@dataclass(frozen=True)
class BatchSettings(Generic[Rows]):
    """What all batches of a run have in common.

    Attributes:
        flow: the lowered plan.
        checkpoint: an existing checkpoint with a plan document.
        executor: computes the operators.
        partitions: number of state partitions, a power of two.
        policy: when the groups that the view shows are emitted.
        events: the sources with a watermark, and the TTL of idle groups.
        clock: returns the current instant, in microseconds since 1970.
        retention: which versions keep their state.
        refresh: chooses which operators a batch computes again; None: no batch does.
        joins: watches the joins.
        checksum: whether versions have the checksums of their views.
    """

    flow: Flow
    checkpoint: Checkpoint
    executor: Executor[Rows]
    partitions: int
    policy: EmitPolicy = EVERY_BATCH
    events: EventOptions = EventOptions()  # noqa: RUF009 - frozen
    clock: Callable[[], int] = lambda: time.time_ns() // 1000
    retention: Retention = DEFAULT
    refresh: RefreshChooser | None = None
    joins: JoinWatch = field(default_factory=JoinWatch)
    checksum: bool = False

    @cached_property
    def operators(self) -> tuple[StatefulOperator, ...]:
        """Return what computes each operator of the flow."""
        return tuple(map(operator_of, self.flow.operators))

    @cached_property
    def recursions(self) -> Mapping[int, Sequence[Recursion]]:
        """Return the recursions whose rounds end with an operator, by its id."""
        return recursions_by_end(self.flow)

    @cached_property
    def consolidated(self) -> frozenset[int]:
        """Return the operators of views in which rows of different groups can be equal."""
        return keyless_views(self.flow)
