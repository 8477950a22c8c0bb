"""The nodes of fetches: merged where they share an order, one node for several readers, described by their ranks."""

from __future__ import annotations

import pytest

import substrait_agg as sa
from substrait_agg.explanation.explain import explain_flow
from substrait_agg.flow.graph.aggregate import Distinct
from substrait_agg.flow.graph.nodes import Flow, shown_operators
from substrait_agg.flow.graph.top_k import TopK
from substrait_agg.flow.passes.lower import lower
from substrait_agg.functions.aggregates.accumulators import WeightKind
from tests.e2e.plans import Builder, Json, aggregate, column, fetched, ordered, read, union_all

COLUMNS = {"k": "string", "x": "i64"}
ROWS = ordered(read("t", COLUMNS), (column(1), True))


def flow_of(root: Json, weight: WeightKind = "changelog", build: Builder | None = None) -> Flow:
    """The flow of a plan of two columns."""
    plan = (build or Builder()).plan(root, "a", "b")
    return lower(sa.load(plan.encode()).bind(), {("t",): weight})


def fetches(flow: Flow) -> list[tuple[int, int | None]]:
    """Offset and count of every fetch."""
    return [(n.offset, n.count) for n in flow.operators if isinstance(n, TopK)]


@pytest.mark.parametrize(
    ("inner", "outer", "merged"),
    [
        ((10, 0), (3, 0), (0, 3)),
        ((3, 0), (10, 0), (0, 3)),
        ((10, 5), (10, 4), (9, 6)),
        ((10, 0), (None, 4), (4, 6)),
        ((None, 2), (3, 1), (3, 3)),
        ((None, 2), (None, 1), (3, None)),
        ((3, 0), (5, 7), (7, 0)),
    ],
)
def test_fetches_in_one_order_are_one(
    inner: tuple[int | None, int], outer: tuple[int | None, int], merged: tuple[int, int | None]
) -> None:
    assert fetches(flow_of(fetched(fetched(ROWS, *inner), *outer))) == [merged]


def test_fetches_in_different_orders_stay() -> None:
    other = ordered(fetched(ROWS, 9), (column(0), False))
    assert fetches(flow_of(fetched(other, 3, 1))) == [(0, 9), (1, 3)]


def test_ties_are_ordered_by_the_other_columns() -> None:
    (node, view) = flow_of(fetched(ROWS, 3)).operators
    assert isinstance(node, TopK)
    assert isinstance(view, Distinct)
    assert node.directions == ((True, False), (False, False))
    assert node.row == (1, 0)
    assert node.types == view.types


def test_rows_that_never_come_back_are_not_kept() -> None:
    for weight, text in (("append_only", "only ranks up to 4 are stored"), ("changelog", "")):
        explained = explain_flow(flow_of(fetched(ROWS, 3, 1), weight))  # type: ignore[arg-type]
        use = explained.operators[0].state.trees[0].use
        assert (text in use) if text else use == "to find rows by rank"
    unbounded = explain_flow(flow_of(fetched(ROWS, None, 1), "append_only"))
    assert unbounded.operators[0].state.trees[0].use == "to find rows by rank"


def test_the_view_shows_the_groups_below_a_fetch() -> None:
    build = Builder()
    groups = aggregate(read("t", COLUMNS), [column(0)], [build.measure("count", output="i64!")])
    flow = flow_of(fetched(ordered(groups, (column(1), True)), 3), build=build)
    assert shown_operators(flow) == {0}
    assert shown_operators(flow_of(fetched(ROWS, 3))) == {1}


def test_as_many_rows_as_the_count_come_out() -> None:
    explained = explain_flow(flow_of(union_all(fetched(ROWS, 3), fetched(ROWS, 4, 1))))
    assert [o.groups.bound for o in explained.operators] == [1, 1, 7]
    assert explain_flow(flow_of(fetched(ROWS, None, 1))).operators[1].groups.bound is None


def test_rows_without_columns_are_counted() -> None:
    """`count(*)` over a limit reads no column."""
    build = Builder()
    none = {"project": {"common": {"emit": {"outputMapping": []}}, "input": read("t", COLUMNS)}}
    counted = aggregate(fetched(none, 3), [], [build.measure("count", output="i64!")])
    flow = lower(sa.load(build.plan(counted, "n").encode()).bind())
    (node, _) = flow.operators
    assert isinstance(node, TopK)
    assert (node.types, node.row, len(node.arguments)) == ((), (), 1)
    assert explain_flow(flow).operators[0].state.trees[0].what
