"""The node of window functions over ordered rows."""

from __future__ import annotations

from dataclasses import dataclass

from substrait_agg.bind.bound import BoundMeasure, Frame, WindowKind
from substrait_agg.flow.graph.aggregate import Aggregate
from substrait_agg.flow.graph.nodes import NodeDescription
from substrait_agg.flow.graph.top_k import OrderedRows


@dataclass(frozen=True, slots=True)
class WindowColumn:
    """An output column: the value of a window function.

    Attributes:
        function: the kind of function.
        arguments: ordinals of the arguments of the node: the value, then the default if there is
            one.
        number: the distance of ``lag`` and ``lead``, the position of ``nth_value``, the number of
            parts of ``ntile``.
        frame: the rows that the function reads; None if it does not depend on a frame.
        measure: for an aggregate function, its ordinal among the measures of `Window.frames`.
        name: the function's name as the plan writes it.
        skip_nulls: whether it counts only rows whose value is not null.
    """

    function: WindowKind
    arguments: tuple[int, ...]
    number: int
    frame: Frame | None
    measure: int | None
    name: str
    skip_nulls: bool = False

    def __str__(self) -> str:
        called = f"{self.name} {self.number}" if self.number else self.name
        called = f"{called} ignore nulls" if self.skip_nulls else called
        return f"{called} over {self.frame}" if self.frame else called


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(OrderedRows):
    """The operator that adds the values of window functions to the rows of each group.

    The arguments of functions that are no columns of the row follow those of `OrderedRows`.

    Attributes:
        functions: per output column after those of the row, its function.
        frames: the aggregate of which each frame is a group; None without aggregate functions. It
            has no input: its arguments are those of this node at `frame_arguments`.
        frame_arguments: per argument of `frames`, the ordinal among the arguments of this node.
        last: the greatest value of the only function, a rank; rows with greater ones are left out.
            None if there is no limit.
    """

    functions: tuple[WindowColumn, ...]
    frames: Aggregate | None = None
    frame_arguments: tuple[int, ...] = ()
    last: int | None = None

    @property
    def added_columns(self) -> tuple[str, ...]:
        """See `Node`."""
        return tuple(column.name for column in self.functions)

    @property
    def frame_measures(self) -> tuple[BoundMeasure, ...]:
        """See `Node`."""
        return () if self.frames is None else self.frames.groups.measures

    def rows_out(self, groups: int | None) -> int | None:
        """See `Node`."""
        return None

    def describe(self) -> NodeDescription:
        """See `Node`."""
        functions = ", ".join(map(str, self.functions))
        if self.last is not None:
            functions = f"{functions} up to {self.last}"
        emits = "replace the rows whose values change"
        return NodeDescription(
            "window functions",
            "ordered rows",
            (
                "to find the rows around a row",
                "to keep rows retracted more often than inserted",
            ),
            emits=f"{emits}: {functions}",
            by_order=functions,
        )

    def identity(self) -> tuple[object, ...]:
        """See `Node`."""
        functions = tuple(
            (
                c.function,
                c.arguments,
                c.number,
                c.frame,
                c.measure,
                *(("skip nulls",) * c.skip_nulls),
            )
            for c in self.functions
        )
        rows = ("Window", self.sorts, self.directions, self.row, self.arguments)
        last = () if self.last is None else (self.last,)
        return (False, (), (*rows, functions, self.frame_measures, *last), None)
