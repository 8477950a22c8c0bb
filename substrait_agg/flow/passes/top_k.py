"""Build the operator of a fetch: the rows in a range of ranks, in the order of its sort keys."""

from __future__ import annotations

from dataclasses import replace

from substrait_agg.bind.bound import BoundFetch, Expr
from substrait_agg.bind.context import columns
from substrait_agg.flow.graph.graph import Branch
from substrait_agg.flow.graph.nodes import Port
from substrait_agg.flow.graph.top_k import TopK
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction, WeightKind


def merged_fetch(relation: BoundFetch) -> BoundFetch:
    """Return a fetch that reads no other fetch in the same order.

    The ranks of an outer fetch are among those of the inner one.
    """
    inner = relation.input
    if not isinstance(inner, BoundFetch) or inner.sorts != relation.sorts:
        return relation
    inner = merged_fetch(inner)
    left = None if inner.count is None else max(0, inner.count - relation.offset)
    counts = [count for count in (left, relation.count) if count is not None]
    return replace(
        inner,
        offset=inner.offset + relation.offset,
        count=min(counts, default=None),
        path=relation.path,
    )


def top_k_node(
    number: int,
    inputs: tuple[Branch, ...],
    properties: tuple[WeightKind, EarlyRetraction],
    relation: BoundFetch,
    keys: tuple[Expr, ...] = (),
) -> TopK:
    """Return the operator of a fetch.

    Rows with equal sort keys are ordered by their other columns, ascending, nulls last.

    Args:
        number: its id.
        inputs: branches with exactly the columns of the input.
        properties: the weights of these branches, and the early-retraction policy.
        relation: the fetch.
        keys: expressions whose values have a range of ranks each; none for one range of all rows.
    """
    order: dict[Expr, tuple[bool, bool]] = {}
    for sort in relation.sorts:
        order.setdefault(sort.expression, (sort.descending, sort.nulls_first))
    row = columns(relation.types)
    rest: dict[Expr, tuple[bool, bool]] = {c: (False, False) for c in row if c not in order}
    values = (*order, *rest)
    # Rows without columns are all equal: the tree has one entry, the constant true.
    arguments = tuple((value, None) for value in values) or ((None, None),)
    weight, early = properties
    return TopK(
        id=number,
        inputs=(Port(inputs, keys, arguments),),
        types=(*(key.type for key in keys), *relation.types),
        weight=weight,
        path=relation.path,
        early=early,
        directions=(*order.values(), *rest.values()) or ((False, False),),
        sorts=len(order),
        row=tuple(map(values.index, row)),
        offset=relation.offset,
        count=relation.count,
    )
