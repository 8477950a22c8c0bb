"""Joins on ``a = b OR (a = b) IS NULL``, as plans write NOT IN: equal to DuckDB at every version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import substrait_agg as sa
from tests.e2e.plans import COMPARISON, Builder, Json, column, joined, literal, read
from tests.joins.test_marks import LEFT, RIGHT, sides
from tests.joins.test_special_cases import BOOLEAN, EQUAL, all_of, compare, run


def is_null(b: Builder, value: Json) -> Json:
    return b.call("is_null:any", COMPARISON, value, output="bool!")


def either(b: Builder, *conditions: Json) -> Json:
    return b.call("or:bool", BOOLEAN, *conditions, output="bool")


def of_comparison(b: Builder) -> Json:
    equal = compare(b, EQUAL, 1, 4)
    return either(b, equal, is_null(b, equal))


def of_values(b: Builder) -> Json:
    return either(b, is_null(b, column(1)), compare(b, EQUAL, 1, 4), is_null(b, column(4)))


def of_test(b: Builder) -> Json:
    return b.call("is_not_false:bool", COMPARISON, compare(b, EQUAL, 1, 4), output="bool!")


def of_default(b: Builder) -> Json:
    true = literal("boolean", True)
    return b.call("coalesce:any", COMPARISON, compare(b, EQUAL, 1, 4), true, output="bool")


def with_comparison(b: Builder) -> Json:
    return all_of(b, of_comparison(b), compare(b, "gt", 2, 5))


def of_two(b: Builder) -> Json:
    equal = compare(b, EQUAL, 0, 3)
    return all_of(b, of_comparison(b), either(b, is_null(b, equal), equal))


AWARE = "(x = y OR (x = y) IS NULL)"
WRITTEN: dict[str, tuple[Callable[[Builder], Json], str]] = {
    "the comparison is null": (of_comparison, AWARE),
    "either value is null": (of_values, AWARE),
    "it is not false": (of_test, AWARE),
    "true by default": (of_default, AWARE),
    "and a comparison": (with_comparison, f"{AWARE} AND v > w"),
    "two values": (of_two, f"{AWARE} AND (k = m OR (k = m) IS NULL)"),
}
"""How a plan writes it: the condition, and the same in SQL."""


def exists(on: str) -> str:
    return f"EXISTS (SELECT 1 FROM r WHERE {on})"


@pytest.mark.parametrize("name", WRITTEN)
def test_an_anti_join_that_counts_nulls_as_matches(tmp_path: Path, name: str) -> None:
    made, on = WRITTEN[name]
    b = Builder()
    relation = joined("left_anti", read("l", LEFT), read("r", RIGHT), made(b))
    run(tmp_path, b.plan(relation, *LEFT), sides(60), f"SELECT * FROM l WHERE NOT {exists(on)}")


def test_it_is_not_in(tmp_path: Path) -> None:
    b = Builder()
    relation = joined("left_anti", read("l", LEFT), read("r", RIGHT), of_comparison(b))
    query = "SELECT * FROM l WHERE x NOT IN (SELECT y FROM r)"
    run(tmp_path, b.plan(relation, *LEFT), sides(61), query)


def test_the_rows_of_the_right_table(tmp_path: Path) -> None:
    b = Builder()
    relation = joined("right_anti", read("r", RIGHT), read("l", LEFT), of_comparison(b))
    query = "SELECT * FROM l WHERE x NOT IN (SELECT y FROM r)"
    run(tmp_path, b.plan(relation, *LEFT), sides(62), query)


def test_a_semi_join_that_counts_nulls_as_matches(tmp_path: Path) -> None:
    b = Builder()
    relation = joined("left_semi", read("l", LEFT), read("r", RIGHT), of_comparison(b))
    run(tmp_path, b.plan(relation, *LEFT), sides(63), f"SELECT * FROM l WHERE {exists(AWARE)}")


def test_a_mark_join_that_counts_nulls_as_matches(tmp_path: Path) -> None:
    b = Builder()
    relation = joined("left_mark", read("l", LEFT), read("r", RIGHT), of_comparison(b))
    query = f"SELECT l.*, {exists(AWARE)} FROM l"
    run(tmp_path, b.plan(relation, *LEFT, "mark"), sides(64), query)


def one_value_alone(b: Builder) -> Json:
    return either(b, compare(b, EQUAL, 1, 4), is_null(b, column(1)))


def another_value(b: Builder) -> Json:
    return either(b, compare(b, EQUAL, 1, 4), is_null(b, column(0)))


@pytest.mark.parametrize("made", [one_value_alone, another_value])
def test_another_test_for_null_is_no_key(made: Callable[[Builder], Json]) -> None:
    b = Builder()
    relation = joined("left_anti", read("l", LEFT), read("r", RIGHT), made(b))
    checked = sa.validate(b.plan(relation, *LEFT).encode())
    assert checked.ok
    assert "JOIN_WITHOUT_KEY" in {p.code for p in checked.problems}


def with_key(b: Builder) -> Json:
    return all_of(b, of_comparison(b), compare(b, EQUAL, 0, 3))


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("left_anti", of_comparison),
        ("left_anti", with_comparison),
        ("left_anti", with_key),
        ("left_mark", of_comparison),
    ],
)
def test_datafusion_may_say_what_a_null_means(kind: str, made: Callable[[Builder], Json]) -> None:
    """Its NOT IN and NOT EXISTS look the same, but not with this condition."""
    b = Builder()
    relation = joined(kind, read("l", LEFT), read("r", RIGHT), made(b))
    names = [*LEFT, "mark"] if kind == "left_mark" else [*LEFT]
    plan = b.plan(relation, *names).replace('"producer": "tests"', '"producer": "datafusion"')
    problems = sa.validate(plan.encode()).problems
    assert [p.code for p in problems if p.code.startswith("JOIN_")] == []


def test_a_key_beside_a_null_aware_equality(tmp_path: Path) -> None:
    b = Builder()
    relation = joined("left_anti", read("l", LEFT), read("r", RIGHT), with_key(b))
    query = "SELECT * FROM l WHERE x NOT IN (SELECT y FROM r WHERE m = k)"
    run(tmp_path, b.plan(relation, *LEFT), sides(65), query)


def test_a_mark_that_another_part_makes_null_is_refused() -> None:
    b = Builder()
    relation = joined("left_mark", read("l", LEFT), read("r", RIGHT), with_comparison(b))
    problems = sa.validate(b.plan(relation, *LEFT, "mark").encode()).problems
    assert "JOIN_WITHOUT_KEY" in {p.code for p in problems}
