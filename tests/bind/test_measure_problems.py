"""Each mistake in a measure is reported once, with one code, at the innermost wrong field."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bind.message_plans import (
    AGGREGATE,
    MEASURE,
    Json,
    by,
    col,
    found,
    lit,
    measure,
    plan,
    problems,
    total,
    type_,
    value,
)

DECLARED = "extensions[0].extension_function"
ARITHMETIC, GENERIC = "functions_arithmetic", "functions_aggregate_generic"
SUM, COUNT = f"{ARITHMETIC}/sum:i64", f"{GENERIC}/count:any"
STD_DEV = f"{ARITHMETIC}/std_dev:req_fp64"
STRING_AGG = "functions_string/string_agg:str_str"
QUANTILE = f"{ARITHMETIC}/quantile:req_req_i64_any"

I64, FP64, STRING = type_("i64"), type_("fp64"), type_("string")
S, B, L, X = (value(col(name)) for name in "sblx")
COMMA = value(lit("string", ","))
SAMPLE = {"enum": "SAMPLE"}


def counted(**changes: Any) -> tuple[str, Json]:
    return measure(COUNT, L, output=type_("i64", nullable=False), **changes)


def joined(*arguments: Json, **changes: Any) -> tuple[str, Json]:
    sorts = {"sorts": [by(col("s"))], **changes}
    return measure(STRING_AGG, *(arguments or (S, COMMA)), output=STRING, **sorts)


MISTAKES: list[tuple[str, tuple[str, Json], str, str]] = [
    # --- functions and signatures
    ("name", measure(f"{ARITHMETIC}/frobnicate:i64", L, output=I64), "AGGREGATE_FUNCTION_UNKNOWN", MEASURE),
    ("scalar", measure(f"{ARITHMETIC}/abs:i64", L, output=I64), "FUNCTION_NOT_AGGREGATE", MEASURE),
    ("window", measure(f"{ARITHMETIC}/rank:", output=I64), "FUNCTION_NOT_AGGREGATE", MEASURE),
    ("extension", measure("functions_boolean/sum:i64", L, output=I64), "FUNCTION_URN_DIFFERS", DECLARED),
    ("signature", measure(f"{ARITHMETIC}/sum:foo", L, output=I64), "SIGNATURE_UNKNOWN", DECLARED),
    ("signature of another extension", measure(f"{ARITHMETIC}/sum:dec", value(col("m")),
     output={"decimal": {"precision": 38, "scale": 2, "nullability": "NULLABILITY_NULLABLE"}}),
     "SIGNATURE_UNKNOWN", DECLARED),
    ("long type names", measure(f"{ARITHMETIC}/sum:int64", L, output=I64), "SIGNATURE_UNKNOWN", DECLARED),
    ("not of the standard", measure(f"{ARITHMETIC}/bit_and:i64", L, output=I64), "SIGNATURE_UNKNOWN", DECLARED),
    ("signature of another type", measure(f"{ARITHMETIC}/sum:i32", L, output=I64),
     "SIGNATURE_DIFFERS", f"{MEASURE}.arguments[0].value"),
    ("argument of another type", measure(SUM, X, output=I64),
     "FUNCTION_ARGUMENTS", f"{MEASURE}.arguments[0].value"),
    ("argument of another integer", measure(SUM, value(col("i")), output=I64),
     "SIGNATURE_DIFFERS", f"{MEASURE}.arguments[0].value"),
    ("one argument more than declared", measure(COUNT, L, X, output=type_("i64", nullable=False)),
     "SIGNATURE_DIFFERS", f"{MEASURE}.arguments"),
    ("enumeration left out", measure(STD_DEV, X, output=FP64), "SIGNATURE_DIFFERS", f"{MEASURE}.arguments"),
    ("deprecated", measure(f"{ARITHMETIC}/std_dev:fp64", X, output=FP64), "FUNCTION_DEPRECATED", DECLARED),
    # --- arguments
    ("too few", measure(SUM, output=I64), "ARGUMENT_COUNT", f"{MEASURE}.arguments"),
    ("too many", measure(SUM, L, L, output=I64), "ARGUMENT_COUNT", f"{MEASURE}.arguments"),
    ("type", measure(SUM, S, output=I64), "FUNCTION_ARGUMENTS", f"{MEASURE}.arguments[0].value"),
    ("type of the second", measure(f"{ARITHMETIC}/corr:fp64_fp64", X, S, output=FP64),
     "FUNCTION_ARGUMENTS", f"{MEASURE}.arguments[1].value"),
    ("literal of a wrong type", measure(SUM, value(lit("string", "a")), output=I64),
     "FUNCTION_ARGUMENTS", f"{MEASURE}.arguments[0].value"),
    ("type for a value", measure(SUM, {"type": I64}, output=I64),
     "FUNCTION_ARGUMENTS", f"{MEASURE}.arguments[0].type"),
    ("word for a value", measure(SUM, SAMPLE, output=I64), "FUNCTION_ARGUMENTS", f"{MEASURE}.arguments[0].enum"),
    ("word", measure(STD_DEV, {"enum": "WHOLE"}, X, output=FP64),
     "ENUM_ARGUMENT_INVALID", f"{MEASURE}.arguments[0].enum"),
    ("column for a constant", joined(S, S), "CONSTANT_ARGUMENT_INVALID", f"{MEASURE}.arguments[1].value"),
    ("null for a constant", joined(S, value(lit("null", STRING))),
     "CONSTANT_ARGUMENT_INVALID", f"{MEASURE}.arguments[1].value"),
    ("column out of range", measure(SUM, value({"selection": {"directReference": {"structField": {"field": 99}},
     "rootReference": {}}}), output=I64), "FIELD_OUT_OF_RANGE", f"{MEASURE}.arguments[0].value"),
    # --- output type
    ("none", measure(SUM, L), "OUTPUT_TYPE_MISSING", f"{MEASURE}.output_type"),
    ("another", measure(SUM, L, output=type_("i32")), "OUTPUT_TYPE_DIFFERS", f"{MEASURE}.output_type"),
    ("impossible", measure(SUM, L, output=STRING), "OUTPUT_TYPE_NOT_SUPPORTED", f"{MEASURE}.output_type"),
    ("required", measure(SUM, L, output=type_("i64", nullable=False)), "OUTPUT_NULLABILITY", f"{MEASURE}.output_type"),
    ("nullable", measure(COUNT, L, output=I64), "OUTPUT_TYPE_DIFFERS", f"{MEASURE}.output_type"),
    ("parameters", measure(SUM, L, output={"decimal": {"precision": 99, "nullability": "NULLABILITY_NULLABLE"}}),
     "VALUE_INVALID", f"{MEASURE}.output_type.decimal"),
    # --- options
    ("unknown option", total(options=[{"name": "speed", "preference": ["HIGH"]}]),
     "OPTION_UNKNOWN", f"{MEASURE}.options[0].name"),
    ("unsupported value", total(options=[{"name": "overflow", "preference": ["WRAP", "TRAP"]}]),
     "OPTION_VALUE_NOT_SUPPORTED", f"{MEASURE}.options[0].preference"),
    ("no preference", total(options=[{"name": "overflow"}]), "OPTION_NO_PREFERENCE", f"{MEASURE}.options[0].preference"),
    ("option that a word decides", measure(STD_DEV, SAMPLE, X, output=FP64,
     options=[{"name": "distribution", "preference": ["SAMPLE"]}]), "OPTION_UNKNOWN", f"{MEASURE}.options[0].name"),
    # --- phase, invocation
    ("phase unset", total(phase=0), "PHASE_UNSPECIFIED", f"{MEASURE}.phase"),
    ("phase unknown", total(phase=9), "VALUE_INVALID", f"{MEASURE}.phase"),
    ("phase whose state is rounded", measure(f"{ARITHMETIC}/sum:fp64", X, output=FP64, phase=1),
     "PHASE_NOT_SUPPORTED", f"{MEASURE}.phase"),
    ("phase of states over values", measure(f"{ARITHMETIC}/avg:fp64", X, output=FP64, phase=4),
     "FUNCTION_ARGUMENTS", f"{MEASURE}.arguments[0].value"),
    ("phase of a function without", measure(STD_DEV, SAMPLE, X, output=FP64, phase=1),
     "PHASE_NOT_DECOMPOSABLE", f"{MEASURE}.phase"),
    ("invocation unknown", total(invocation=7), "VALUE_INVALID", f"{MEASURE}.invocation"),
    ("null where it does not fit", measure("functions_arithmetic_decimal/sum0:dec", value(col("m")),
     output={"decimal": {"precision": 38, "scale": 2, "nullability": "NULLABILITY_REQUIRED"}},
     options=[{"name": "overflow", "preference": ["SILENT"]}]), "NULL_BY_OPTION", f"{MEASURE}.output_type"),
    # --- DISTINCT
    ("distinct rows", measure(f"{GENERIC}/count:", output=type_("i64", nullable=False), invocation=2),
     "DISTINCT_NOT_SUPPORTED", f"{MEASURE}.invocation"),
    ("distinct without effect", measure(f"{ARITHMETIC}/min:i64", L, output=I64, invocation=2),
     "DISTINCT_NO_EFFECT", f"{MEASURE}.invocation"),
    ("distinct by another key", joined(invocation=2, sorts=[by(col("s")), by(col("l"))]),
     "DISTINCT_ORDER_OUTSIDE", f"{MEASURE}.sorts[1].expr"),
    # --- sorts
    ("no direction", joined(sorts=[by(col("s")), by(col("l"), direction=0)]),
     "ORDER_DIRECTION_NOT_SUPPORTED", f"{MEASURE}.sorts[1].direction"),
    ("unknown direction", joined(sorts=[by(col("s"), direction=8)]), "VALUE_INVALID", f"{MEASURE}.sorts[0].direction"),
    ("comparison", joined(sorts=[{"expr": col("s"), "comparisonFunctionReference": 1}]),
     "COMPARISON_FUNCTION_NOT_SUPPORTED", f"{MEASURE}.sorts[0].comparison_function_reference"),
    ("undeclared comparison", joined(sorts=[{"expr": col("s"), "comparisonFunctionReference": 5}]),
     "FUNCTION_UNDECLARED", f"{MEASURE}.sorts[0].comparison_function_reference"),
    ("no effect", total(sorts=[by(col("x"))]), "ORDER_BY_NO_EFFECT", f"{MEASURE}.sorts[0]"),
    ("missing", joined(sorts=[]), "ORDER_MISSING", MEASURE),
    ("out of range", joined(sorts=[by({"selection": {"directReference": {"structField": {"field": 77}},
     "rootReference": {}}})]), "FIELD_OUT_OF_RANGE", f"{MEASURE}.sorts[0].expr"),
    ("not by its argument", measure(QUANTILE, {"enum": "BOTH"}, {"enum": "EXACT"}, value(lit("i64", "4")), L,
     output={"list": {"nullability": "NULLABILITY_NULLABLE", "type": type_("i64", nullable=False)}}, sorts=[by(col("x"))]),
     "ORDER_NOT_BY_ARGUMENT", f"{MEASURE}.sorts[0].expr"),
    # --- FILTER
    ("not boolean", total(filter=col("l")), "MEASURE_FILTER_NOT_BOOLEAN", f"{AGGREGATE}.measures[0].filter"),
    ("literal that is not", total(filter=lit("i32", 1)), "MEASURE_FILTER_NOT_BOOLEAN", f"{AGGREGATE}.measures[0].filter"),
    ("true", total(filter=lit("boolean", True)), "MEASURE_FILTER_CONSTANT", f"{AGGREGATE}.measures[0].filter"),
    ("null", total(filter=lit("null", type_("bool"))), "MEASURE_FILTER_CONSTANT", f"{AGGREGATE}.measures[0].filter"),
    ("null of another type", total(filter={"cast": {"input": lit("null", I64), "type": type_("bool"), "failureBehavior": 2}}),
     "MEASURE_FILTER_CONSTANT", f"{AGGREGATE}.measures[0].filter"),
]  # fmt: skip
"""What is wrong, the measure, the code, the path."""


@pytest.mark.parametrize(
    ("given", "code", "path"), [c[1:] for c in MISTAKES], ids=[f"{c[2]}: {c[0]}" for c in MISTAKES]
)
def test_a_mistake_is_one_problem_at_its_place(
    given: tuple[str, Json], code: str, path: str
) -> None:
    assert found(plan(given)) == [(code, path)]


CLEAN: list[tuple[str, Json]] = [
    total(),
    counted(),
    measure(f"{GENERIC}/count:", output=type_("i64", nullable=False)),
    measure(STD_DEV, {"enum": "sample"}, X, output=FP64),
    total(options=[{"name": "Overflow", "preference": ["WRAP", "silent"]}]),
    total(invocation=2),
    total(filter=col("b")),
    joined(),
    joined(invocation=2),
    measure(f"{GENERIC}/any_value:any1", L, output=I64),
    measure(f"{GENERIC}/any_value:any", S, output=STRING),
]


@pytest.mark.parametrize("given", CLEAN, ids=[c[0] for c in CLEAN])
def test_what_is_right_is_free_of_problems_in_strict_mode_too(given: tuple[str, Json]) -> None:
    """Words, options and their values match in any case, and the first supported preference is
    used.
    """
    assert found(plan(given), "strict") == []


def test_all_mistakes_of_a_measure_are_reported_at_once() -> None:
    given = measure(
        STD_DEV, {"enum": "WHOLE"}, S, output=STRING, phase=1, filter=col("l"),
        sorts=[by(col("x"), direction=0)], options=[{"name": "rounding"}],
    )  # fmt: skip
    assert {code for code, _ in found(plan(given))} == {
        "ENUM_ARGUMENT_INVALID", "FUNCTION_ARGUMENTS", "PHASE_NOT_DECOMPOSABLE",
        "MEASURE_FILTER_NOT_BOOLEAN", "ORDER_DIRECTION_NOT_SUPPORTED", "OPTION_NO_PREFERENCE",
    }  # fmt: skip


def test_the_output_type_is_judged_whatever_else_is_wrong() -> None:
    given = measure(SUM, L, output=STRING, options=[{"name": "speed", "preference": ["HIGH"]}])
    assert {code for code, _ in found(plan(given))} == {
        "OPTION_UNKNOWN",
        "OUTPUT_TYPE_NOT_SUPPORTED",
    }


@pytest.mark.parametrize(
    ("declared", "codes"),
    [
        (type_("fp64", nullable=False), ["OUTPUT_NULLABILITY", "OUTPUT_TYPE_DIFFERS"]),
        (type_("i64", nullable=False), ["OUTPUT_NULLABILITY"]),
        (FP64, ["OUTPUT_TYPE_DIFFERS"]),
    ],
)
def test_a_type_and_its_nullability_are_two_mistakes(declared: Json, codes: list[str]) -> None:
    """Who corrects the one must not find the other only then."""
    path = f"{MEASURE}.output_type"
    assert found(plan(measure(SUM, L, output=declared))) == [(code, path) for code in codes]


def test_nothing_is_said_of_a_function_that_is_not_known() -> None:
    """The extension of the function defines its arguments, order and options."""
    given = plan(measure(SUM, S, output=STRING, sorts=[by(col("x"))], invocation=2))
    given["extensionUrns"][0]["urn"] = "extension:acme:stats"
    assert [code for code, _ in found(given)] == ["FUNCTION_URN_UNKNOWN"]


def test_a_measure_without_a_function_is_that_and_nothing_else() -> None:
    given = plan(total())
    del given["relations"][0]["root"]["input"]["aggregate"]["measures"][0]["measure"]
    assert found(given) == [("FIELD_MISSING", f"{AGGREGATE}.measures[0]")]


def test_a_function_that_is_not_declared_is_named_in_what_else_is_wrong() -> None:
    given = plan(total(phase=0))
    given["extensions"] = []
    assert [(p.code, p.path) for p in problems(given)] == [
        ("FUNCTION_UNDECLARED", MEASURE),
        ("PHASE_UNSPECIFIED", f"{MEASURE}.phase"),
    ]
    assert all("anchor 1" in p.message for p in problems(given))


def test_equal_measures_are_said_to_be() -> None:
    """Measures with other names but the same computation are reported as equal; other arguments,
    filters, options or types make them differ.
    """
    silent = [{"name": "overflow", "preference": ["SILENT"]}]
    given = plan(
        total(), total("i"), total(filter=col("b")), total(options=silent), total(invocation=2),
        total(),
    )  # fmt: skip
    assert ("MEASURE_DUPLICATE", f"{AGGREGATE}.measures[5]") in found(given)
    (problem,) = [p for p in problems(given) if p.code == "MEASURE_DUPLICATE"]
    assert "measure 0 " in problem.message
    ones = measure(
        f"{GENERIC}/count:any", value(lit("i64", "1")), output=type_("i64", nullable=False)
    )
    rows = measure(f"{GENERIC}/count:", output=type_("i64", nullable=False))
    assert [code for code, _ in found(plan(rows, ones))] == ["MEASURE_DUPLICATE"]


def test_messages_name_what_is_there_and_what_is_wanted() -> None:
    (problem,) = problems(plan(measure(f"{ARITHMETIC}/sum:foo", L, output=I64)))
    assert problem.message == "functions_arithmetic does not declare sum:foo"
    assert "sum:i8, sum:i16, sum:i32" in problem.help
    (problem,) = problems(plan(measure(f"{ARITHMETIC}/std_dev:fp64", X, output=FP64)))
    assert "0.88.0" in problem.message
    assert "use implementation with distribution enum argument" in problem.help
    (problem,) = problems(plan(measure(SUM, X, output=I64)))
    assert problem.message == "sum does not take (fp64?)"
    assert problem.help == "sum takes (x: i64)"
    (problem,) = problems(plan(measure(STD_DEV, {"enum": "WHOLE"}, X, output=FP64)))
    assert "'WHOLE'" in problem.message
    assert "SAMPLE, POPULATION" in problem.help
    (problem,) = problems(plan(joined(sorts=[])))
    assert "the values are ordered" in problem.message
