"""Find the inputs of operators whose rows all come in the first version.

They have the rows of static tables, rows written in the plan, and the changes of operators that
read nothing else. A join stores no rows of a side that only such an input can ask for
(`flow.graph.join`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from substrait_agg.flow.graph.graph import (
    FeedbackOrigin,
    OperatorOrigin,
    Origin,
    RowsOrigin,
    TableOrigin,
)
from substrait_agg.flow.graph.nodes import Flow, Node


def with_static_ports(flow: Flow, tables: Collection[tuple[str, ...]], *, forgets: bool) -> Flow:
    """Return the flow with the property `static` of every branch set.

    Args:
        flow: the flow.
        tables: the static tables.
        forgets: whether idle groups are evicted: operators that do so change later, too.
    """
    static: set[int] = set()

    def is_static(origin: Origin) -> bool:
        """Return whether all rows of an origin come in the first version."""
        match origin:
            case TableOrigin(table=table):
                return table in tables
            case RowsOrigin():
                return True
            case OperatorOrigin(operator=operator):
                return operator in static
            case FeedbackOrigin():
                return False

    operators: list[Node] = []
    for node in flow.operators:
        ports = tuple(
            replace(
                port,
                branches=tuple(replace(b, static=is_static(b.origin)) for b in port.branches),
            )
            for port in node.inputs
        )
        operators.append(replace(node, inputs=ports))
        if all(port.static for port in ports) and not (forgets and node.can_forget):
            static.add(node.id)
    return replace(flow, operators=tuple(operators))


def static_tables(flow: Flow) -> tuple[str, ...]:
    """Return the names of the static tables of a flow, in order."""
    return tuple(
        sorted(
            {
                ".".join(branch.origin.table)
                for node in flow.operators
                for branch in node.branches
                if branch.static and isinstance(branch.origin, TableOrigin)
            }
        )
    )
