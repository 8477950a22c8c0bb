"""The node of a join: the columns that it stores, its output, explanation and identity."""

from __future__ import annotations

import re

import pytest

from substrait_agg.bind.bound import BoundPlan, BoundRelation
from substrait_agg.explanation.build import build
from substrait_agg.explanation.mermaid import plan_mermaid
from substrait_agg.explanation.text import plan_text
from substrait_agg.flow.graph.aggregate import Aggregate, Distinct
from substrait_agg.flow.graph.graph import FilterStep
from substrait_agg.flow.graph.identity import identities
from substrait_agg.flow.graph.join import Join
from substrait_agg.flow.graph.nodes import Flow, shown_operators
from substrait_agg.flow.passes.lower import lower
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction
from substrait_agg.report.html.explain import plan_html
from tests.bind.bound_relations import call, col, count, eq, join, key, read, select


def flow_of(root: BoundRelation, early: EarlyRetraction = "carry") -> Flow:
    names = tuple(f"c{i}" for i in range(len(root.types)))
    weights = {("a",): "weighted", ("b",): "weighted"}
    return lower(BoundPlan(root, names, (), "", "plan"), weights, early)  # type: ignore[arg-type]


def joined(kind: str = "inner") -> BoundRelation:
    return join(kind, read("a", 3), read("b", 3), key(0, 0))  # type: ignore[arg-type]


def test_a_join_stores_the_columns_that_are_read_above_it() -> None:
    (node, top) = flow_of(count(select(joined(), col(1), col(3)), 0, 1)).operators
    assert isinstance(node, Join)
    assert isinstance(top, Aggregate)
    left, right = node.inputs
    assert (len(left.arguments), len(right.arguments)) == (1, 0), "a key is stored once"
    assert node.columns_of_sides == ((1,), (0,))
    assert [b.port for b in node.branches] == [0, 1]


def test_rows_that_can_never_match_are_not_exchanged() -> None:
    for kind, filtered in (
        ("inner", (True, True)),
        ("left", (False, True)),
        ("full", (False, False)),
    ):
        node = flow_of(joined(kind)).operators[0]
        found = tuple(
            any(isinstance(step, FilterStep) for step in branch.steps) for branch in node.branches
        )
        assert found == filtered, kind


def test_the_rows_of_a_view_over_a_join_wait_in_the_view() -> None:
    """A join emits at once, so an emission policy is for the rows above it."""
    flow = flow_of(joined())
    assert [type(n) for n in flow.operators] == [Join, Distinct]
    assert shown_operators(flow) == {1}


def test_early_retractions_are_found_below_a_join() -> None:
    operators = flow_of(joined(), early="refuse").operators
    assert [type(n) for n in operators] == [Distinct, Distinct, Join, Distinct]
    assert [n.early for n in operators] == ["refuse", "refuse", "carry", "carry"]


@pytest.mark.parametrize("kind", ["inner", "left", "full", "semi", "anti", "mark", "single"])
def test_every_explanation_shows_keys_and_stored_rows(kind: str) -> None:
    plan = build(flow_of(joined(kind)))
    text = plan_text(plan)
    assert "operator 0: join" in text
    assert "keys: a0 = b0" in text
    assert "rows of input 0 by a0" in text
    assert "rows of input 1 by b0" in text
    assert "state per group" not in text.partition("operator 0:")[2]
    for page in (plan_mermaid(plan), plan_html(plan)):
        assert "rows of input 1 by b0" in page


def test_joins_that_differ_have_different_identities() -> None:
    different = call("not_equal", col(1), col(4))
    roots = [
        joined(),
        joined("left"),
        join("inner", read("a", 3), read("b", 3), key(0, 0, null_safe=True)),
        join("inner", read("a", 3), read("b", 3), key(0, 1)),
        join("left", read("a", 3), read("b", 3), key(0, 0), residual=different),
        join("left", read("a", 3), read("b", 3), key(0, 0), residual=eq(1, 4)),
        join("inner", read("b", 3), read("a", 3), key(0, 0)),
    ]
    assert len({identities(flow_of(root))[0].rows for root in roots}) == len(roots)


@pytest.mark.parametrize(
    ("kind", "static", "probes"),
    [
        ("inner", (), [(0, 1), (1, 0)]),
        ("left", (), [(0, 1), (1, 0), (0, 1), (1, 0)]),
        ("full", (), [(0, 1), (1, 0), (0, 1), (1, 0), (1, 0), (0, 1)]),
        ("semi", (), [(0, 1), (1, 0)]),
        ("left", (("b",),), [(0, 1), (0, 1)]),
        ("inner", (("a",),), [(1, 0)]),
        ("inner", (("a",), ("b",)), []),
    ],
)
def test_an_explanation_has_the_order_of_the_lookups(
    kind: str, static: tuple[tuple[str, ...], ...], probes: list[tuple[int, int]]
) -> None:
    """As (changed input, input that is searched); a side that never changes asks for nothing."""
    root = count(select(joined(kind), col(1)))
    plan = BoundPlan(root, ("c",), (), "", "plan")
    flow = lower(plan, {("a",): "weighted", ("b",): "weighted"}, static=static)
    told = [s.what for s in build(flow).operators[0].steps if s.name == "probe"]
    found = [tuple(map(int, re.findall(r"input (\d)", text))) for text in told]
    assert [pair for pair in found if pair] == probes
    assert all(text.startswith(("look up a0 of", "look up b0 of", "a lookup is")) for text in told)


def test_an_explanation_has_the_condition_on_pairs() -> None:
    condition = call("lt", col(1), col(4))
    node = join("left", read("a", 3), read("b", 3), key(0, 0), residual=condition)
    steps = build(flow_of(node)).operators[0].steps
    (text,) = [step.what for step in steps if step.name == "check"]
    assert text == "a row matches only if (a1 of input 0) < (b1 of input 1)"


def test_columns_that_are_read_of_a_join_do_not_identify_its_rows() -> None:
    """Groups over a join keep their identity if a further measure reads other columns of the join."""
    few, more = (
        identities(flow_of(count(select(joined(), *map(col, columns)), 0)))
        for columns in ((1,), (1, 4, 5))
    )
    assert few[0].rows == more[0].rows
    assert few[0].columns[0] == more[0].columns[0]
    other = identities(flow_of(count(select(joined("left"), col(1)), 0)))
    assert other[0].rows != few[0].rows
