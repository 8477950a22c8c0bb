"""The specification of a window operator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from substrait_agg.bind.bound import Frame, WindowKind
from substrait_agg.flow.graph.window import Window, WindowColumn
from substrait_agg.operator.common.spec import OperatorSpec, group_spec
from substrait_agg.operator.top_k.spec import LIVE, OrderedRowsSpec, ordered_fields
from substrait_agg.operator.window.distances import units_of_day
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.required import require
from substrait_agg.state.keys.keys import Component

_LOOKS_BACK: dict[WindowKind, int] = {"lag": 1, "lead": -1}
"""The direction in which a function reads a row at a distance: 1 is back."""
MOST_FIRST_ROWS = 16
"""Greatest position of ``nth_value`` whose row is read apart from the rows after it."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The rows on which the value of a row depends, besides those with its sort keys.

    Attributes:
        back: number of rows before it; None if on all.
        ahead: number of rows after it; None if on all.
        peers: whether on the rows with its sort keys, however many these are.
        values: how far before and after its own sort key those of the rows are, in least units.
        to_end: whether a row changes the values of all rows after it, though these depend on no
            more than `back` rows.
        nearest: whether also on the nearest row before it whose value is not null.
    """

    back: int | None = None
    ahead: int | None = None
    peers: bool = True
    values: tuple[int, int] = (0, 0)
    to_end: bool = False
    nearest: bool = False


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """A window function.

    Attributes:
        arguments: components of the tree: the value, then the default if there is one.
        number: the distance, the position or the number of parts, as in `WindowColumn`.
        measure: for an aggregate function, its ordinal among the measures of the frames.
        summed: whether it is an aggregate function of sums over its frame.
        type: type of its values.
        skip_nulls: whether it counts only rows whose value is not null.
    """

    function: WindowKind
    arguments: tuple[int, ...]
    number: int
    frame: Frame | None
    measure: int | None
    summed: bool
    type: pa.DataType
    skip_nulls: bool = False

    def reach_in(self, sort_keys: Sequence[Component]) -> Reach:
        """Return the rows on which the value of a row depends."""
        if self.function in _LOOKS_BACK:
            distance = _LOOKS_BACK[self.function] * self.number
            if self.skip_nulls:  # any number of rows may be null
                return Reach(None if distance > 0 else 0, None if distance < 0 else 0, peers=False)
            return Reach(max(distance, 0), max(-distance, 0), peers=False)
        if self.function == "rank":  # the rows before the peers only count
            return Reach(0, 0, to_end=True)
        if self.function == "dense_rank":
            return Reach(None, 0)
        return Reach() if self.frame is None else self._reach_of_frame(self.frame, sort_keys)

    def _reach_of_frame(self, frame: Frame, sort_keys: Sequence[Component]) -> Reach:
        """Return the rows on which the value of a row depends, for a function of a frame."""
        lower, upper = frame.lower, frame.upper
        if isinstance(lower, float) or isinstance(upper, float):
            return Reach()
        back = None if lower is None else max(-lower, 0)
        ahead = None if upper is None else max(upper, 0)
        if upper is not None and self._is_running and (frame.rows or upper == 0):
            back = max(-upper, 0) + max(-self.number, 0)
            return Reach(back, ahead, peers=not frame.rows, to_end=True)
        if frame.rows:
            nearest = self.skip_nulls and self.function == "last_value" and back is None
            if nearest and upper == 0:
                return Reach(0, 0, peers=False, nearest=True)
            return Reach(back, ahead, peers=False)
        if frame.months:
            if back is None or ahead is None:
                return Reach()
            # Days that a month does not have are its last day, so that the frames of three days depend
            # on each other.
            day = units_of_day(sort_keys[0].type)
            rest = max(abs(frame.lower_rest), abs(frame.upper_rest))
            values = ((31 * back + 4) * day + rest, (31 * ahead + 4) * day + rest)
            return Reach(0, 0, peers=False, values=values)
        if back is not None and ahead is not None and back + ahead:
            return Reach(0, 0, peers=False, values=(back, ahead))
        return Reach(0 if back == 0 else None, 0 if ahead == 0 else None)

    @property
    def first_rows(self) -> int:
        """Return how many of the first rows of a partition the function reads."""
        if self.frame is None or self.frame.lower is not None or self.skip_nulls:
            return 0
        return {"first_value": 1, "nth_value": max(self.number, 0)}.get(self.function, 0)

    @property
    def _is_running(self) -> bool:
        """Return whether sums and the first rows stand for the rows at the start of a frame."""
        if self.frame is None or self.frame.lower is not None or self.skip_nulls:
            return False
        places = ("first_value", "last_value", "nth_value")
        return self.summed or (self.function in places and self.first_rows <= MOST_FIRST_ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec(OrderedRowsSpec):
    """The specification of a window operator.

    Attributes:
        functions: per output column after those of the row, its function.
        sorts: number of sort keys, the first components of the tree.
        frames: the aggregate of which each frame is a group; None without aggregate functions.
        frame_arguments: per argument of `frames`, the component of the tree.
        last: the greatest value of the only function; rows with greater ones are left out. None if
            there is no limit.
    """

    functions: tuple[FunctionSpec, ...]
    sorts: int
    frames: OperatorSpec | None
    frame_arguments: tuple[int, ...]
    last: int | None

    @property
    def sort_keys(self) -> tuple[Component, ...]:
        """Return the components of the tree that are sort keys."""
        return self.trees[LIVE].layout.components[: self.sorts]

    @property
    def reach(self) -> Reach:
        """Return the rows on which the values of a row depend."""
        every = [function.reach_in(self.sort_keys) for function in self.functions]
        back = _greatest(reach.back for reach in every)
        ahead = _greatest(reach.ahead for reach in every)
        values = max(r.values[0] for r in every), max(r.values[1] for r in every)
        nearest = any(reach.nearest for reach in every)
        if any(values) and (back or ahead or nearest):
            back = None  # rows around those within a distance are not searched for
        return Reach(
            back,
            ahead,
            any(reach.peers for reach in every),
            values,
            any(reach.to_end for reach in every),
            nearest,
        )

    @property
    def sought_values(self) -> tuple[int, ...]:
        """Return the components of which functions read the nearest value that is not null."""
        return tuple(f.arguments[0] for f in self.functions if f.reach_in(self.sort_keys).nearest)


def _greatest(numbers: Iterable[int | None]) -> int | None:
    """Return the greatest number; None is greater than all."""
    every = tuple(numbers)
    limited = [number for number in every if number is not None]
    return max(limited, default=0) if len(limited) == len(every) else None


def window_spec(node: Window) -> WindowSpec:
    """Return the spec of a window node."""
    types = node.types[len(node.types) - len(node.functions) :]
    frames = None if node.frames is None else group_spec(node.frames)
    return WindowSpec(
        **ordered_fields(node),
        functions=tuple(
            _function(column, frames, to_arrow(type_))
            for column, type_ in zip(node.functions, types, strict=True)
        ),
        sorts=node.sorts,
        frames=frames,
        frame_arguments=node.frame_arguments,
        last=node.last,
    )


def _function(
    column: WindowColumn, frames: OperatorSpec | None, type_: pa.DataType
) -> FunctionSpec:
    summed = column.measure is not None and require(frames).measures[column.measure].tree is None
    return FunctionSpec(
        column.function,
        column.arguments,
        column.number,
        column.frame,
        column.measure,
        summed,
        type_,
        column.skip_nulls,
    )
