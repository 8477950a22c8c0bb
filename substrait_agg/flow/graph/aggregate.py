"""The nodes of groups: with measures, of the distinct rows of a view, or of the rows of a recursion."""

from __future__ import annotations

from dataclasses import dataclass

from substrait_agg.flow.graph.graph import FeedbackOrigin, StatePerGroup
from substrait_agg.flow.graph.nodes import Node, NodeDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(Node):
    """Groups with measures."""

    groups: StatePerGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(Node):
    """The multiset of the rows of a view, with weights.

    The key is the whole row, so it needs no further tree to detect early retractions.
    """

    output_weight = "weighted"
    shows_rows_below = True

    def describe(self) -> NodeDescription:
        """See `Node`."""
        return NodeDescription(
            "rows of the view",
            "rows",
            emits="insert or retract each row as often as its count has changed",
        )

    def identity(self) -> tuple[object, ...]:
        """See `Node`."""
        return (True, (), None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recursion(Distinct):
    """The multiset of the rows of a recursion, with their level as the last column.

    It reads the anchor, and as feedback the changes of its step in the round before. A batch runs it and the
    operators of its step round by round until a round changes nothing.

    Attributes:
        limit: level whose rows have no next level. A batch that leaves any there fails.
        most_rows: how many changed rows the rounds of a batch may make.
        definition: identifies the anchor and the step.
    """

    limit: int
    most_rows: int
    definition: str

    shows_rows_below = False
    can_forget = False

    @property
    def loop_end(self) -> int | None:
        """See `Node`."""
        origins = (branch.origin for branch in self.branches)
        return max(o.operator for o in origins if isinstance(o, FeedbackOrigin))

    def describe(self) -> NodeDescription:
        """See `Node`."""
        return NodeDescription(
            "recursion",
            "rows of levels",
            emits="in rounds: each row as often as its count has changed, until a round changes nothing",
        )

    def identity(self) -> tuple[object, ...]:
        """See `Node`."""
        return (True, ("recursion", self.definition), None, None)
