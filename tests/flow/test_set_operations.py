"""The node of a set operation: its ports, output, explanation and identity."""

from __future__ import annotations

import json

import pytest

from substrait_agg.explanation.mermaid import plan_mermaid
from substrait_agg.explanation.text import plan_json, plan_text
from substrait_agg.flow.graph.aggregate import Aggregate, Distinct
from substrait_agg.flow.graph.set_operation import SET_OUTPUTS, SetOperation
from substrait_agg.flow.passes.lower import lower
from substrait_agg.plan.model import FilterRel, ProjectRel, SetOperationKind, SetRel
from substrait_agg.plan.types import BOOL, I64
from substrait_agg.report.html.explain import plan_html
from substrait_agg.required import require
from tests.bind.build import ROOT, aggregate, at, bound, call, lit, measure, read
from tests.flow.explained import of

T, U = read({"a": I64, "b": I64}, table=("t",)), read({"a": I64, "b": I64}, table=("u",))
UNITED = SetRel((T, U), None, ROOT)


def minus(kind: SetOperationKind = "minus_primary") -> SetRel:
    """The rows of two tables but those of one of them."""
    return SetRel((UNITED, U), None, f"{ROOT}.set", kind)


def test_every_input_is_a_port() -> None:
    (node,) = lower(bound(minus(), "a", "b")).operators
    assert isinstance(node, SetOperation)
    assert [[b.port for b in port.branches] for port in node.inputs] == [[0, 0], [1]]
    assert node.row_wise
    assert [a.port for a in require(node.groups).accumulators] == [0, 1]


@pytest.mark.parametrize("kind", SET_OUTPUTS)
def test_weights_of_the_output(kind: SetOperationKind) -> None:
    (node,) = lower(bound(minus(kind), "a", "b")).operators
    many = kind in ("minus_primary_all", "minus_multiset", "intersection_multiset_all")
    assert node.output_weight == ("weighted" if many else "changelog")


def test_only_rows_that_are_computed_above_need_an_operator_of_their_own() -> None:
    chosen = ProjectRel(minus(), (at(1), at(0)), (2, 3), ROOT)
    flow = lower(bound(chosen, "b", "a"))
    assert ([type(n) for n in flow.operators], flow.views[0].output) == ([SetOperation], (1, 0))
    some = FilterRel(minus(), call("gt", at(0), lit(1, I64), output=BOOL), None, ROOT)
    above = lower(bound(some, "a", "b")).operators
    assert [type(n) for n in above] == [SetOperation, Distinct]
    counted = aggregate(minus(), (at(0),), (measure("count"),))
    both = SetRel((counted, counted), None, ROOT, "intersection_multiset_all")
    kinds = [type(n) for n in lower(bound(both, "a", "n")).operators]
    assert kinds == [SetOperation, Aggregate, SetOperation], "a shared relation is one operator"


def test_inputs_are_told_apart_in_every_explanation() -> None:
    plan = of(minus("minus_primary_all"), "a", "b")
    text = plan_text(plan)
    assert "operator 0: set operation  at" in text
    for told in (
        "input 0: changes of table t (a i64?, b i64?)",
        "input 0: changes of table u (a i64?, b i64?)",
        "input 1: changes of table u (a i64?, b i64?)",
        "a1 copies of the row in input 1, 8 bytes\n",
        "the rows of 3 inputs, each with the number of its port",
        "minus_primary_all: a row as often as in input 0, less its number in all other inputs",
    ):
        assert told in text
    (operator,) = json.loads(plan_json(plan))["operators"]
    assert operator["kind"] == "set operation"
    assert [i["port"] for i in operator["inputs"]] == [0, 0, 1]
    assert plan_mermaid(plan).count('"input 0"') == 2
    html = plan_html(plan)
    assert "input 1: table u" in html
    assert "input 0" not in plan_text(of(UNITED, "a", "b")), "a union has one port"
