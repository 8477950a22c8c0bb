"""The node below an aggregate that groups by sessions."""

from __future__ import annotations

from dataclasses import dataclass

from substrait_agg.bind.bound import Call, Expr
from substrait_agg.flow.graph.graph import StatePerGroup
from substrait_agg.flow.graph.nodes import NodeDescription, RowNode
from substrait_agg.flow.graph.time_steps import EventKey, TimeStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessionize(RowNode):
    """The operator below an aggregate that groups by sessions.

    It puts rows of one group that are less than `gap` apart into one session. Its keys are the
    other grouping expressions. Its first argument is the time. It passes the other arguments on
    with each row, after the keys and the session.

    Attributes:
        gap: microseconds without a row that end a session.
        call: the grouping expression.
    """

    groups: StatePerGroup
    gap: int
    call: Call

    @property
    def passed_on(self) -> tuple[Expr, ...]:
        """See `Node`."""
        return (self.call, *(value for value, _ in self.arguments[1:] if value is not None))

    @property
    def timed_by(self) -> tuple[Expr, ...]:
        """Return the time expression."""
        return tuple(value for value, _ in self.arguments[:1] if value is not None)

    def event_key(
        self, ordinal: int, time_steps: tuple[TimeStep, ...], *, end: bool
    ) -> EventKey | None:
        """See `Node`: the time is not a key."""
        return None if end else EventKey(None, time_steps)

    def event_column(self, event: EventKey) -> tuple[int, EventKey]:
        """See `Node`: a session ends at the latest at its current end; any new row may be in it."""
        column = len(self.keys)
        return column, EventKey(column, (*event.time_steps, TimeStep(1, 0, 1)), end=True)

    def rows_out(self, groups: int | None) -> int | None:
        """See `Node`: as many rows as come in."""
        return None

    def describe(self) -> NodeDescription:
        """See `Node`."""
        return NodeDescription(
            "sessions",
            "sessions",
            ("to compute sessions",),
            emits=(
                "retract the rows of sessions whose bounds moved and insert them with the new bounds; pass on "
                "the other rows"
            ),
        )

    def identity(self) -> tuple[object, ...]:
        """See `Node`."""
        return (False, (), ("Session", self.gap, self.call), None)
