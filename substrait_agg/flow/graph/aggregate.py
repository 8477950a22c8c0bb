"""The nodes of groups: with measures, or of the distinct rows of a view."""

from __future__ import annotations

from dataclasses import dataclass

from substrait_agg.flow.graph.graph import StatePerGroup
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
