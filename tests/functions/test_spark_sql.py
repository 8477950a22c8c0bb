"""The published extension file of the function that Spark computes from a text."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import jsonschema
import yaml

from substrait_agg.functions.spark_sql import SPARK_FILE, SPARK_SQL, SPARK_URN, UNNEST


def content() -> dict[str, Any]:
    text = files("substrait_agg").joinpath("extensions", SPARK_FILE).read_text("utf-8")
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
