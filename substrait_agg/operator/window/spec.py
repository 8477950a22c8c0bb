"""The specification of a window operator."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from substrait_agg.bind.bound import Frame, WindowKind
from substrait_agg.flow.graph.window import Window, WindowColumn
from substrait_agg.operator.common.spec import OperatorSpec, group_spec
from substrait_agg.operator.top_k.spec import LIVE, OrderedRowsSpec, ordered_fields
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.state.keys.keys import Component

_LOOKS_BACK: dict[WindowKind, int] = {"lag": 1, "lead": -1}
"""The direction in which a function reads a row at a distance: 1 is back."""


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """A window function.

    Attributes:
        arguments: components of the tree: the value, then the default if there is one.
        number: the distance, the position or the number of parts, as in `WindowColumn`.
        measure: for an aggregate function, its ordinal among the measures of the frames.
        type: type of its values.
    """

    function: WindowKind
    arguments: tuple[int, ...]
    number: int
    frame: Frame | None
    measure: int | None
    type: pa.DataType

    @property
    def reach(self) -> tuple[int, int] | None:
        """Return how many rows before and after a row its value depends on; None if on any."""
        if self.function in _LOOKS_BACK:
            back = _LOOKS_BACK[self.function] * self.number
            return max(back, 0), max(-back, 0)
        frame = self.frame
        if frame is None or not frame.rows or frame.lower is None or frame.upper is None:
            return None
        return max(-frame.lower, 0), max(frame.upper, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec(OrderedRowsSpec):
    """The specification of a window operator.

    Attributes:
        functions: per output column after those of the row, its function.
        sorts: number of sort keys, the first components of the tree.
        frames: the aggregate of which each frame is a group; None without aggregate functions.
        frame_arguments: per argument of `frames`, the component of the tree.
    """

    functions: tuple[FunctionSpec, ...]
    sorts: int
    frames: OperatorSpec | None
    frame_arguments: tuple[int, ...]

    @property
    def sort_keys(self) -> tuple[Component, ...]:
        """Return the components of the tree that are sort keys."""
        return self.trees[LIVE].layout.components[: self.sorts]

    @property
    def reach(self) -> tuple[int, int] | None:
        """Return how many rows before and after a row its values depend on; None if on any."""
        limited = [f.reach for f in self.functions if f.reach is not None]
        if len(limited) < len(self.functions):
            return None
        return max(back for back, _ in limited), max(ahead for _, ahead in limited)


def window_spec(node: Window) -> WindowSpec:
    """Return the spec of a window node."""
    types = node.types[len(node.types) - len(node.functions) :]
    return WindowSpec(
        **ordered_fields(node),
        functions=tuple(
            _function(column, to_arrow(type_))
            for column, type_ in zip(node.functions, types, strict=True)
        ),
        sorts=node.sorts,
        frames=None if node.frames is None else group_spec(node.frames),
        frame_arguments=node.frame_arguments,
    )


def _function(column: WindowColumn, type_: pa.DataType) -> FunctionSpec:
    return FunctionSpec(
        column.function, column.arguments, column.number, column.frame, column.measure, type_
    )
