"""Specification of the operator that keeps the newest row of each key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from substrait_agg.flow.graph.graph import Side
from substrait_agg.flow.graph.upsert import Upsert
from substrait_agg.functions.aggregates.accumulators import Accumulator, WeightKind
from substrait_agg.operator.common.spec import SLICE_BYTES, SLICE_ROWS, MaskedArgument, TreeSpec
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import BOOL
from substrait_agg.state.keys.keys import Component
from substrait_agg.state.run import PAGE_ROWS

THERE = "there"
"""The column of the upsert tree that says whether the key has a row."""


@dataclass(frozen=True, slots=True)
class UpsertSpec:
    """The specification of an operator that keeps the newest row of each key; an `InputSpec`.

    Attributes:
        keys: Arrow types of the key.
        values: Arrow types of the columns after the key; in input rows they are ``x0``, ``x1``, ...
        order: the columns that order the rows of one key; in input rows they follow the values.
            Empty means the order of arrival.
        partial: ordinals of the values that a row may omit because they did not change. Input rows
            have a boolean column for each of them after the ordering columns, True if the value is
            omitted.
        labels: names of these values in error messages.
        page_rows: rows per page of a run.
        slice_rows: rows of input in memory, fewer if they or the stored rows of their groups are
            long.
    """

    keys: tuple[pa.DataType, ...]
    values: tuple[pa.DataType, ...]
    order: tuple[Component, ...] = ()
    partial: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    page_rows: int = PAGE_ROWS
    slice_rows: int = SLICE_ROWS
    slice_bytes: int = SLICE_BYTES

    weight: ClassVar[WeightKind] = "changelog"
    accumulators: ClassVar[tuple[Accumulator, ...]] = ()
    trees: ClassVar[tuple[TreeSpec, ...]] = ()
    extremes: ClassVar[tuple[tuple[int, Side], ...]] = ()
    always: ClassVar[tuple[int, ...]] = ()
    is_global: ClassVar[bool] = False
    masked: ClassVar[tuple[MaskedArgument, ...]] = ()
    sets: ClassVar[tuple[tuple[int, ...], ...]] = ()
    row_wise: ClassVar[bool] = True
    by_arrival: ClassVar[bool] = True

    @property
    def output(self) -> pa.Schema:
        """Return the columns of the changes, without weight: ``k*``, then ``v*``."""
        keys = [pa.field(f"k{i}", t) for i, t in enumerate(self.keys)]
        return pa.schema([*keys, *(pa.field(f"v{i}", t) for i, t in enumerate(self.values))])

    @property
    def order_columns(self) -> tuple[str, ...]:
        """Return the names of the ordering columns in input rows."""
        return tuple(f"x{len(self.values) + i}" for i in range(len(self.order)))

    @property
    def partial_columns(self) -> tuple[str, ...]:
        """Return the names of the boolean columns of input rows that mark omitted values."""
        first = len(self.values) + len(self.order)
        return tuple(f"x{first + i}" for i in range(len(self.partial)))

    @property
    def stored(self) -> pa.Schema:
        """Return the columns of a run.

        They are ``hash``, ``dead``, keys, ``there`` (bool: the key has a row), ``v*`` (the row;
        null if there is none) and ``o*`` (the ordering columns).
        """
        keys, values = list(self.output)[: len(self.keys)], list(self.output)[len(self.keys) :]
        return pa.schema(
            [
                pa.field("hash", pa.uint64()),
                pa.field("dead", pa.bool_()),
                *keys,
                pa.field(THERE, pa.bool_()),
                *values,
                *(pa.field(f"o{i}", c.type) for i, c in enumerate(self.order)),
            ]
        )


def upsert_spec(node: Upsert) -> UpsertSpec:
    """Return the spec of a node that processes upserts."""
    types = [BOOL if value is None else value.type for value, _ in node.arguments]
    order = types[node.values : len(types) - len(node.partial)]
    return UpsertSpec(
        tuple(map(to_arrow, node.key_types)),
        tuple(map(to_arrow, types[: node.values])),
        tuple(Component(to_arrow(t)) for t in order),
        node.partial,
        node.labels,
    )
