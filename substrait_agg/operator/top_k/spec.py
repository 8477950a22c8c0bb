"""The specification of a top-k operator."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from substrait_agg.flow.graph.top_k import TopK
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.common.spec import OperatorSpec, group_fields
from substrait_agg.operator.top_k.window import RankRange
from substrait_agg.plan.arrow import to_arrow

LIVE, EARLY = 0, 1
"""Ordinals of the trees: rows of positive weight, and rows retracted more often than inserted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKSpec(OperatorSpec):
    """The specification of a top-k operator.

    Both trees have the same components: the sort keys, then the remaining columns of a row.

    Attributes:
        ranks: the ranks whose rows are emitted.
        row: per output column after the keys, its component.
        values: Arrow types of these columns; if rows are numbered, also that of the number.
        numbered: whether the rank of a row, from 1, is its last output column.
    """

    ranks: RankRange
    row: tuple[int, ...]
    values: tuple[pa.DataType, ...]
    numbered: bool

    @property
    def bounded(self) -> bool:
        """Return whether rows behind the last rank are dropped.

        Without retractions they can never come into the range.
        """
        return self.weight == "append_only" and self.ranks.stop is not None

    @property
    def changes(self) -> pa.Schema:
        """Return the columns of the changes: keys, the row, weight."""
        fields = [pa.field(f"v{i}", t) for i, t in enumerate(self.values)]
        return pa.schema([*self.output, *fields, pa.field(WEIGHT, pa.int64())])


def top_k_spec(node: TopK) -> TopKSpec:
    """Return the spec of a top-k node."""
    stop = None if node.count is None else node.offset + node.count
    return TopKSpec(
        **group_fields(node),
        ranks=RankRange(node.offset, stop),
        row=node.row,
        values=tuple(to_arrow(t) for t in node.types[len(node.keys) :]),
        numbered=node.numbered,
    )
