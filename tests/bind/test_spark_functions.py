"""The functions of Spark in plans: expressions as texts, and lists whose elements become rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

import substrait_agg as sa

URN = "extension:substrait_agg:functions_spark"
I64 = {"i64": {"nullability": "NULLABILITY_NULLABLE"}}
STRING = {"string": {"nullability": "NULLABILITY_NULLABLE"}}
LIST = {"list": {"type": I64, "nullability": "NULLABILITY_NULLABLE"}}
TRUE = {"bool": {"nullability": "NULLABILITY_NULLABLE"}}


def column(ordinal: int) -> dict[str, Any]:
    return {
        "selection": {
            "directReference": {"structField": {"field": ordinal}},
            "rootReference": {},
        }
    }


def call(name: str, *arguments: dict[str, Any], type_: dict[str, Any] | None) -> dict[str, Any]:
    anchors = {"spark_sql": 1, "unnest": 2, "other": 3}
    body: dict[str, Any] = {
        "functionReference": anchors[name],
        "arguments": [{"value": argument} for argument in arguments],
    }
    return {"scalarFunction": body if type_ is None else {**body, "outputType": type_}}


def text(value: str) -> dict[str, Any]:
    return {"literal": {"string": value}}


def plan(*expressions: dict[str, Any], condition: dict[str, Any] | None = None) -> str:
    """SELECT the expressions FROM t(a bigint, l array<bigint>) WHERE the condition."""
    struct = {"types": [I64, LIST], "nullability": "NULLABILITY_REQUIRED"}
    source: dict[str, Any] = {
        "read": {
            "baseSchema": {"names": ["a", "l"], "struct": struct},
            "namedTable": {"names": ["t"]},
        }
    }
    if condition is not None:
        source = {"filter": {"input": source, "condition": condition}}
    emit = {"emit": {"outputMapping": [2 + i for i in range(len(expressions))]}}
    project = {"common": emit, "input": source, "expressions": list(expressions)}
    names = ["spark_sql:str_any", "unnest:list", "other:any"]
    declared = [
        {"extensionFunction": {"extensionUrnReference": 1, "functionAnchor": i + 1, "name": name}}
        for i, name in enumerate(names)
    ]
    message = {
        "version": {"minorNumber": 106, "producer": "by hand"},
        "extensionUrns": [{"extensionUrnAnchor": 1, "urn": URN}],
        "extensions": declared,
        "relations": [
            {
                "root": {
                    "input": {"project": project},
                    "names": [f"x{i}" for i in range(len(expressions))],
                }
            }
        ],
    }
    return json.dumps(message)


def errors(content: str) -> list[str]:
    return [p.code for p in sa.validate(content).problems if p.level == "error"]


def test_a_text_over_columns_is_an_expression_of_the_declared_type() -> None:
    content = plan(call("spark_sql", text("hex(c0)"), column(0), type_=STRING))
    assert errors(content) == []
    assert sa.load(content).bind().root.types[0].kind == "string"


def test_the_text_is_part_of_what_a_plan_is() -> None:
    one, other = (
        sa.load(plan(call("spark_sql", text(t), column(0), type_=STRING))).bind().fingerprint
        for t in ("hex(c0)", "bin(c0)")
    )
    assert one != other


@pytest.mark.parametrize(
    "expression",
    [
        call("spark_sql", text("hex(c0)"), column(0), type_=None),
        call("spark_sql", column(0), column(0), type_=STRING),
        call("spark_sql", type_=STRING),
        call("other", text("hex(c0)"), type_=STRING),
        call("unnest", column(0), type_=I64),
        call("unnest", column(1), column(1), type_=I64),
    ],
    ids=["no type", "no constant", "no text", "unknown", "no list", "two lists"],
)
def test_another_form_is_refused(expression: dict[str, Any]) -> None:
    assert errors(plan(expression)) == ["SPARK_EXPRESSION_INVALID"]


def test_only_the_release_of_spark_is_an_option() -> None:
    expression = call("spark_sql", text("hex(c0)"), column(0), type_=STRING)
    body = expression["scalarFunction"]
    body["options"] = [{"name": "SPARK_VERSION", "preference": ["4.3"]}]
    assert errors(plan(expression)) == []
    body["options"] = [{"name": "overflow", "preference": ["ERROR"]}]
    assert errors(plan(expression)) == ["SPARK_EXPRESSION_INVALID"]


def test_elements_of_a_list_are_a_column() -> None:
    content = plan(column(0), call("unnest", column(1), type_=I64))
    assert errors(content) == []
    assert [t.kind for t in sa.load(content).bind().root.types] == ["i64", "i64"]


def test_elements_are_rows_in_a_projection_only() -> None:
    elements = call("unnest", column(1), type_=I64)
    twice = plan(elements, call("unnest", column(1), type_=I64))
    within = plan(call("spark_sql", text("c0 + 1"), elements, type_=I64))
    condition = plan(column(0), condition=call("unnest", column(1), type_=TRUE))
    for content in (twice, within, condition):
        assert "SPARK_EXPRESSION_INVALID" in errors(content)


def test_explain_names_the_list() -> None:
    content = plan(column(0), call("unnest", column(1), type_=I64))
    assert "a row per element of l i64?" in sa.explain(content)
