"""Window functions in plans: both places of calls, and every field of a call."""

from __future__ import annotations

import base64
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
        ({"lowerBound": {"preceding": {"offset": 1}}}, []),
        ({"lowerBound": {"preceding": {"offset": -1}}}, ["VALUE_INVALID"]),
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
        ("cume_dist:", "arithmetic", ["OUTPUT_TYPE_NOT_SUPPORTED"]),
        ("lag:any", "arithmetic", ["ARGUMENT_COUNT"]),
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


SECOND = {"selection": {"directReference": {"structField": {"field": 1}}, "rootReference": {}}}
LITERALS = {n: {"literal": {"i64": str(n)}} for n in (-1, 0, 1, 2)}
IGNORE_NULLS = [{"name": "IGNORE_NULLS", "preference": ["TRUE"]}]
ROWS, RANGE = ({"boundsType": f"BOUNDS_TYPE_{word}"} for word in ("ROWS", "RANGE"))


@pytest.mark.parametrize(
    ("function", "arguments", "changed", "codes"),
    [
        ("lag:any", [COLUMN], {}, []),
        ("lag:any_i32", [COLUMN, {"literal": {"i32": 2}}], {}, []),
        ("lag:any_i32_any", [COLUMN, {"literal": {"i32": 2}}, LITERALS[2]], {}, []),
        ("lead:any", [COLUMN], {"outputType": {"i64": REQUIRED}}, ["OUTPUT_NULLABILITY"]),
        ("lead:any", [COLUMN], {"outputType": {"fp64": NULLABLE}}, ["OUTPUT_TYPE_NOT_SUPPORTED"]),
        ("lead:any", [COLUMN], {"outputType": None}, ["OUTPUT_TYPE_MISSING"]),
        ("lag:any", [COLUMN], {"sorts": []}, ["WINDOW_WITHOUT_SORT"]),
        ("lag:any", [COLUMN], {"invocation": "AGGREGATION_INVOCATION_DISTINCT"}, ["DISTINCT_NOT_SUPPORTED"]),
        ("lag:any", [COLUMN], {"phase": "AGGREGATION_PHASE_INTERMEDIATE_TO_RESULT"}, ["PHASE_NOT_SUPPORTED"]),
        ("lag:any", [COLUMN], {"options": [{"name": "nulls", "preference": ["IGNORE"]}]}, ["OPTION_UNKNOWN"]),
        ("lag:any", [COLUMN], {"options": IGNORE_NULLS}, ["OPTION_NOT_STANDARD"]),
        ("lead:any", [COLUMN], {"options": [{"name": "ignore_nulls", "preference": ["FALSE"]}]}, ["OPTION_NOT_STANDARD"]),
        ("nth_value:any_i32", [COLUMN, {"literal": {"i32": 2}}], {"options": IGNORE_NULLS}, ["OPTION_NOT_STANDARD"]),
        ("ntile:i64", [{"literal": {"i64": "2"}}], {"options": IGNORE_NULLS}, ["OPTION_UNKNOWN"]),
        ("lag:any_i32", [COLUMN, COLUMN], {}, ["CONSTANT_ARGUMENT_INVALID"]),
        ("lag:any_i32_any", [COLUMN, LITERALS[1], {"literal": {"string": "x"}}], {}, ["CONSTANT_ARGUMENT_INVALID"]),
        ("ntile:i64", [LITERALS[2]], {}, []),
        ("ntile:i64", [LITERALS[0]], {}, ["CONSTANT_ARGUMENT_INVALID"]),
        ("ntile:i64", [COLUMN], {}, ["CONSTANT_ARGUMENT_INVALID"]),
        ("ntile:i64", [], {}, ["ARGUMENT_COUNT"]),
        ("percent_rank:", [], {"outputType": {"fp64": REQUIRED}}, []),
        ("cume_dist:", [], {"outputType": {"i64": NULLABLE}}, ["OUTPUT_TYPE_NOT_SUPPORTED"]),
    ],
)  # fmt: skip
def test_every_field_of_a_function_of_other_rows_is_checked(
    function: str, arguments: list[Any], changed: dict[str, Any], codes: list[str]
) -> None:
    fields = {"outputType": {"i64": NULLABLE}} | changed
    sorts = fields.pop("sorts", SORTS)
    values = [{"value": argument} for argument in arguments]
    assert errors(plan(projected(sorts=sorts, arguments=values, **fields), function)) == codes


def test_strict_mode_refuses_what_only_this_program_ignores() -> None:
    fields = {"arguments": [{"value": COLUMN}], "outputType": {"i64": NULLABLE}}
    text = plan(projected(options=IGNORE_NULLS, **fields), "lag:any").encode()
    strict = {p.code: p.level for p in sa.validate(text, "strict").problems}
    assert strict["OPTION_NOT_STANDARD"] == "error"
    assert sa.validate(text).ok


def test_the_first_value_that_is_not_null_depends_on_the_end_of_the_frame() -> None:
    """The first value of all is that of the partition; with nulls ignored a later row can have it."""
    fields = {"arguments": [{"value": COLUMN}], "outputType": {"i64": NULLABLE}, "sorts": SORTS}
    fields |= bounds(UNBOUNDED, CURRENT, **RANGE)
    text = plan(projected(options=IGNORE_NULLS, **fields), "first_value:any").encode()
    shown = "first_value ignore nulls over range unbounded preceding to current row"
    assert shown in str(sa.explain(text))


def bounds(lower: Any, upper: Any, **others: Any) -> dict[str, Any]:
    """Give the fields of a frame of rows."""
    return {**ROWS, "lowerBound": lower, "upperBound": upper, **others}


CURRENT: dict[str, Any] = {"currentRow": {}}
UNBOUNDED: dict[str, Any] = {"unbounded": {}}
ONE_BACK = {"preceding": {"offset": 1}}
CONSTANT = {"following": {"offsetExpr": LITERALS[1]}}


@pytest.mark.parametrize(
    ("function", "frame", "codes"),
    [
        ("sum:i64", bounds(UNBOUNDED, CURRENT), []),
        ("sum:i64", bounds(ONE_BACK, CONSTANT), []),
        ("sum:i64", bounds(None, CURRENT, **RANGE), []),
        ("sum:i64", bounds(CURRENT, None, **RANGE), []),
        ("sum:i64", bounds(ONE_BACK, CURRENT, **RANGE), []),
        ("sum:i64", bounds(CONSTANT, {"following": {"offsetExpr": {"literal": {"i8": 3}}}}, **RANGE), []),
        ("sum:i64", bounds({"preceding": {"offsetExpr": {"literal": {"fp64": 1.5}}}}, CURRENT, **RANGE), ["WINDOW_FRAME_NOT_SUPPORTED"]),
        ("sum:i64", bounds({"preceding": {"offsetExpr": COLUMN}}, CURRENT, **RANGE), ["WINDOW_FRAME_NOT_SUPPORTED"]),
        ("sum:i64", bounds({"preceding": {"offsetExpr": LITERALS[-1]}}, CURRENT, **RANGE), ["VALUE_INVALID"]),
        ("sum:i64", bounds({"preceding": {"offsetExpr": {"literal": {"null": {"i64": NULLABLE}}}}}, CURRENT, **RANGE), ["WINDOW_FRAME_NOT_SUPPORTED"]),
        ("sum:i64", bounds({"preceding": {"offsetExpr": {"literal": {"date": 3}}}}, CURRENT), ["WINDOW_FRAME_NOT_SUPPORTED"]),
        ("sum:i64", bounds(ONE_BACK, CURRENT, sorts=[], **RANGE), ["WINDOW_FRAME_NOT_SUPPORTED"]),
        ("sum:i64", bounds(ONE_BACK, CURRENT, sorts=[SORTS[0], {**SORTS[0], "expr": SECOND}], **RANGE), ["WINDOW_FRAME_NOT_SUPPORTED"]),
        ("sum:i64", bounds(ONE_BACK, CURRENT, boundsType=None), ["WINDOW_FRAME_NOT_SUPPORTED"]),
        ("sum:i64", bounds(CURRENT, ONE_BACK), []),
        ("sum:i64", bounds({"preceding": {"offsetExpr": COLUMN}}, CURRENT), ["WINDOW_FRAME_NOT_SUPPORTED"]),
        ("sum:i64", bounds({"preceding": {"offsetExpr": LITERALS[-1]}}, CURRENT), ["VALUE_INVALID"]),
        ("last_value:any", bounds(UNBOUNDED, CURRENT), []),
        ("mode:i64", bounds(UNBOUNDED, CURRENT), []),
        ("sum:i64", bounds(UNBOUNDED, CURRENT, invocation="AGGREGATION_INVOCATION_DISTINCT"), []),
        ("first_value:any", bounds(ONE_BACK, CURRENT, sorts=[]), ["ORDER_MISSING", "WINDOW_FUNCTION_NOT_SUPPORTED"]),
    ],
)  # fmt: skip
def test_frames_are_checked(function: str, frame: dict[str, Any], codes: list[str]) -> None:
    fields = {"arguments": [{"value": COLUMN}], "outputType": {"i64": NULLABLE}, "sorts": SORTS}
    fields |= frame
    assert errors(plan(projected(**fields), function)) == codes


KEYS: dict[str, dict[str, Any]] = {
    "decimal": {"decimal": {"precision": 9, "scale": 2, **NULLABLE}},
    "digits": {"decimal": {"precision": 38, "scale": 2, **NULLABLE}},
    "date": {"date": NULLABLE},
    "timestamp": {"precisionTimestamp": {"precision": 6, **NULLABLE}},
    "zoned": {"precisionTimestampTz": {"precision": 9, **NULLABLE}},
    "float": {"fp64": NULLABLE},
    "months": {"intervalYear": NULLABLE},
    "span": {"intervalDay": {"precision": 6, **NULLABLE}},
    "text": {"string": NULLABLE},
}


def decimal_literal(number: int, scale: int) -> dict[str, Any]:
    """Give a decimal constant."""
    value = base64.b64encode(number.to_bytes(16, "little")).decode()
    return {"literal": {"decimal": {"value": value, "precision": 9, "scale": scale}}}


def interval(**parts: Any) -> dict[str, Any]:
    """Give an interval of days and less."""
    return {"literal": {"intervalDayToSecond": {"precision": 3, **parts}}}


def compound(months: int, days: int) -> dict[str, Any]:
    """Give an interval of months and days."""
    parts = {"intervalYearToMonth": {"months": months}, "intervalDayToSecond": {"days": days, "precision": 6}}  # fmt: skip
    return {"literal": {"intervalCompound": parts}}


@pytest.mark.parametrize(
    ("key", "distance", "shown"),
    [
        ("decimal", decimal_literal(25, 1), "range 250 preceding to 250 following"),
        ("decimal", decimal_literal(2555, 3), "range 255 preceding to 255 following"),
        ("decimal", {"literal": {"i64": "2"}}, "range 200 preceding to 200 following"),
        ("date", interval(days=2, seconds=86400), "range 3 preceding to 3 following"),
        ("date", interval(days=1, subseconds="1"), "range 1 preceding to 1 following"),
        ("timestamp", interval(seconds=1, subseconds="5"), "range 1005000 preceding to 1005000 following"),
        ("zoned", interval(subseconds="5"), "range 5000 preceding to 5000 following"),
        ("date", {"literal": {"i64": "2"}}, None),
        ("timestamp", {"literal": {"intervalYearToMonth": {"months": 1}}}, "range 1 months preceding to 1 months following"),
        ("date", {"literal": {"intervalYearToMonth": {"years": 1, "months": 2}}}, "range 14 months preceding to 14 months following"),
        ("date", compound(months=2, days=0), "range 2 months preceding to 2 months following"),
        ("date", compound(months=2, days=1), "range 2 months +1 units preceding to 2 months +1 units following"),
        ("timestamp", compound(months=2, days=-1), "range 2 months -86400000000 units preceding to 2 months -86400000000 units"),
        ("timestamp", compound(months=12 * 200_000, days=0), None),
        ("months", {"literal": {"intervalYearToMonth": {"years": 1}}}, "range 12 preceding to 12 following"),
        ("months", interval(days=1), None),
        ("span", interval(days=1), "range 86400000000 preceding to 86400000000 following"),
        ("span", compound(months=0, days=1), "range 86400000000 preceding to 86400000000 following"),
        ("span", compound(months=1, days=1), None),
        ("decimal", {"literal": {"intervalYearToMonth": {"months": 1}}}, None),
        ("digits", {"literal": {"i64": "2"}}, "range 200 preceding to 200 following"),
        ("float", {"literal": {"fp64": 1.5}}, "range 1.5 preceding to 1.5 following"),
        ("float", {"literal": {"i64": "2"}}, "range 2.0 preceding to 2.0 following"),
        ("float", {"literal": {"fp64": "Infinity"}}, None),
        ("float", {"literal": {"fp64": -1.0}}, None),
        ("text", {"literal": {"string": "a"}}, None),
        ("decimal", {"literal": {"i64": str(2**63 - 1)}}, "range 922337203685477580700 preceding"),
    ],
)  # fmt: skip
def test_distances_have_the_units_of_their_sort_key(
    key: str, distance: dict[str, Any], shown: str | None
) -> None:
    frame = bounds(
        {"preceding": {"offsetExpr": distance}}, {"following": {"offsetExpr": distance}}, **RANGE
    )
    text = plan(
        projected(arguments=[], outputType={"i64": REQUIRED}, **frame),
        "count:",
        "aggregate_generic",
    )
    document = json.loads(text)
    read = document["relations"][0]["root"]["input"]["project"]["input"]["read"]
    read["baseSchema"]["struct"]["types"] = [KEYS[key]] * 2
    content = json.dumps(document)
    if shown is None:
        assert errors(content) == ["WINDOW_FRAME_NOT_SUPPORTED"]
    else:
        assert shown in str(sa.explain(content.encode()))


@pytest.mark.parametrize(
    ("bounds", "codes"),
    [
        ("BOUNDS_TYPE_RANGE", []),
        ("BOUNDS_TYPE_ROWS", ["WINDOW_WITHOUT_SORT"]),
        ("BOUNDS_TYPE_UNSPECIFIED", ["WINDOW_FRAME_NOT_SUPPORTED"]),
    ],
)
def test_without_an_order_all_rows_are_peers_of_a_range(bounds: str, codes: list[str]) -> None:
    """A frame of rows ends with the row itself, so which rows it has follows from the order of whole rows."""
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
