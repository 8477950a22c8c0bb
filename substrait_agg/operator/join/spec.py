"""Specification of a join operator: its keys, the columns of both sides, and its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from substrait_agg.bind.bound import Expr, JoinKind
from substrait_agg.bind.joins.ranges import JoinRange
from substrait_agg.flow.graph.graph import Side
from substrait_agg.flow.graph.join import Join
from substrait_agg.functions.aggregates.accumulators import Accumulator, WeightKind
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.common.spec import SLICE_BYTES, SLICE_ROWS, MaskedArgument, TreeSpec
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import BOOL
from substrait_agg.state.arrangement import ArrangementLayout

NESTED_LOOP_ROWS = 10_000
"""Maximal number of rows of the smaller side of a join without a key and without a range."""
PAGE_ROWS = 1 << 19
"""Rows per page of a run. A batch looks for its keys in each page, and most batches have keys for every page of a large run."""


@dataclass(frozen=True, slots=True)
class JoinSide:
    """The columns of one side.

    Attributes:
        layout: the columns that are stored.
        columns: per column of the side its position among the stored columns: keys, then values.
    """

    layout: ArrangementLayout
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """The specification of a join; an `InputSpec`.

    Attributes:
        keys: Arrow types of the key columns.
        null_safe: per key whether null matches null.
        sides: the left and the right side.
        residual: condition on a pair of rows besides the keys, over the columns of the left and
            then of the right side; None for none.
        chosen: ordinals of the output columns among the columns of the left side, of the right side
            and, for a mark join, the mark.
        types: Arrow types of the output columns.
        label: name of the join in error messages.
        weight: what is known about the weights of the input.
        stored: per side whether its rows are stored.
        whole: per side whether rows are stored, too, that match nothing because of a null in their
            key. They are never read by key, but a static table can be compared with them.
        few: sides of which at least one has no more than `NESTED_LOOP_ROWS` rows, because every row
            of the other side meets all of them; none if there are keys or a range.
        range: what rows are ordered and found by if there are no keys; None for hashes.
        page_rows: rows per page of a run.
        slice_rows: rows of input in memory.
        slice_bytes: bytes that these rows may take.
    """

    kind: JoinKind
    keys: tuple[pa.DataType, ...]
    null_safe: tuple[bool, ...]
    sides: tuple[JoinSide, JoinSide]
    residual: Expr | None
    chosen: tuple[int, ...]
    types: tuple[pa.DataType, ...]
    label: str
    weight: WeightKind
    stored: tuple[bool, ...] = (True, True)
    whole: tuple[bool, ...] = (False, False)
    few: tuple[int, ...] = ()
    range: JoinRange | None = None
    page_rows: int = PAGE_ROWS
    slice_rows: int = SLICE_ROWS
    slice_bytes: int = SLICE_BYTES

    accumulators: ClassVar[tuple[Accumulator, ...]] = ()
    trees: ClassVar[tuple[TreeSpec, ...]] = ()
    extremes: ClassVar[tuple[tuple[int, Side], ...]] = ()
    always: ClassVar[tuple[int, ...]] = ()
    masked: ClassVar[tuple[MaskedArgument, ...]] = ()
    sets: ClassVar[tuple[tuple[int, ...], ...]] = ()
    row_wise: ClassVar[bool] = True
    by_arrival: ClassVar[bool] = False

    @property
    def is_global(self) -> bool:
        """Return whether there are no keys: every row of a side matches every row of the other."""
        return not self.keys

    @property
    def output(self) -> pa.Schema:
        """Return the columns of the changes, without weight."""
        return pa.schema([pa.field(f"v{i}", t) for i, t in enumerate(self.types)])

    @property
    def changes(self) -> pa.Schema:
        """Return the columns of the changes."""
        return self.output.append(pa.field(WEIGHT, pa.int64()))

    def arguments_of(self, port: int) -> tuple[str, ...]:
        """Return the names of the values of a side in input rows."""
        first = len(self.sides[0].layout.value_types) if port else 0
        return tuple(f"x{first + i}" for i in range(len(self.sides[port].layout.value_types)))


def join_spec(node: Join) -> JoinSpec:
    """Return the spec of a join."""
    keys = tuple(to_arrow(key.type) for key in node.keys)
    sides = []
    for port, columns in zip(node.inputs, node.columns_of_sides, strict=True):
        types = (BOOL if value is None else value.type for value, _ in port.arguments)
        sides.append(JoinSide(ArrangementLayout(keys, tuple(map(to_arrow, types))), columns))
    return JoinSpec(
        node.kind,
        keys,
        node.null_safe,
        (sides[0], sides[1]),
        node.residual,
        node.chosen,
        tuple(map(to_arrow, node.types)),
        f"the join at {node.path}",
        node.weight,
        node.stored_ports,
        node.static_ports,
        node.few_ports,
        node.range,
    )
