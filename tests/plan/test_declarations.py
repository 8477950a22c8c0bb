"""Names of functions and extensions, in every way they are written."""

from __future__ import annotations

from typing import Any

import pytest

from substrait_agg.plan.model import FunctionName
from tests.plan.helpers import aggregate, codes, decoded_aggregate, function, plan_of, read

SPEC = "https://github.com/substrait-io/substrait/blob/main/extensions"


def declared(reference: int = 0, **tables: Any) -> FunctionName:
    """The function of a measure that refers to anchor `reference`."""
    measure = {"measure": {"function_reference": reference}}
    return (
        decoded_aggregate(plan_of(aggregate(measures=[measure]), **tables))[0].measures[0].function
    )


@pytest.mark.parametrize(
    ("written", "name", "signature"),
    [
        ("sum", "sum", None),
        ("sum:i32", "sum", "i32"),
        ("count:", "count", ""),
        ("equal:string_string", "equal", "string_string"),
        ("and:bool?", "and", "bool?"),
        ("SUM", "sum", None),
    ],
)
def test_names_with_and_without_signature(written: str, name: str, signature: str | None) -> None:
    found = declared(extensions=[function(0, written)])
    assert found == FunctionName(name, signature, None, written)


@pytest.mark.parametrize(
    ("urn", "name"),
    [
        ("extension:io.substrait:functions_arithmetic", "functions_arithmetic"),
        ("extension:com.acme:functions_arithmetic", "com.acme:functions_arithmetic"),
        ("functions_arithmetic", "functions_arithmetic"),
        ("", None),
    ],
)
def test_urns(urn: str, name: str | None) -> None:
    """The functions of another owner must not be taken for the standard ones."""
    tables = {
        "extension_urns": [{"extension_urn_anchor": 3, "urn": urn}],
        "extensions": [function(1, "sum:i32", extension_urn_reference=3)],
    }
    assert declared(1, **tables).urn == name


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        (f"{SPEC}/functions_arithmetic.yaml", "functions_arithmetic"),
        ("/functions_arithmetic_decimal.yaml", "functions_arithmetic_decimal"),
        ("functions_boolean.yml", "functions_boolean"),
        (f"{SPEC}/", None),
        (SPEC, "extensions"),
        ("urn:functions_string", "urn:functions_string"),
    ],
)
def test_uris_of_the_releases_before_urns(uri: str, name: str | None) -> None:
    tables = {
        "extension_uris": [{"uri": uri}],
        "extensions": [function(1, "sum:i32")],
    }
    assert declared(1, **tables).urn == name


def test_the_urn_counts_where_both_are_written() -> None:
    tables = {
        "extension_uris": [{"extension_uri_anchor": 1, "uri": "/functions_old.yaml"}],
        "extension_urns": [
            {"extension_urn_anchor": 1, "urn": "extension:io.substrait:functions_new"}
        ],
        "extensions": [
            function(1, "sum:i32", extension_uri_reference=1, extension_urn_reference=1)
        ],
    }
    assert declared(1, **tables).urn == "functions_new"


def test_anchor_zero_and_datafusion_reference() -> None:
    """DataFusion declares no extension at all and says so with the largest reference."""
    extensions = [function(0, "sum", extension_urn_reference=4294967295)]
    assert declared(0, extensions=extensions) == FunctionName("sum", None, None, "sum")


def test_a_function_that_is_not_declared_is_not_known() -> None:
    assert declared(9) == FunctionName("", None, None, "anchor 9", known=False)


def test_one_anchor_for_two_functions_is_reported() -> None:
    twice = [function(1, "sum:i32"), function(1, "sum:i32"), function(1, "avg:i32")]
    _, found = read(plan_of(aggregate(), extensions=twice))
    assert codes(found) == [("VALUE_INVALID", "extensions[2].extension_function")]


@pytest.mark.parametrize(
    ("what", "first", "second"),
    [
        ("urn", "extension:io.substrait:functions_arithmetic", "extension:com.acme:functions"),
        ("uri", "/functions_arithmetic.yaml", "/functions_string.yaml"),
    ],
)
def test_one_anchor_for_two_extensions_is_reported(what: str, first: str, second: str) -> None:
    """The functions under it would silently be those of one of the two; a repetition says nothing new."""
    tables = {
        f"extension_{what}s": [
            {f"extension_{what}_anchor": 1, what: text} for text in (first, first, second)
        ]
    }
    _, found = read(plan_of(aggregate(), **tables))
    assert codes(found) == [("VALUE_INVALID", f"extension_{what}s[2]")]


def test_removed_fields_are_a_problem_only_in_plans_of_releases_without_them() -> None:
    uris = {"extension_uris": [{"uri": "/functions_arithmetic.yaml"}]}
    assert read(plan_of(aggregate(), **uris))[1] == []
    newer = {**plan_of(aggregate(), **uris), "version": {"minor_number": 90}}
    for mode, level in (("lenient", "warning"), ("strict", "error")):
        _, found = read(newer, mode)
        assert [(p.code, p.level, p.path) for p in found] == [
            ("FIELD_REMOVED", level, "extension_uris")
        ]
