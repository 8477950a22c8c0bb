"""What a plan leaves unsaid or says in another way is an error in strict mode, and runs in lenient."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import substrait_agg as sa
from substrait_agg.problem_kinds import Mode

FOLDER = Path(__file__).parents[1] / "data" / "strict"

FOUND: dict[str, tuple[str, str]] = {
    "unknown_nullability_of_schema": ("NULLABILITY_MISSING", "info"),
    "major_version_2": ("RELEASE_UNKNOWN", "warning"),
    "preceding_zero": ("WINDOW_DISTANCE_ZERO", "warning"),
    "string_for_varchar_signature": ("ARGUMENTS_PROMOTED", "info"),
    "wider_nullability_of_scalar": ("RESULT_TYPE_DIFFERS", "info"),
    "window_without_phase": ("PHASE_UNSPECIFIED", "warning"),
    "bounds_without_type": ("WINDOW_BOUNDS_TYPE_MISSING", "info"),
    "reordering_mask": ("MASK_REORDERS", "info"),
    "upper_case_signature": ("SIGNATURE_UNKNOWN", "warning"),
    "removed_enum_name": ("FIELD_REMOVED", "warning"),
    "lossy_declared_type": ("RESULT_TYPE_LOSSY", "warning"),
}
"""Name of a plan -> the problem it has, and the level of the problem in lenient mode."""


def plan(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return document


def levels(document: dict[str, Any], mode: Mode) -> dict[str, str]:
    """Code of each problem -> its level."""
    problems = sa.validate(json.dumps(document).encode(), mode).problems
    return {problem.code: problem.level for problem in problems}


def input_of(document: dict[str, Any]) -> dict[str, Any]:
    relation: dict[str, Any] = document["relations"][0]["root"]["input"]
    return relation


def read_of(document: dict[str, Any]) -> dict[str, Any]:
    relation = input_of(document)
    while "read" not in relation:
        (relation,) = (body["input"] for body in relation.values())
    read: dict[str, Any] = relation["read"]
    return read


def test_every_plan_has_a_row() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(FOUND)


@pytest.mark.parametrize("name", FOUND)
def test_strict_mode_refuses_what_lenient_mode_reports(name: str) -> None:
    code, level = FOUND[name]
    assert levels(plan(name), "strict")[code] == "error"
    lenient = levels(plan(name), "lenient")
    assert lenient[code] == level
    assert "error" not in lenient.values()


@pytest.mark.parametrize("nullability", [None, 0, "NULLABILITY_UNSPECIFIED", 7])
def test_the_struct_of_a_schema_says_that_it_is_required(nullability: object) -> None:
    document = plan("unknown_nullability_of_schema")
    struct = read_of(document)["baseSchema"]["struct"]
    struct["nullability"] = nullability
    assert levels(document, "strict") == {"NULLABILITY_MISSING": "error"}
    struct["nullability"] = "NULLABILITY_REQUIRED"
    assert levels(document, "strict") == {}


@pytest.mark.parametrize("side", ["preceding", "following"])
def test_a_bound_without_a_distance_is_at_distance_zero(side: str) -> None:
    document = plan("preceding_zero")
    call = input_of(document)["project"]["expressions"][0]["windowFunction"]
    call["lowerBound"], call["upperBound"] = {"currentRow": {}}, {"following": {"offset": 1}}
    assert levels(document, "strict") == {}
    call["lowerBound" if side == "preceding" else "upperBound"] = {side: {}}
    assert levels(document, "strict") == {"WINDOW_DISTANCE_ZERO": "error"}


@pytest.mark.parametrize(
    ("column", "promoted"),
    [(0, True), (1, False), (2, True)],
)
def test_a_text_has_exactly_the_type_of_the_signature(column: int, promoted: bool) -> None:
    """The columns are a string, a varchar and a fixedchar; the signature takes a varchar."""
    document = plan("string_for_varchar_signature")
    call = input_of(document)["project"]["expressions"][0]["scalarFunction"]
    call["arguments"][0]["value"]["selection"]["directReference"]["structField"]["field"] = column
    assert ("ARGUMENTS_PROMOTED" in levels(document, "strict")) == promoted


def test_a_measure_of_another_text_is_reported() -> None:
    document = plan("string_for_varchar_signature")
    urn = "extension:io.substrait:functions_string"
    document["extensionUrns"] = [{"extensionUrnAnchor": 5, "urn": urn}]
    document["extensions"][0]["extensionFunction"]["name"] = "string_agg:str_str"
    column = {"selection": {"directReference": {"structField": {"field": 1}}, "rootReference": {}}}
    comma = {"literal": {"string": ","}}
    measure = {
        "functionReference": 1,
        "arguments": [{"value": column}, {"value": comma}],
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        "invocation": "AGGREGATION_INVOCATION_ALL",
        "outputType": {"string": {"nullability": "NULLABILITY_NULLABLE"}},
        "sorts": [{"expr": column, "direction": "SORT_DIRECTION_ASC_NULLS_FIRST"}],
    }
    aggregate = {"input": {"read": read_of(document)}, "measures": [{"measure": measure}]}
    document["relations"][0]["root"]["input"] = {"aggregate": aggregate}
    assert levels(document, "strict") == {"ARGUMENTS_PROMOTED": "error"}
    assert levels(document, "lenient") == {"ARGUMENTS_PROMOTED": "info"}


def test_a_bare_name_derives_no_nullability() -> None:
    """Without a signature it is not known which declaration the plan follows."""
    document = plan("wider_nullability_of_scalar")
    document["extensions"][0]["extensionFunction"]["name"] = "add"
    assert "RESULT_TYPE_DIFFERS" not in levels(document, "lenient")


@pytest.mark.parametrize("name", ["Add:i64_i64", "add:I64_i64"])
def test_names_and_types_of_a_signature_are_lower_case(name: str) -> None:
    document = plan("upper_case_signature")
    document["extensions"][0]["extensionFunction"]["name"] = name
    assert levels(document, "strict") == {"SIGNATURE_UNKNOWN": "error"}


@pytest.mark.parametrize(
    ("minor", "codes"), [(53, set()), (54, {"FIELD_REMOVED"}), (106, {"FIELD_REMOVED"})]
)
def test_a_name_counts_as_removed_from_its_release_on(minor: int, codes: set[str]) -> None:
    document = plan("removed_enum_name")
    document["version"]["minorNumber"] = minor
    assert set(levels(document, "lenient")) == codes
    input_of(document)["join"]["type"] = "JOIN_TYPE_LEFT_SEMI"
    assert levels(document, "lenient") == {}


@pytest.mark.parametrize(
    ("declared", "code"),
    [
        ({"decimal": {"precision": 35, "scale": 1}}, "RESULT_TYPE_LOSSY"),
        ({"i32": {}}, "RESULT_TYPE_LOSSY"),
        ({"decimal": {"precision": 35, "scale": 3}}, "RESULT_TYPE_DIFFERS"),
        ({"fp64": {}}, "RESULT_TYPE_DIFFERS"),
    ],
)
def test_a_type_without_the_digits_of_the_value_is_a_warning(
    declared: dict[str, Any], code: str
) -> None:
    document = plan("lossy_declared_type")
    ((kind, body),) = declared.items()
    call = input_of(document)["project"]["expressions"][0]["scalarFunction"]
    call["outputType"] = {kind: {**body, "nullability": "NULLABILITY_NULLABLE"}}
    found = levels(document, "lenient")
    assert {"RESULT_TYPE_LOSSY", "RESULT_TYPE_DIFFERS"} & set(found) == {code}
