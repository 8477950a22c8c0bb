"""The specification of a top-k operator, and of others that keep rows in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from substrait_agg.flow.graph.top_k import OrderedRows, TopK
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.common.spec import OperatorSpec, group_fields
from substrait_agg.operator.top_k.window import RankRange
from substrait_agg.plan.arrow import to_arrow

LIVE, EARLY = 0, 1
"""Ordinals of the trees: rows of positive weight, and rows retracted more often than inserted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedRowsSpec(OperatorSpec):
    """The specification of an operator that keeps rows in order.

    Both trees have the same components: the sort keys, then the remaining columns of a row.

    Attributes:
        row: per output column after the keys that is passed on, its component.
        values: Arrow types of the output columns after the keys: those passed on, then those added.
    """

    row: tuple[int, ...]
    values: tuple[pa.DataType, ...]

    @property
    def stop(self) -> int | None:
        """Return the rank from which on rows are dropped; None if all rows are stored."""
        return None

    @property
    def changes(self) -> pa.Schema:
        """Return the columns of the changes: keys, the row, weight."""
        fields = [pa.field(f"v{i}", t) for i, t in enumerate(self.values)]
        return pa.schema([*self.output, *fields, pa.field(WEIGHT, pa.int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKSpec(OrderedRowsSpec):
    """The specification of a top-k operator.

    Attributes:
        ranks: the ranks whose rows are emitted.
        numbered: whether the rank of a row, from 1, is its last output column.
    """

    ranks: RankRange
    numbered: bool

    @property
    def stop(self) -> int | None:
        """Return the end of the range: without retractions, rows behind it never come into it."""
        return self.ranks.stop if self.weight == "append_only" else None


def ordered_fields(node: OrderedRows) -> dict[str, Any]:
    """Return the fields of the spec of a node that keeps rows in order."""
    values = tuple(to_arrow(t) for t in node.types[len(node.keys) :])
    return {**group_fields(node), "row": node.row, "values": values}


def top_k_spec(node: TopK) -> TopKSpec:
    """Return the spec of a top-k node."""
    stop = None if node.count is None else node.offset + node.count
    return TopKSpec(
        **ordered_fields(node),
        ranks=RankRange(node.offset, stop),
        numbered=node.numbered,
    )
