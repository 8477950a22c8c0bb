"""Names of functions and extensions, in every way they are written."""

from __future__ import annotations

from typing import Any

import pytest

from substrait_agg.plan.model import NO_FUNCTION, FunctionName
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


STANDARD = "extension:io.substrait:functions_string"


def both(urn: str | None, uri: str | None) -> dict[str, Any]:
    """A function that refers to a URN and to a URI; None is an extension that is not declared."""
    urns = [{"extension_urn_anchor": 4, "urn": urn}] if urn else []
    uris = [{"extension_uri_anchor": 7, "uri": uri}] if uri else []
    references = {"extension_urn_reference": 4, "extension_uri_reference": 7}
    return {
        "version": {"minor_number": 80},
        "extension_urns": urns,
        "extension_uris": uris,
        "extensions": [function(1, "concat:str", **references)],
    }


@pytest.mark.parametrize(
    ("urn", "uri"),
    [
        (STANDARD, f"{SPEC}/functions_string.yaml"),
        (STANDARD, "/functions_string.yaml"),
        (STANDARD, f"{SPEC}/"),
        # How another owner calls the file of an extension is up to it.
        ("extension:com.acme:texts", "https://acme.example/more_texts.yaml"),
    ],
)
def test_a_urn_and_the_uri_of_the_same_extension(urn: str, uri: str) -> None:
    tables = both(urn, uri)
    assert read(plan_of(aggregate(), **tables))[1] == []
    assert declared(1, **tables).urn == urn.removeprefix("extension:").removeprefix("io.substrait:")


@pytest.mark.parametrize("mode", ["lenient", "strict"])
@pytest.mark.parametrize(
    ("urn", "uri"),
    [
        (STANDARD, f"{SPEC}/functions_boolean.yaml"),
        (STANDARD, "https://acme.example/more_texts.yaml"),
        (STANDARD, None),
        (None, "/functions_string.yaml"),
    ],
)
def test_a_urn_and_a_uri_that_contradict_each_other(
    urn: str | None, uri: str | None, mode: str
) -> None:
    """A parser of URNs reads another function than a parser of URIs."""
    _, found = read(plan_of(aggregate(), **both(urn, uri)), mode)
    place = "extensions[0].extension_function.extension_uri_reference"
    assert [(p.code, p.level, p.path) for p in found if p.code != "FIELD_REMOVED"] == [
        ("FIELD_CONFLICT", "error", place)
    ]


@pytest.mark.parametrize(("mode", "level"), [("lenient", "warning"), ("strict", "error")])
@pytest.mark.parametrize("field", ["extension_urn_reference", "extension_uri_reference"])
@pytest.mark.parametrize("kind", ["function", "type", "type_variation"])
def test_a_reference_to_an_extension_that_is_not_declared(
    kind: str, field: str, mode: str, level: str
) -> None:
    """Of every kind of declaration; the function is still known by its name."""
    item = {f"{kind}_anchor": 3, "name": "odd:i32", field: 12}
    tables = {
        "extension_urns": [{"extension_urn_anchor": 4, "urn": STANDARD}],
        "extensions": [{f"extension_{kind}": item}],
    }
    _, found = read(plan_of(aggregate(), **tables), mode)
    assert [(p.code, p.level, p.path) for p in found] == [
        ("EXTENSION_UNDECLARED", level, f"extensions[0].extension_{kind}.{field}")
    ]
    assert "anchor 12" in found[0].message
    if kind == "function":
        assert declared(3, **tables).undeclared_extension


def test_two_references_to_nothing_are_one_problem() -> None:
    _, found = read(plan_of(aggregate(), **both(None, None)))
    place = "extensions[0].extension_function.extension_urn_reference"
    assert codes(found) == [("EXTENSION_UNDECLARED", place)]


@pytest.mark.parametrize("name", ["", ":i32", " "])
@pytest.mark.parametrize("kind", ["function", "type", "type_variation"])
def test_a_declaration_without_a_name(kind: str, name: str) -> None:
    item = {f"{kind}_anchor": 3, "name": name}
    _, found = read(plan_of(aggregate(), extensions=[{f"extension_{kind}": item}]))
    assert codes(found) == [("FIELD_MISSING", f"extensions[0].extension_{kind}")]


def test_a_call_of_a_function_without_a_name_is_no_second_problem() -> None:
    """The problem is reported at the declaration, because the call is correct."""
    assert declared(3, extensions=[function(3, "")]) == NO_FUNCTION


@pytest.mark.parametrize(("mode", "level"), [("lenient", "warning"), ("strict", "error")])
@pytest.mark.parametrize(
    "address",
    [
        f"{SPEC}/functions_string.yaml",
        "https://raw.githubusercontent.com/substrait-io/substrait/v0.60.0/extensions/functions_string.yaml",
        "https://substrait.io/extensions/functions_string.yaml",
        "/functions_string.yaml",
        "functions_string.yml",
    ],
)
def test_the_address_of_a_standard_extension_as_a_urn(address: str, mode: str, level: str) -> None:
    tables = {
        "extension_urns": [{"extension_urn_anchor": 2, "urn": address}],
        "extensions": [function(1, "concat:str", extension_urn_reference=2)],
    }
    _, found = read(plan_of(aggregate(), **tables), mode)
    assert [(p.code, p.level, p.path) for p in found] == [
        ("EXTENSION_NAME_FORM", level, "extension_urns[0].urn")
    ]
    assert found[0].help.endswith(STANDARD)
    assert declared(1, **tables).urn == "functions_string"


def test_the_address_of_another_site_is_no_standard_extension() -> None:
    """The function would otherwise be taken for one of the standard."""
    tables = {
        "extension_urns": [{"urn": "https://acme.example/extensions/functions_string.yaml"}],
        "extensions": [function(1, "concat:str")],
    }
    assert read(plan_of(aggregate(), **tables))[1] == []
    assert declared(1, **tables).urn == "https://acme.example/extensions/functions_string.yaml"


def test_a_urn_in_the_place_of_a_uri() -> None:
    tables = {
        "extension_uris": [{"uri": STANDARD}],
        "extensions": [function(1, "concat:str")],
    }
    _, found = read(plan_of(aggregate(), **tables))
    assert codes(found) == [("EXTENSION_NAME_FORM", "extension_uris[0].uri")]
    assert declared(1, **tables).urn == "functions_string"


def test_anchor_zero_and_datafusion_reference() -> None:
    """DataFusion declares no extension and marks this with the largest reference."""
    extensions = [function(0, "sum", extension_urn_reference=4294967295)]
    assert declared(0, extensions=extensions) == FunctionName("sum", None, None, "sum")


def test_a_function_that_is_not_declared_is_not_known() -> None:
    assert declared(9) == FunctionName("", None, None, "anchor 9", known=False)


def test_one_anchor_for_two_functions_is_reported() -> None:
    twice = [function(1, "sum:i32"), function(1, "sum:i32"), function(1, "avg:i32")]
    _, found = read(plan_of(aggregate(), extensions=twice))
    assert codes(found) == [("ANCHOR_REPEATED", "extensions[2].extension_function")]


@pytest.mark.parametrize("kind", ["type", "type_variation"])
def test_one_anchor_for_two_types_or_variations_is_reported(kind: str) -> None:
    items = [{f"{kind}_anchor": 1, "name": name} for name in ("point", "point", "line")]
    plan = plan_of(aggregate(), extensions=[{f"extension_{kind}": item} for item in items])
    assert codes(read(plan)[1]) == [("ANCHOR_REPEATED", f"extensions[2].extension_{kind}")]


@pytest.mark.parametrize(
    ("what", "first", "second"),
    [
        ("urn", "extension:io.substrait:functions_arithmetic", "extension:com.acme:functions"),
        ("uri", "/functions_arithmetic.yaml", "/functions_string.yaml"),
    ],
)
def test_one_anchor_for_two_extensions_is_reported(what: str, first: str, second: str) -> None:
    """Its functions would silently belong to one of the two; an identical repetition is allowed."""
    tables = {
        f"extension_{what}s": [
            {f"extension_{what}_anchor": 1, what: text} for text in (first, first, second)
        ]
    }
    _, found = read(plan_of(aggregate(), **tables))
    assert codes(found) == [("ANCHOR_REPEATED", f"extension_{what}s[2]")]


def test_removed_fields_are_a_problem_only_in_plans_of_releases_without_them() -> None:
    uris = {"extension_uris": [{"uri": "/functions_arithmetic.yaml"}]}
    assert read(plan_of(aggregate(), **uris))[1] == []
    newer = {**plan_of(aggregate(), **uris), "version": {"minor_number": 90}}
    for mode, level in (("lenient", "warning"), ("strict", "error")):
        _, found = read(newer, mode)
        assert [(p.code, p.level, p.path) for p in found] == [
            ("FIELD_REMOVED", level, "extension_uris")
        ]
