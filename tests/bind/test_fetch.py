"""Fetches: the rows that they return, their order, and refused plans."""

from __future__ import annotations

from typing import Any

import pytest

from substrait_agg.bind.bound import BoundFetch, BoundProject, Call, Column, MeasureSort, SortKey
from substrait_agg.problem_kinds import MODES, Mode
from tests.bind.joined import (
    I64,
    ROOT,
    TEXT,
    Json,
    at,
    bound,
    by,
    call,
    emit,
    equal,
    fetch,
    filtered,
    found,
    lit,
    of,
    plan,
    project,
    read,
    sort,
)

TABLE = read("a", I64, TEXT, I64)
SORTED = sort(TABLE, by(at(2), "DESC_NULLS_LAST"), by(at(1)))
TEN = {"countExpr": lit("10")}


def the_fetch(root: Any) -> BoundFetch:
    while not isinstance(root, BoundFetch):
        root = root.input
    return root


def keys(made: BoundFetch) -> list[tuple[int, bool, bool]]:
    assert all(isinstance(s.expression, Column) for s in made.sorts)
    return [(s.expression.ordinal, s.descending, s.nulls_first) for s in made.sorts]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fields", "window"),
    [
        ({"count": "10"}, (0, 10)),
        ({"offset": "3", "count": "10"}, (3, 10)),
        ({"offset": "3", "count": "-1"}, (3, None)),
        ({"offset": "3"}, (3, None)),
        (TEN, (0, 10)),
        ({"offsetExpr": lit("3", "i32"), **TEN}, (3, 10)),
        ({"countExpr": lit("0")}, (0, 0)),
        ({"countExpr": lit(7, "i8")}, (0, 7)),
        ({"countExpr": call("add", lit("3"), call("multiply", lit("2"), lit("4"), output=I64), output=I64)}, (0, 11)),
        ({"countExpr": {"cast": {"type": I64, "input": lit("5", "i32"), "failureBehavior": 2}}}, (0, 5)),
        ({"offsetExpr": lit("3"), "countExpr": {"literal": {"null": I64}}}, (3, None)),
        ({"offsetExpr": {"literal": {"null": I64}}, **TEN}, (0, 10)),
    ],
)  # fmt: skip
def test_offset_and_count(fields: Json, window: tuple[int, int | None]) -> None:
    made = the_fetch(bound(plan(fetch(SORTED, **fields), 3)).root)
    assert (made.offset, made.count) == window
    assert keys(made) == [(2, True, False), (1, False, True)]


@pytest.mark.parametrize(
    "fields", [{}, {"count": "-1"}, {"offset": "0", "count": "-1"}, {"offsetExpr": lit("0")}]
)
def test_a_fetch_of_all_rows_is_left_out(fields: Json) -> None:
    kept, plain = bound(plan(fetch(SORTED, **fields), 3)), bound(plan(SORTED, 3))
    assert kept.fingerprint == plain.fingerprint


@pytest.mark.parametrize(
    ("fields", "code", "place"),
    [
        ({"count": "-2"}, "FETCH_OUT_OF_RANGE", "count"),
        ({"offset": "-1", "count": "5"}, "FETCH_OUT_OF_RANGE", "offset"),
        ({"countExpr": lit("-1")}, "FETCH_OUT_OF_RANGE", "count_expr"),
        ({"offsetExpr": lit("-1")}, "FETCH_OUT_OF_RANGE", "offset_expr"),
        ({"countExpr": at(0)}, "FETCH_NOT_CONSTANT", "count_expr"),
        ({"countExpr": call("add", at(0), lit("1"), output=I64)}, "FETCH_NOT_CONSTANT", "count_expr"),
        ({"countExpr": call("add", lit(str(2**63 - 1)), lit("1"), output=of("i64", nullable=False))}, "FETCH_NOT_CONSTANT", "count_expr"),
        ({"countExpr": lit("10", "string")}, "FETCH_NOT_INTEGER", "count_expr"),
        ({"countExpr": lit(2.5, "fp64")}, "FETCH_NOT_INTEGER", "count_expr"),
        ({"countExpr": at(9)}, "FIELD_OUT_OF_RANGE", "count_expr"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", MODES)
def test_other_values_are_refused(fields: Json, code: str, place: str, mode: Mode) -> None:
    given = plan(fetch(SORTED, **fields), 3, minor=90)
    errors = [item for item in found(given, mode) if item[0] == "error"]
    assert errors == [("error", code, f"{ROOT}.fetch.{place}")]


def test_a_missing_count_of_an_old_plan_is_unclear() -> None:
    made = fetch(SORTED, offset="3")
    assert ("error", "FETCH_COUNT_UNCLEAR", f"{ROOT}.fetch") in found(plan(made, 3, minor=61))
    assert found(plan(made, 3, minor=62)) == []


def test_a_count_in_the_newer_form_is_the_count_of_an_old_plan_too() -> None:
    """Its field is not a member of the choice that the older form has."""
    given = plan(fetch(SORTED, countExpr=lit("3")), 3, minor=52)
    assert found(given) == []
    assert the_fetch(bound(given).root).count == 3


def test_removed_fields_are_reported_in_new_plans() -> None:
    codes = [(code, path) for _, code, path in found(plan(fetch(SORTED, count="3"), 3, minor=98))]
    assert codes == [("FIELD_REMOVED", f"{ROOT}.fetch.count")]


@pytest.mark.parametrize("mode", MODES)
def test_a_fetch_without_sort_takes_rows_in_the_order_of_their_columns(mode: Mode) -> None:
    given = plan(fetch(TABLE, **TEN), 3)
    assert found(given, mode) == [("warning", "FETCH_WITHOUT_SORT", f"{ROOT}.fetch")]
    assert the_fetch(bound(given).root).sorts == ()


def test_the_sort_below_a_fetch_stays_the_order_of_the_view() -> None:
    made = bound(plan(fetch(SORTED, **TEN), 3))
    assert made.sorts == (SortKey(2, True, False), SortKey(1, False, True))
    mapped = bound(plan(fetch(SORTED, **TEN, **emit(1, 2)), 2))
    assert mapped.sorts == (SortKey(1, True, False), SortKey(0, False, True))
    again = bound(plan(sort(fetch(SORTED, **TEN), by(at(0))), 3))
    assert again.sorts == (SortKey(0, False, True),)
    assert keys(the_fetch(again.root)) == [(2, True, False), (1, False, True)]


def test_a_sort_that_a_fetch_uses_has_an_effect() -> None:
    """A sort that a fetch reads has an effect, also below an aggregate; without the fetch it has
    none.
    """
    total = {"aggregate": {"input": fetch(SORTED, **TEN), "groupingExpressions": [at(1)],
                           "groupings": [{"expressionReferences": [0]}]}}  # fmt: skip
    assert found(plan(total, 1)) == []
    unused = {"aggregate": {**total["aggregate"], "input": SORTED}}
    assert [code for _, code, _ in found(plan(unused, 1))] == ["SORT_NO_EFFECT"]


def test_nested_fetches_have_one_order() -> None:
    made = the_fetch(
        bound(plan(fetch(fetch(SORTED, count="20"), offset="5", count="10"), 3, minor=90)).root
    )
    inner = made.input
    assert isinstance(inner, BoundFetch)
    assert (made.offset, made.count, inner.offset, inner.count) == (5, 10, 0, 20)
    assert made.sorts == inner.sorts


def test_a_fetch_goes_by_keys_that_a_projection_leaves_out() -> None:
    """The projection preserves rows and their order, so it is applied to the rows of the fetch."""
    made = bound(plan(fetch(project(SORTED, lit("1"), **emit(0, 3)), **TEN), 2))
    assert isinstance(made.root, BoundProject)
    assert isinstance(made.root.input, BoundFetch)
    assert keys(made.root.input) == [(2, True, False), (1, False, True)]
    assert made.sorts == ()


def test_an_order_that_cannot_be_shown_is_reported() -> None:
    given = plan(project(fetch(SORTED, **TEN), lit("1"), **emit(2, 3)), 2)
    assert found(given) == [
        ("warning", "FETCH_ORDER_NOT_SHOWN", f"{ROOT}.project.input.fetch.input.sort.sorts[1]")
    ]
    assert bound(given).sorts == (SortKey(0, True, False),)


def test_a_key_that_is_lost_below_a_filter_is_refused() -> None:
    left_out = project(SORTED, lit("1"), **emit(0, 3))
    given = plan(fetch(filtered(left_out, equal(0, 1)), **TEN), 2)
    errors = [item for item in found(given) if item[0] == "error"]
    assert [code for _, code, _ in errors] == ["SORT_KEY_NOT_IN_OUTPUT"] * 2


def test_rows_can_be_taken_by_an_expression() -> None:
    """The view cannot be sorted by it, but a fetch can."""
    double = call("add", at(0), at(0), output=I64)
    given = plan(fetch(sort(TABLE, by(double), by(at(0))), **TEN), 3)
    assert [code for _, code, _ in found(given)] == ["FETCH_ORDER_NOT_SHOWN"]
    first = the_fetch(bound(given).root).sorts[0]
    assert isinstance(first.expression, Call)
    kept = plan(fetch(project(sort(TABLE, by(double)), lit("1"), **emit(2, 0)), **TEN), 2)
    (moved,) = the_fetch(bound(kept).root).sorts
    assert isinstance(moved.expression, Call)
    assert moved.expression.arguments == (Column(made_type(bound(kept)), 1),) * 2


def made_type(made: Any) -> Any:
    return made.root.types[1]


def test_constant_and_repeated_keys_do_not_count() -> None:
    given = plan(
        fetch(sort(TABLE, by(lit("1")), by(at(0)), by(at(0), "DESC_NULLS_FIRST")), **TEN), 3
    )
    assert keys(the_fetch(bound(given).root)) == [(0, False, True)]
    only = found(plan(fetch(sort(TABLE, by(lit("1"))), **TEN), 3))
    assert ("warning", "FETCH_WITHOUT_SORT", f"{ROOT}.fetch") in only


def test_a_clustered_key_orders_a_fetch_ascending() -> None:
    clustered = fetch(sort(TABLE, by(at(0), "CLUSTERED")), **TEN)
    inside = project(clustered, lit("1"), **emit(3))
    assert keys(the_fetch(bound(plan(inside, 1)).root)) == [(0, False, True)]


# --- top-n -------------------------------------------------------------------------------------


def top_n(source: Json = TABLE, mode: str = "ROWS_ONLY", **more: Any) -> Json:
    keys_ = [by(at(2), "DESC_NULLS_LAST"), by(at(1))]
    return {"topN": {"input": source, "sorts": keys_, "mode": f"FETCH_MODE_{mode}", **more}}


def test_a_top_n_is_a_fetch_over_a_sort() -> None:
    made = bound(plan(top_n(offset=lit("2"), count=lit("10")), 3))
    other = bound(plan(fetch(SORTED, offsetExpr=lit("2"), **TEN), 3))
    assert made.fingerprint == other.fingerprint
    assert made.sorts == other.sorts


def test_a_top_n_sorts_its_input_again() -> None:
    assert [code for _, code, _ in found(plan(top_n(SORTED, count=lit("10")), 3))] == [
        "SORT_NO_EFFECT"
    ]


def test_ties_are_kept_and_a_missing_mode_means_rows() -> None:
    place = f"{ROOT}.top_n.mode"
    count = {"count": lit("10")}
    for mode in MODES:
        assert found(plan(top_n(mode="WITH_TIES", **count), 3), mode) == []
    for amounts in ({}, {"count": lit("0")}, {"offset": lit("3")}):
        ties, rows = (plan(top_n(mode=m, **amounts), 3) for m in ("WITH_TIES", "ROWS_ONLY"))
        assert bound(ties).fingerprint == bound(rows).fingerprint
    assert found(plan(top_n(mode="UNSPECIFIED", **count), 3)) == [
        ("info", "FETCH_MODE_MISSING", place)
    ]
    assert found(plan(top_n(mode="UNSPECIFIED", **count), 3), "strict") == [
        ("error", "FETCH_MODE_MISSING", place)
    ]


def test_fetches_are_told_apart_by_their_fingerprints() -> None:
    plans = [
        fetch(SORTED, **TEN), fetch(SORTED, countExpr=lit("11")), fetch(SORTED, offsetExpr=lit("10")),
        fetch(SORTED, offsetExpr=lit("1"), **TEN), fetch(TABLE, **TEN), fetch(sort(TABLE, by(at(2))), **TEN), SORTED,
    ]  # fmt: skip
    assert len({bound(plan(p, 3)).fingerprint for p in plans}) == len(plans)


def test_sort_keys_of_measures_and_fetches_are_one_kind() -> None:
    assert isinstance(the_fetch(bound(plan(fetch(SORTED, **TEN), 3)).root).sorts[0], MeasureSort)
