"""Build the operator of a fetch: the rows in a range of ranks, in the order of its sort keys."""

from __future__ import annotations

from collections.abc import Sequence

from substrait_agg.bind.bound import Expr, MeasureSort
from substrait_agg.bind.context import columns
from substrait_agg.flow.graph.graph import Branch
from substrait_agg.flow.graph.nodes import Port
from substrait_agg.flow.graph.top_k import TopK
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction, WeightKind
from substrait_agg.plan.types import Type


def top_k_node(
    number: int,
    inputs: tuple[Branch, ...],
    given: tuple[WeightKind, EarlyRetraction],
    types: tuple[Type, ...],
    sorts: Sequence[MeasureSort],
    ranks: tuple[int, int | None],
    path: str,
    keys: tuple[Expr, ...] = (),
) -> TopK:
    """Return the operator of a fetch.

    Args:
        number: its id.
        inputs: branches with exactly the columns of the input.
        given: the weights of these branches, and the early-retraction policy.
        types: the columns of the input.
        sorts: the sort keys; a repeated key has no effect. Rows with equal keys are ordered by
            their other columns, ascending, nulls last.
        ranks: number of rows to skip, and the largest number of rows after them (None: no limit).
        path: path in the plan.
        keys: expressions whose values have a range of ranks each; none for one range of all rows.
    """
    order: dict[Expr, tuple[bool, bool]] = {}
    for sort in sorts:
        order.setdefault(sort.expression, (sort.descending, sort.nulls_first))
    by_column: dict[Expr, tuple[bool, bool]] = {
        column: (False, False) for column in columns(types) if column not in order
    }
    arguments = (*order, *by_column)
    weight, early = given
    return TopK(
        id=number,
        inputs=(Port(inputs, keys, tuple((argument, None) for argument in arguments)),),
        types=(*(key.type for key in keys), *types),
        weight=weight,
        path=path,
        early=early,
        directions=(*order.values(), *by_column.values()),
        sorts=len(order),
        row=tuple(arguments.index(column) for column in columns(types)),
        offset=ranks[0],
        count=ranks[1],
    )
