"""Window functions in plans: both places of calls, and every field of a call."""

from __future__ import annotations

import json
from typing import Any

import pytest

import substrait_agg as sa

COLUMN = {"selection": {"directReference": {"structField": {"field": 0}}, "rootReference": {}}}
SORTS = [{"expr": COLUMN, "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}]
REQUIRED, NULLABLE = ({"nullability": f"NULLABILITY_{word}"} for word in ("REQUIRED", "NULLABLE"))
READ = {
    "baseSchema": {"names": ["a", "b"], "struct": {"types": [{"i64": NULLABLE}] * 2, **REQUIRED}},
    "namedTable": {"names": ["t"]},
}


def call(**changed: Any) -> dict[str, Any]:
    """Give the fields of a call of row_number."""
    fields = {
        "functionReference": 1,
        "outputType": {"i64": REQUIRED},
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
    }
    return {k: v for k, v in (fields | changed).items() if v is not None}


def plan(relation: dict[str, Any], function: str = "row_number:", urn: str = "arithmetic") -> str:
    """Give a plan with a relation over the table."""
    (kind,) = relation
    relation[kind]["input"] = {"read": READ}
    return json.dumps(
        {
            "version": {"minorNumber": 106},
            "extensionUrns": [
                {"extensionUrnAnchor": 1, "urn": f"extension:io.substrait:functions_{urn}"}
            ],
            "extensions": [
                {
                    "extensionFunction": {
                        "extensionUrnReference": 1,
                        "functionAnchor": 1,
                        "name": function,
                    }
                }
            ],
            "relations": [{"root": {"input": relation, "names": ["a", "b", "n"]}}],
        }
    )


def projected(partitions: Any = None, sorts: Any = SORTS, **changed: Any) -> dict[str, Any]:
    """Give a projection with a call of row_number."""
    window = {**call(**changed), "partitions": partitions or [], "sorts": sorts}
    return {"project": {"expressions": [{"windowFunction": window}]}}


def errors(text: str) -> list[str]:
    """Give the codes of all problems of a plan."""
    return [problem.code for problem in sa.validate(text.encode()).problems]


def test_both_places_of_a_call_mean_the_same() -> None:
    second = {"selection": {"directReference": {"structField": {"field": 1}}, "rootReference": {}}}
    relation: dict[str, Any] = {
        "window": {
            "windowFunctions": [call()],
            "partitionExpressions": [second],
            "sorts": SORTS,
        }
    }
    texts = (plan(relation), plan(projected([second])))
    first, other = (str(sa.explain(text.encode())) for text in texts)
    operators = [text[text.index("keys:") :].splitlines() for text in (first, other)]
    shown = [[line for line in lines if "relations[" not in line] for lines in operators]
    assert shown[0] == shown[1]
    assert "replace those whose rank changes" in first


@pytest.mark.parametrize(
    ("changed", "codes"),
    [
        ({}, []),
        ({"invocation": "AGGREGATION_INVOCATION_ALL"}, []),
        ({"invocation": "AGGREGATION_INVOCATION_DISTINCT"}, ["DISTINCT_NOT_SUPPORTED"]),
        ({"phase": "AGGREGATION_PHASE_INTERMEDIATE_TO_RESULT"}, ["PHASE_NOT_SUPPORTED"]),
        ({"arguments": [{"value": COLUMN}]}, ["ARGUMENT_COUNT"]),
        ({"options": [{"name": "rounding", "preference": ["UP"]}]}, ["OPTION_UNKNOWN"]),
        ({"outputType": {"i32": REQUIRED}}, ["OUTPUT_TYPE_NOT_SUPPORTED"]),
        ({"outputType": {"i64": NULLABLE}}, []),
        ({"outputType": None}, ["OUTPUT_TYPE_MISSING"]),
        ({"sorts": []}, ["WINDOW_WITHOUT_SORT"]),
        ({"lowerBound": {"preceding": {"offset": 1}}}, ["WINDOW_FRAME_NOT_SUPPORTED"]),
        ({"upperBound": {}}, ["FIELD_MISSING"]),
        ({"boundsType": 7}, ["VALUE_INVALID"]),
        ({"sorts": [{"expr": COLUMN}]}, ["ORDER_DIRECTION_NOT_SUPPORTED"]),
        ({"functionReference": 9}, ["FUNCTION_UNDECLARED"]),
    ],
)
def test_every_field_of_a_position_is_checked(changed: dict[str, Any], codes: list[str]) -> None:
    sorts = changed.pop("sorts", SORTS)
    assert errors(plan(projected(sorts=sorts, **changed))) == codes


@pytest.mark.parametrize(
    ("function", "urn", "codes"),
    [
        ("rank:", "arithmetic", []),
        ("dense_rank:", "arithmetic", []),
        ("cume_dist:", "arithmetic", ["WINDOW_FUNCTION_NOT_SUPPORTED"]),
        ("row_number:", "string", ["FUNCTION_URN_DIFFERS"]),
        ("upper:str", "string", ["FUNCTION_NOT_AGGREGATE"]),
    ],
)
def test_other_functions(function: str, urn: str, codes: list[str]) -> None:
    assert errors(plan(projected(), function, urn)) == codes


def test_an_aggregate_of_a_partition_is_a_measure() -> None:
    """Its fields are those of measures, and its frame is the partition."""
    value = {"arguments": [{"value": COLUMN}], "outputType": {"i64": NULLABLE}}
    text = plan(projected([COLUMN], [], **value), "sum:i64")
    assert errors(text) == []
    first = projected([COLUMN], arguments=value["arguments"], outputType={"i64": NULLABLE})
    assert errors(plan(first, "first_value:any")) == []
    running = projected([COLUMN], upperBound={"currentRow": {}}, **value)
    assert errors(plan(running, "sum:i64")) == ["WINDOW_FRAME_NOT_SUPPORTED"]


@pytest.mark.parametrize(
    ("bounds", "codes"),
    [
        ("BOUNDS_TYPE_RANGE", []),
        ("BOUNDS_TYPE_ROWS", ["WINDOW_FRAME_NOT_SUPPORTED"]),
        ("BOUNDS_TYPE_UNSPECIFIED", ["WINDOW_FRAME_NOT_SUPPORTED"]),
    ],
)
def test_without_an_order_all_rows_are_peers_of_a_range(bounds: str, codes: list[str]) -> None:
    """A frame of rows ends with the row itself, so which rows it has is not defined."""
    fields = {"arguments": [{"value": COLUMN}], "outputType": {"i64": NULLABLE}}
    frame = {"boundsType": bounds, "upperBound": {"currentRow": {}}}
    assert errors(plan(projected([COLUMN], [], **fields, **frame), "sum:i64")) == codes


@pytest.mark.parametrize("place", ["filter", "aggregate", "nested"])
def test_a_call_outside_of_a_projection_is_refused(place: str) -> None:
    window = {"windowFunction": {**call(), "sorts": SORTS}}
    nested = {"windowFunction": {**call(), "sorts": [{**SORTS[0], "expr": window}]}}
    relations: dict[str, dict[str, Any]] = {
        "filter": {"filter": {"condition": {"singularOrList": {"value": window, "options": [window]}}}},
        "aggregate": {"aggregate": {"groupingExpressions": [window], "groupings": [{"expressionReferences": [0]}]}},
        "nested": {"project": {"expressions": [nested]}},
    }  # fmt: skip
    assert "WINDOW_FUNCTION_MISPLACED" in errors(plan(relations[place]))


def test_a_window_relation_needs_functions() -> None:
    assert "FIELD_MISSING" in errors(plan({"window": {"sorts": SORTS}}))
