"""The node of a table with upserts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from substrait_agg.bind.bound import Expr
from substrait_agg.flow.graph.nodes import Node, NodeDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert(Node):
    """The operator that keeps the newest row of each key and turns upserts into changes.

    Attributes:
        values: number of arguments that are columns of the row; the arguments after them order the
            rows of a key.
        partial: which of the values a row may omit because they did not change; as many boolean
            arguments, the last ones, tell which.
        labels: names of the partial values in error messages.
        time: see `Node`.
    """

    values: int
    partial: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    time: int | None = None

    can_forget = False
    is_source = True
    row_wise = True
    timed_by = ()  # the row of a key may change at any time

    @property
    def passed_on(self) -> tuple[Expr, ...]:
        """See `Node`."""
        return tuple(value for value, _ in self.arguments[: self.values] if value is not None)

    def with_time(self, column: int | None) -> Upsert:
        """See `Node`."""
        return replace(self, time=column)

    def describe(self) -> NodeDescription:
        """See `Node`."""
        return NodeDescription("upserts", "upserts")

    def identity(self) -> tuple[object, ...]:
        """See `Node`."""
        return (False, (), None, ("Latest", self.values, self.partial, self.labels))
