"""The nodes that keep rows in order: a fetch, and their common part."""

from __future__ import annotations

from dataclasses import dataclass

from substrait_agg.bind.bound import Expr
from substrait_agg.flow.graph.graph import StatePerGroup, TreeComponent, ValueTree
from substrait_agg.flow.graph.nodes import NodeDescription, RowNode
from substrait_agg.functions.aggregates.accumulators import tree_counters


def row_trees(components: tuple[TreeComponent, ...], *, guarded: bool) -> StatePerGroup:
    """Return the trees of rows in order, and of rows that are retracted more often than inserted.

    The latter exists under every policy for early retractions.
    """
    tree = ValueTree(components, (), None)
    return StatePerGroup(
        trees=(tree, tree),
        accumulators=(*tree_counters(0), *tree_counters(1)),
        guard=1 if guarded else None,
        keeps_rows=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedRows(RowNode):
    """An operator that keeps the rows of each group, or all rows, in order.

    Its arguments are the sort keys, then the other columns of the row, which order rows with equal
    sort keys.

    Attributes:
        sorts: number of sort keys among the arguments.
        row: per output column after the keys that is passed on, its argument.
    """

    groups: StatePerGroup
    sorts: int
    row: tuple[int, ...]

    emits_together = True  # a row changes because of others
    shows_rows_below = True
    timed_by = ()  # any row may change at any time

    @property
    def directions(self) -> tuple[tuple[bool, bool], ...]:
        """Return per argument whether it is descending, and whether nulls come first."""
        return tuple((c.descending, c.nulls_first) for c in self.groups.trees[0].components)

    @property
    def passed_on(self) -> tuple[Expr, ...]:
        """See `Node`."""
        values = (self.arguments[argument][0] for argument in self.row)
        return tuple(value for value in values if value is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK(OrderedRows):
    """The operator that emits the rows in a range of ranks: of each group, or of all rows.

    Attributes:
        offset: number of rows before the range, counted by weight.
        count: length of the range; None if it has no end.
        numbered: whether the last output column is the rank of the row, from 1.
    """

    offset: int
    count: int | None
    numbered: bool = False

    @property
    def added_columns(self) -> tuple[str, ...]:
        """See `Node`."""
        return ("row number",) if self.numbered else ()

    def rows_out(self, groups: int | None) -> int | None:
        """See `Node`."""
        return None if groups is None or self.count is None else groups * self.count

    def describe(self) -> NodeDescription:
        """See `Node`."""
        last = "the last" if self.count is None else str(self.offset + self.count)
        ranks = "no ranks" if self.count == 0 else f"ranks {self.offset + 1} to {last}"
        bounded = self.weight == "append_only" and self.count is not None
        only = (
            f"; only ranks up to {last} are stored, because no row is retracted" if bounded else ""
        )
        emits = f"retract the rows that leave {ranks}, insert those that enter"
        return NodeDescription(
            "top-k",
            "ordered rows",
            (f"to find rows by rank{only}", "to keep rows retracted more often than inserted"),
            by_order=f"{ranks}, as a column" if self.numbered else ranks,
            emits=f"{emits}, and replace those whose rank changes" if self.numbered else emits,
        )

    def identity(self) -> tuple[object, ...]:
        """See `Node`."""
        ranks = ("TopK", self.offset, self.count, self.sorts, self.directions, self.row)
        numbered = ("numbered",) if self.numbered else ()
        return (False, (), (*ranks, self.arguments, *numbered), None)
