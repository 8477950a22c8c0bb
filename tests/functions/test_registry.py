"""Measures of an embedding program, registered under its own URN, are found when a plan is bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from substrait_agg.bind.bound import BoundMeasure
from substrait_agg.functions.aggregates.registry import (
    UserMeasure,
    find_user,
    implementation_of,
    register,
    unregister,
)
from substrait_agg.plan.model import FunctionName, SortField
from substrait_agg.plan.types import FP64, I64, Type
from tests.bind.build import MEASURE, aggregate, bound, codes_of, col, errors_of, measure, read

URN = "extension:acme:stats"
MEAN = UserMeasure(URN, ("geo_mean", "gmean"), (("fp64",),), FP64, "additive", object())
LAST = UserMeasure(
    URN, ("nth_best",), ((), ("i64",)), lambda types: types[0].as_nullable(), "ordered", object()
)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(MEAN)
    register(LAST)
    yield
    unregister(MEAN)
    unregister(LAST)


def call(name: str, *arguments: Any, urn: str = "acme:stats", **changes: Any) -> Any:
    return measure(name, *arguments, function=FunctionName(name, None, urn, name), **changes)


def bind_one(given: Any) -> BoundMeasure:
    return bound(aggregate(read(), (), (given,)), "m").root.measures[0]  # type: ignore[union-attr]


def errors(given: Any) -> list[str]:
    return [code for code, _ in errors_of(aggregate(read(), (), (given,)), "m")]


def test_a_plan_names_the_measure_by_urn_and_any_name() -> None:
    made = bind_one(call("gmean", col("x"), output=FP64, invocation="distinct", filter=col("flag")))
    assert (made.kind, made.implementation) == ("user", "acme:stats:geo_mean")
    assert made.distinct
    assert made.filter is not None
    assert made.type == FP64
    assert implementation_of(made.implementation) is MEAN


def test_the_result_type_may_depend_on_the_arguments() -> None:
    assert bind_one(call("nth_best", col("day"), col("must"))).type == Type("date")


def test_the_same_name_elsewhere_is_not_the_measure() -> None:
    assert errors(call("geo_mean", col("x"), urn="other:stats")) == ["FUNCTION_URN_UNKNOWN"]
    assert errors(measure("geo_mean", col("x"))) == ["AGGREGATE_FUNCTION_UNKNOWN"]


def test_its_arguments_are_checked() -> None:
    assert errors(call("geo_mean", col("name"))) == ["FUNCTION_ARGUMENTS"]
    assert errors(call("geo_mean", col("x"), col("x"))) == ["ARGUMENT_COUNT"]
    assert errors(call("geo_mean", col("x"), output=I64)) == ["OUTPUT_TYPE_NOT_SUPPORTED"]


def test_only_an_ordered_measure_obeys_an_order() -> None:
    sort = SortField(col("big"), "desc_nulls_last", None, f"{MEASURE}.sorts[0]")
    assert len(bind_one(call("nth_best", col("day"), col("must"), sorts=(sort,))).order) == 1
    given = call("geo_mean", col("x"), sorts=(sort,))
    assert bind_one(given).order == ()
    assert "ORDER_BY_NO_EFFECT" in codes_of(aggregate(read(), (), (given,)), "m")


def test_registering_the_same_measure_again_changes_nothing() -> None:
    assert register(MEAN) is MEAN


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"implementation": object()}, "already registered"),
        ({"names": ()}, "needs at least one name"),
        ({"names": ("GeoMean",)}, "lower case"),
        ({"names": ("geo_mean:fp64",)}, "lower case"),
        ({"urn": "extension:io.substrait:functions_arithmetic"}, "not a URN of a user-defined extension"),
        ({"urn": "functions_arithmetic"}, "not a URN of a user-defined extension"),
        ({"urn": " "}, "not a URN of a user-defined extension"),
    ],
)  # fmt: skip
def test_what_cannot_be_registered(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        register(replace(MEAN, **changes))


def test_a_measure_can_be_forgotten() -> None:
    unregister(MEAN)
    assert find_user("acme:stats", "gmean") is None
    with pytest.raises(KeyError):
        implementation_of(MEAN.key)
