"""What an upsert operator keeps per key: the row that was set last, and what orders the rows of the key."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from substrait_agg.operator.layout import Layout
from substrait_agg.state.keys import Component

THERE = "there"
"""The column of the group tree that says whether the key has a row."""


@dataclass(frozen=True, slots=True)
class LatestSpec:
    """The row of an upsert operator besides its key.

    Attributes:
        values: Arrow types of the columns behind the key; they arrive as ``x0``, ``x1``, ...
        order: what orders the rows of one key; the columns arrive behind the values. Empty: the order of arrival.
        partial: which of the values a row may leave out because they did not change. Behind what orders arrives a boolean
            column for each that says so.
        labels: how an error message names them.
    """

    values: tuple[pa.DataType, ...]
    order: tuple[Component, ...] = ()
    partial: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def order_columns(self) -> tuple[str, ...]:
        """Names of the columns that order, in the rows that arrive."""
        return tuple(f"x{len(self.values) + i}" for i in range(len(self.order)))

    @property
    def partial_columns(self) -> tuple[str, ...]:
        """Names of the columns that say which values are left out, in the rows that arrive."""
        first = len(self.values) + len(self.order)
        return tuple(f"x{first + i}" for i in range(len(self.partial)))

    def layout(self, keys: tuple[pa.DataType, ...]) -> Layout:
        """The columns of a run: hash, dead, keys, ``there``, ``v*`` (the row, null without one) and ``o*`` (its order)."""
        fields = [
            pa.field("hash", pa.uint64()),
            pa.field("dead", pa.bool_()),
            *(pa.field(f"k{i}", t) for i, t in enumerate(keys)),
            pa.field(THERE, pa.bool_()),
            *(pa.field(f"v{i}", t) for i, t in enumerate(self.values)),
            *(pa.field(f"o{i}", c.type) for i, c in enumerate(self.order)),
        ]
        return Layout(pa.schema(fields), (), 0)
