"""Which ordered trees an aggregate keeps, and which measures share one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from substrait_agg.explanation.explain import explain_flow
from substrait_agg.explanation.text import plan_text
from substrait_agg.flow.graph.nodes import Flow, Node
from substrait_agg.flow.passes.lower import lower
from substrait_agg.plan.model import Literal, MeasureCall, ScalarCall, SortField
from substrait_agg.plan.types import I64, STRING
from substrait_agg.required import require
from tests.bind.build import aggregate, bound, call, col, lit, measure, read

SMALL = ("min", "max", "count_distinct", "list_agg")


def flow_of(*measures: MeasureCall) -> Flow:
    root = aggregate(read(), (col("name"),), measures)
    return lower(bound(root, *(f"c{i}" for i in range(1 + len(measures)))))


def node_of(*measures: MeasureCall) -> Node:
    return flow_of(*measures).operators[0]


def distinct(name: str, *arguments: object) -> MeasureCall:
    return measure(name, *arguments, invocation="distinct")


def by(expression: object, direction: str = "asc_nulls_last") -> SortField:
    return SortField(expression, direction, None, "sort")  # type: ignore[arg-type]


def test_measures_over_the_same_values_keep_one_tree() -> None:
    """min, max, a distinct count, a distinct sum and a list over x, in any number."""
    given = [measure(name, col("big")) for name in SMALL]
    flow = flow_of(*given, distinct("sum", col("big")), measure("median", col("big")))
    assert len(require(flow.operators[0].groups).trees) == 1
    text = plan_text(explain_flow(flow))
    assert "tree 0: ordered by big, shared by measures 0, 1, 2, 3, 4, 5" in text
    assert "tree 1" not in text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (measure("min", col("big")), measure("min", col("must"))),
        (measure("min", col("big")), measure("min", col("big"), filter=col("flag"))),
        (measure("list_agg", col("big")), measure("array_agg", col("big"))),
        (measure("list_agg", col("big")), measure("list_agg", col("big"), sorts=(by(col("x")),))),
    ],
    ids=["value", "filter", "nulls", "order"],
)
def test_another_value_filter_treatment_of_nulls_or_order_is_another_tree(
    one: MeasureCall, other: MeasureCall
) -> None:
    assert len(require(node_of(one, other).groups).trees) == 2
    assert (
        len(require(node_of(one, one).groups).trees)
        == len(require(node_of(other, other).groups).trees)
        == 1
    )


def test_filters_of_distinct_counts_are_weights_of_one_tree() -> None:
    """Where only counts and totals are read; an entry then has a weight for each FILTER."""
    every, some = distinct("count", col("big")), distinct("sum", col("big"))
    flow = flow_of(every, replace(every, filter=col("flag")), some)
    text = plan_text(explain_flow(flow))
    assert [tree.within for tree in require(flow.operators[0].groups).trees] == [None, 0]
    assert "where flag, of measure 1\n    a further weight in the entries of tree 0\n" in text
    sizes = [
        explain_flow(f).operators[0].state.trees[0].entry_bytes for f in (flow, flow_of(every))
    ]
    assert sizes[0] == sizes[1] + 8


@pytest.mark.parametrize("name", ["array_agg", "nth_value", "first_value"])
def test_nulls_that_count_come_first_where_no_sort_says_otherwise(name: str) -> None:
    """As inside nested values; with a sort of the plan, rows with equal keys are ordered with nulls first."""
    further = [lit(1, I64)] if name == "nth_value" else []

    def ways(*sorts: SortField) -> list[tuple[bool, bool]]:
        (tree, *_) = require(node_of(measure(name, col("x"), *further, sorts=sorts)).groups).trees
        return [(c.descending, c.nulls_first) for c in tree.components]

    if name != "first_value":  # that goes by arrival
        assert ways() == [(False, True)]
    assert ways(by(col("x"))) == [(False, False)]
    assert ways(by(col("big"), "desc_nulls_last")) == [(True, False), (False, True)]
    assert ways(by(col("big"), "clustered")) == [(False, True), (False, True)]


def test_filters_that_look_alike_stay_apart() -> None:
    """The computation of a filter counts, not its text."""
    given = [
        measure("max", col("big"), filter=_equals(lit(value, type_)))
        for value, type_ in (("1", STRING), (1, I64))
    ]
    assert len(require(node_of(*given).groups).trees) == 2


def _equals(value: Literal) -> ScalarCall:
    return call("equal", value, value)


def test_sums_without_distinct_need_no_tree() -> None:
    assert (
        require(
            node_of(measure("sum", col("big")), measure("corr", col("x"), col("x"))).groups
        ).trees
        == ()
    )
