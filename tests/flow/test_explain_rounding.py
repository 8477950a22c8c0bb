"""The explanation says which decimals a plan rounds, and to how many digits after the point."""

from __future__ import annotations

import json

import pytest

from substrait_agg.explanation.mermaid import plan_mermaid
from substrait_agg.explanation.text import plan_json, plan_text
from substrait_agg.plan.model import Expression, FilterRel, MeasureCall, ProjectRel
from substrait_agg.plan.types import BOOL, FP64, I64, Type, decimal
from substrait_agg.report.html.explain import plan_html
from tests.bind.build import ROOT, aggregate, at, call, lit, measure, read
from tests.flow.explained import of

MONEY = decimal(10, 2, False)
TABLE = read({"k": I64, "a": MONEY, "b": MONEY, "x": FP64, "n": I64})
QUOTIENT = call("divide", at(1), at(2), output=decimal(16, 6, True))


def rounded(root: object, *names: str) -> list[tuple[str, int]]:
    explanation = of(root, *names)  # type: ignore[arg-type]
    return [(r.expression, r.digits) for o in explanation.operators for r in o.rounded]


def grouped(one: MeasureCall) -> list[tuple[str, int]]:
    return rounded(aggregate(TABLE, (at(0),), (one,)), "k", "v")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (QUOTIENT, [("a / b", 6)]),
        (call("multiply", at(1), at(2), output=decimal(21, 4, False)), []),
        (call("multiply", at(1), at(2), output=decimal(21, 3, False)), [("a * b", 3)]),
        (call("add", at(1), at(2), output=decimal(11, 2, False)), []),
        (call("add", at(1), at(2), output=decimal(11, 1, False)), [("a + b", 1)]),
        (call("multiply", QUOTIENT, at(1), output=decimal(27, 8, True)), [("a / b", 6)]),
        (call("divide", at(3), at(3), output=FP64), []),
        (at(1), []),
    ],
)
def test_an_expression_is_rounded_where_its_type_has_fewer_digits_than_its_value(
    expression: Expression, expected: list[tuple[str, int]]
) -> None:
    grouped_by = aggregate(TABLE, (expression,), (measure("count"),))
    assert rounded(grouped_by, "v", "c") == expected


def average(type_: Type) -> MeasureCall:
    return measure("avg", at(1), output=type_)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (average(decimal(38, 4)), [("avg(a)", 4)]),
        (average(FP64), []),
        (measure("median", at(1), output=decimal(12, 2)), [("median(a)", 2)]),
        (measure("median", at(1), output=decimal(12, 3)), []),
        (measure("sum", at(1), output=decimal(38, 2)), []),
        (measure("sum", at(1), output=decimal(38, 1)), [("sum(a)", 1)]),
        (measure("sum", QUOTIENT, output=decimal(38, 6)), [("a / b", 6)]),
        (measure("max", at(1)), []),
        (
            measure("avg", at(4), output=I64, filter=call("gt", QUOTIENT, at(1), output=BOOL)),
            [("a / b", 6)],
        ),
    ],
)
def test_a_measure_is_rounded_where_its_type_has_fewer_digits_than_its_value(
    one: MeasureCall, expected: list[tuple[str, int]]
) -> None:
    assert grouped(one) == expected


def test_steps_before_an_operator_are_looked_at_and_an_expression_is_listed_once() -> None:
    held = FilterRel(TABLE, call("gt", QUOTIENT, lit(1, I64), output=BOOL), None, f"{ROOT}.filter")
    made = ProjectRel(held, (QUOTIENT,), (0, 5), f"{ROOT}.project")
    assert rounded(aggregate(made, (at(0),), (measure("max", at(1)),)), "k", "v") == [("a / b", 6)]


def test_every_format_says_it() -> None:
    explanation = of(aggregate(TABLE, (at(0),), (average(decimal(38, 1)),)), "k", "v")
    text = "rounded to 1 digit: avg(a)"
    assert f"  {text}\n" in plan_text(explanation)
    (operator,) = json.loads(plan_json(explanation))["operators"]
    assert operator["rounded"] == [{"expression": "avg(a)", "digits": 1}]
    assert text in plan_html(explanation)
    assert "rounded to 1 digit" in plan_mermaid(explanation)


def test_a_long_expression_is_cut() -> None:
    long: Expression = at(1)
    for _ in range(40):
        long = call("divide", long, at(2), output=decimal(16, 6, True))
    found = rounded(aggregate(TABLE, (long,), (measure("count"),)), "v", "c")
    assert max(len(text) for text, _ in found) <= 100
    assert ("a / b", 6) in found
