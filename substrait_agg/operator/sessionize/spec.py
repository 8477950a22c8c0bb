"""Specification of the operator that assigns rows to sessions."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from substrait_agg.flow.graph.sessionize import Sessionize
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.common.spec import OperatorSpec, group_fields
from substrait_agg.plan.arrow import to_arrow


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec(OperatorSpec):
    """The specification of an operator that assigns rows to sessions.

    The keys are the grouping expressions other than the session. The first component of the only
    tree is the event time.

    Attributes:
        gap: a session ends after this many microseconds without a row.
        window: Arrow type of a session.
        values: Arrow types of the other columns that the operator emits with each row.
    """

    gap: int
    window: pa.DataType
    values: tuple[pa.DataType, ...]

    @property
    def changes(self) -> pa.Schema:
        """Return the columns of the changes: other keys, session, values, weight."""
        types = (self.window, *self.values)
        fields = [pa.field(f"v{i}", t) for i, t in enumerate(types)]
        return pa.schema([*self.output, *fields, pa.field(WEIGHT, pa.int64())])


def session_spec(node: Sessionize) -> SessionSpec:
    """Return the spec of a node that assigns rows to sessions."""
    window, *values = (to_arrow(t) for t in node.types[len(node.keys) :])
    own = {"gap": node.gap, "window": window, "values": tuple(values)}
    return SessionSpec(**group_fields(node), **own)
