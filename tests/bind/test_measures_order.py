"""DISTINCT and ORDER BY of measures: obeyed, reported as changing nothing, or refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from substrait_agg.bind.bound import BoundAggregate, BoundMeasure
from substrait_agg.functions.aggregates.catalogue import AGGREGATES
from substrait_agg.plan.model import Cast, MeasureCall, SortField
from substrait_agg.plan.types import FP64, I64, STRING, Type
from tests.bind.build import (
    MEASURE,
    ORDINALS,
    aggregate,
    at,
    bound,
    col,
    errors_of,
    lit,
    measure,
    option,
    problems_of,
    read,
)

HALF = lit(0.5, FP64)


def by(*keys: Any, direction: str = "asc_nulls_last") -> tuple[SortField, ...]:
    return tuple(SortField(k, direction, None, f"{MEASURE}.sorts[{i}]") for i, k in enumerate(keys))


def bind_one(given: MeasureCall) -> BoundMeasure:
    root = bound(aggregate(read(), (), (given,)), "m").root
    assert isinstance(root, BoundAggregate)
    return root.measures[0]


def errors(given: MeasureCall) -> list[tuple[str, str]]:
    return errors_of(aggregate(read(), (), (given,)), "m")


def found(given: MeasureCall, code: str) -> str:
    """The message of the one problem with this code."""
    problems = problems_of(aggregate(read(), (), (given,)), "m")
    (message,) = [p.message for p in problems if p.code == code]
    return message


def ordered(made: BoundMeasure) -> list[tuple[Any, bool, bool]]:
    return [
        (getattr(s.expression, "ordinal", s.expression), s.descending, s.nulls_first)
        for s in made.order
    ]


X, BIG, NAME = (ORDINALS[c] for c in ("x", "big", "name"))


@pytest.mark.parametrize(
    ("direction", "descending", "nulls_first"),
    [("asc_nulls_first", False, True), ("asc_nulls_last", False, False),
     ("desc_nulls_first", True, True), ("desc_nulls_last", True, False), ("clustered", False, True)],
)  # fmt: skip
def test_all_five_directions_are_obeyed(
    direction: str, descending: bool, nulls_first: bool
) -> None:
    made = bind_one(measure("array_agg", col("x"), sorts=by(col("big"), direction=direction)))
    assert ordered(made) == [(BIG, descending, nulls_first)]


@pytest.mark.parametrize("direction", ["unspecified", "comparison"])
def test_directions_that_say_no_order_are_refused(direction: str) -> None:
    """Also where the order would change nothing: the plan is not valid."""
    for name in ("array_agg", "sum"):
        given = measure(name, col("x"), sorts=by(col("big"), direction=direction))
        assert errors(given) == [("ORDER_DIRECTION_NOT_SUPPORTED", f"{MEASURE}.sorts[0].direction")]


def test_several_keys_that_are_no_arguments_with_a_filter() -> None:
    given = measure(
        "string_agg", col("name"), lit("-", STRING), sorts=by(col("big"), col("x")),
        filter=col("flag"),
    )  # fmt: skip
    made = bind_one(given)
    assert ordered(made) == [(BIG, False, False), (X, False, False)]
    assert made.filter is not None


@pytest.mark.parametrize(
    ("name", "kind"),
    [("first_value", "first_value"), ("first", "first_value"), ("last", "last_value"),
     ("last_value", "last_value")],
)  # fmt: skip
def test_an_order_decides_what_first_means(name: str, kind: str) -> None:
    """With an order the first in it, without one the first to arrive."""
    assert bind_one(measure(name, col("x"), sorts=by(col("big")))).kind == kind
    assert bind_one(measure(name, col("x"))).kind == kind.removesuffix("_value")
    # A constant orders nothing.
    constant = measure(name, col("x"), sorts=by(lit(1, I64)))
    assert bind_one(constant).kind == kind.removesuffix("_value")


@pytest.mark.parametrize(
    "name",
    ["sum", "sum0", "avg", "min", "max", "median", "mode", "any_value", "bit_xor", "variance",
     "product", "count", "count_distinct", "min_by", "corr"],
)  # fmt: skip
def test_an_order_that_changes_nothing_is_reported_with_the_reason(name: str) -> None:
    arguments = [col("big"), *([col("x")] if name in ("min_by", "corr") else [])]
    given = measure(name, *arguments, sorts=by(col("name")))
    assert bind_one(given).order == ()
    assert AGGREGATES[name].order_by.reason in found(given, "ORDER_BY_NO_EFFECT")


@pytest.mark.parametrize("name", ["surrogate_key_int64", "list_union_distinct_agg"])
def test_an_order_without_a_meaning_is_refused_with_the_reason(name: str) -> None:
    source = read({"v": Type("list", children=(I64,)), "k": I64})
    arguments = () if name.startswith("surrogate") else (at(0),)
    given = measure(name, *arguments, sorts=by(at(1)))
    problems = problems_of(aggregate(source, (), (given,)), "m")
    (refusal,) = [p for p in problems if p.level == "error"]
    assert (refusal.code, refusal.path) == ("ORDER_BY_NOT_SUPPORTED", f"{MEASURE}.sorts[0]")
    assert AGGREGATES[name].order_by.reason in refusal.message


def test_keys_need_an_order() -> None:
    source = read({"v": I64, "m": Type("map", children=(STRING, I64))})
    given = measure("array_agg", at(0), sorts=by(at(1)))
    assert errors_of(aggregate(source, (), (given,)), "m") == [
        ("ORDER_KEY_NOT_SUPPORTED", f"{MEASURE}.sorts[0].expr")
    ]


# --- WITHIN GROUP ------------------------------------------------------------------------------


def test_percentiles_of_an_order_on_their_argument() -> None:
    """Descending, a continuous percentile is the one of the complementary fraction, as a decimal number."""
    up = measure("percentile_cont", col("x"), lit(0.9, FP64), sorts=by(col("x")))
    assert (bind_one(up).constants, bind_one(up).order) == ((0.9,), ())
    down = measure(
        "percentile_cont",
        col("x"),
        lit(0.9, FP64),
        sorts=by(col("x"), direction="desc_nulls_first"),
    )
    assert (bind_one(down).constants, bind_one(down).order) == ((0.1,), ())


def test_a_discrete_percentile_in_descending_order_keeps_it() -> None:
    """It is not that of the complementary fraction: the lower of two middle values becomes the upper one."""
    given = measure(
        "percentile_disc", col("big"), HALF, sorts=by(col("big"), direction="desc_nulls_last")
    )
    made = bind_one(given)
    assert (made.constants, ordered(made)) == ((0.5,), [(BIG, True, False)])


def test_the_sort_key_may_be_the_argument_before_a_conversion() -> None:
    """DataFusion sorts by the column and aggregates its conversion to a float."""
    cast = Cast(col("big"), FP64, "throw", "cast")
    given = measure("approx_percentile_cont", cast, HALF, sorts=by(col("big")))
    assert bind_one(given).order == ()


def test_the_sort_key_may_be_all_that_says_what_is_aggregated() -> None:
    """The SQL form: percentile_cont(0.5) WITHIN GROUP (ORDER BY x)."""
    made = bind_one(measure("percentile_cont", HALF, sorts=by(col("x"))))
    assert made.argument == bind_one(measure("min", col("x"))).argument


@pytest.mark.parametrize("keys", [("big",), ("x", "big")])
def test_percentiles_of_another_order_are_refused(keys: tuple[str, ...]) -> None:
    given = measure("percentile_cont", col("x"), HALF, sorts=by(*map(col, keys)))
    place = f"{MEASURE}.sorts[{keys.index('big')}].expr"
    assert errors(given) == [("ORDER_NOT_BY_ARGUMENT", place)]


def test_positions_from_the_end_are_positions_in_the_opposite_order() -> None:
    last = measure("nth_value", col("x"), lit(-1, I64), sorts=by(col("big"), col("name")))
    made = bind_one(last)
    assert made.constants == (1,)
    # Rows with equal keys stand in the order of the value, so that -1 is what last_value gives.
    assert ordered(made) == [(BIG, True, True), (NAME, True, True), (X, True, False)]
    among = measure("nth_value", col("x"), lit(-1, I64), sorts=by(col("x"), col("big")))
    assert ordered(bind_one(among)) == [(X, True, True), (BIG, True, True)]
    unsorted = bind_one(measure("nth_value", col("x"), lit(-2, I64)))
    assert (unsorted.constants, ordered(unsorted)) == ((2,), [(X, True, False)])


# --- DISTINCT ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        measure("count", col("x"), col("name"), invocation="distinct"),
        measure("sum", col("x"), invocation="distinct"),
        measure("sum0", col("x"), invocation="distinct"),
        measure("avg", col("x"), invocation="distinct"),
        measure("std_dev", col("x"), invocation="distinct"),
        measure("product", col("x"), invocation="distinct"),
        measure("bit_xor", col("big"), invocation="distinct"),
        measure("array_agg", col("x"), invocation="distinct"),
        measure("string_agg", col("name"), invocation="distinct"),
        measure("median", col("x"), invocation="distinct"),
        measure("corr", col("x"), col("big"), invocation="distinct"),
        measure("percentile_cont", col("x"), HALF, invocation="distinct"),
        measure("nth_value", col("x"), lit(1, I64), invocation="distinct"),
        measure("count_distinct", col("x")),
        measure("approx_count_distinct", col("x")),
        measure("collect_set", col("x")),
        measure("count", lit(1, I64), invocation="distinct"),
    ],
    ids=lambda given: given.function.name,
)  # fmt: skip
def test_distinct_is_obeyed_where_it_changes_something(given: MeasureCall) -> None:
    made = bind_one(given)
    assert made.distinct
    assert made.arguments


@pytest.mark.parametrize(
    "name",
    ["min", "max", "any_value", "bool_and", "bool_or", "bit_and", "bit_or", "min_by", "max_by"],
)
def test_distinct_that_changes_nothing_is_left_out(name: str) -> None:
    arguments = [col("flag") if name.startswith("bool") else col("big")]
    arguments += [col("x")] if name.endswith("_by") else []
    given = measure(name, *arguments, invocation="distinct")
    assert not bind_one(given).distinct
    assert AGGREGATES[name].distinct.reason in found(given, "DISTINCT_NO_EFFECT")


@pytest.mark.parametrize(
    "given",
    [
        measure("count", invocation="distinct"),
        measure("count_star", invocation="distinct"),
        measure("mode", col("x"), invocation="distinct"),
        measure("count_if", col("flag"), invocation="distinct"),
        measure("surrogate_key_int64", invocation="distinct"),
        measure("first_value", col("x"), invocation="distinct"),
        measure("last", col("x"), invocation="distinct"),
    ],
    ids=lambda given: given.function.name,
)  # fmt: skip
def test_distinct_without_a_meaning_is_refused(given: MeasureCall) -> None:
    assert errors(given) == [("DISTINCT_NOT_SUPPORTED", f"{MEASURE}.invocation")]
    row = AGGREGATES.get(given.function.name)
    if row is not None and row.distinct.handling == "refused":
        assert row.distinct.reason in found(given, "DISTINCT_NOT_SUPPORTED")


@pytest.mark.parametrize("name", ["array_agg", "collect_set", "first_value"])
def test_distinct_values_are_ordered_by_arguments_only(name: str) -> None:
    """A DISTINCT measure can be sorted only by its arguments, as in SQL: equal values may have
    different other keys.
    """
    inside = measure(name, col("x"), invocation="distinct", sorts=by(col("x")))
    assert bind_one(inside).order
    for place, keys in enumerate(((col("big"),), (col("x"), col("big")))):
        outside = measure(name, col("x"), invocation="distinct", sorts=by(*keys))
        assert errors(outside) == [("DISTINCT_ORDER_OUTSIDE", f"{MEASURE}.sorts[{place}].expr")]


def test_options_of_an_ordered_form_hold_without_an_order_too() -> None:
    for sorts in ((), by(col("big"))):
        given = measure(
            "first_value", col("x"), sorts=sorts, options=(option("ignore_nulls", "TRUE"),)
        )
        assert not bind_one(given).keep_nulls
