"""The published extension file of the function that Spark computes from a text."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import jsonschema
import yaml

from substrait_agg.bind.bound import Call, Column, Constant
from substrait_agg.bind.show import show
from substrait_agg.functions.spark_sql import SPARK_SQL, SPARK_URN, UNNEST
from substrait_agg.plan.types import Type


def content() -> dict[str, Any]:
    text = files("substrait_agg").joinpath("extensions", "functions_spark.yaml").read_text("utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def test_it_is_valid_by_the_published_schema() -> None:
    folder = files("substrait_extensions").joinpath("extensions")
    schema = yaml.safe_load(folder.joinpath("simple_extensions_schema.yaml").read_text("utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    assert [e.message for e in validator.iter_errors(content())] == []


def test_it_has_the_urn_and_the_function_that_plans_name() -> None:
    assert content()["urn"] == f"extension:{SPARK_URN}"
    assert [f["name"] for f in content()["scalar_functions"]] == [SPARK_SQL, UNNEST]


def test_it_is_shown_with_its_columns_in_place() -> None:
    integer, text = Type("i64"), Constant(Type("string", nullable=False), "concat(c0, 'c1', c1)")
    more = Call(integer, "add", (Column(integer, 1), Constant(integer, 1)))
    call = Call(integer, SPARK_SQL, (text, Column(integer, 0), more))
    assert show(call, ["a", "b"]) == "concat(a, 'c1', (b + 1))"
