"""Mistakes in grouping expressions and grouping sets: one code each, at the innermost field that is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

import substrait_agg as sa
from tests.bind.message_plans import AGGREGATE, Json, at, col, found, lit, plan, problems, total

Refs = list[dict[str, list[int]]]


def sets(*refs: list[int]) -> Refs:
    return [{"expressionReferences": r} for r in refs]


def grouped(keys: list[Json], refs: Refs, **changes: Any) -> Json:
    return plan(total(), groupingExpressions=keys, groupings=refs, **changes)


CASES: list[tuple[str, Json, str, str]] = [
    ("reference", grouped([col("s"), col("i")], sets([0, 1], [0, 5])),
     "GROUPING_REFERENCE_OUT_OF_RANGE", f"{AGGREGATE}.groupings[1].expression_references[1]"),
    ("reference instead of the only one", grouped([col("s")], sets([3])),
     "GROUPING_REFERENCE_OUT_OF_RANGE", f"{AGGREGATE}.groupings[0].expression_references[0]"),
    ("unused", grouped([col("s"), col("i")], sets([0])),
     "GROUPING_EXPRESSION_UNUSED", f"{AGGREGATE}.grouping_expressions[1]"),
    ("unused literal", grouped([col("s"), lit("i32", 1)], sets([0])),
     "GROUPING_EXPRESSION_UNUSED", f"{AGGREGATE}.grouping_expressions[1]"),
    ("no column", grouped([at(40)], sets([0])), "FIELD_OUT_OF_RANGE", f"{AGGREGATE}.grouping_expressions[0]"),
    ("float", grouped([col("s"), col("x")], sets([0, 1])), "KEY_TYPE_FLOAT", f"{AGGREGATE}.grouping_expressions[1]"),
    ("list", grouped([col("v")], sets([0])), "KEY_TYPE_NESTED", f"{AGGREGATE}.grouping_expressions[0]"),
    ("set twice", grouped([col("s"), col("i")], sets([0, 1], [0], [1, 0])),
     "GROUPING_SET_DUPLICATE", f"{AGGREGATE}.groupings[2]"),
    ("expression twice", grouped([col("s"), col("i"), col("s")], sets([0, 1, 2])),
     "GROUPING_EXPRESSION_DUPLICATE", f"{AGGREGATE}.grouping_expressions[2]"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "code", "path"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_mistake_is_one_problem_at_its_place(given: Json, code: str, path: str) -> None:
    assert found(given) == [(code, path)]


@pytest.mark.parametrize("refs", [sets([0]), sets([0, 1]), sets([0, 1], [0], []), sets([0], [1])])
def test_sets_that_are_right_are_free_of_problems(refs: Refs) -> None:
    used = {ordinal for r in refs for ordinal in r["expressionReferences"]}
    keys = [col("s"), col("i")][: len(used)]
    assert found(grouped(keys, refs), "strict") == []


def test_neither_keys_nor_measures() -> None:
    given = plan()
    given["relations"][0]["root"]["names"] = []
    assert found(given) == [("AGGREGATE_EMPTY", AGGREGATE)]


def test_a_float_key_is_spoken_of_once_and_with_advice() -> None:
    """A float key that DataFusion repeats in several grouping sets is one column and is reported
    once, with advice.
    """
    given = grouped([col("x"), col("s"), col("x")], sets([0, 1], [2], []))
    given["version"]["producer"] = "datafusion"
    given["relations"][0]["root"]["names"] = ["x", "s", "id", "n"]
    codes = [p.code for p in problems(given)]
    assert codes.count("KEY_TYPE_FLOAT") == 1
    assert not {"GROUPING_SET_DUPLICATE", "GROUPING_EXPRESSION_DUPLICATE"} & set(codes)
    (problem,) = [p for p in problems(given) if p.code == "KEY_TYPE_FLOAT"]
    assert (problem.level, "decimal" in problem.help) == ("info", True)


def test_what_is_written_twice_is_not_merged() -> None:
    """Duplicate keys and sets are reported and, as the specification demands, stay separate columns
    and rows.
    """
    report = sa.validate(json.dumps(grouped([col("s"), col("s")], sets([0, 1], [1, 0]))))
    assert {p.code for p in report.problems if p.level != "info"} == set()
    assert {p.code for p in report.problems} == {
        "GROUPING_EXPRESSION_DUPLICATE",
        "GROUPING_SET_DUPLICATE",
    }
    assert report.ok
