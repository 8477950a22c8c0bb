"""Measures: functions, arguments, phases, options, output types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from substrait_agg.bind.bound import BoundAggregate, BoundMeasure
from substrait_agg.plan.model import FunctionName, MeasureCall
from substrait_agg.plan.types import (
    BINARY,
    BOOL,
    DATE,
    FP32,
    FP64,
    I8,
    I32,
    I64,
    STRING,
    Type,
    decimal,
)
from tests.bind.build import (
    MEASURE,
    aggregate,
    at,
    bound,
    call,
    codes_of,
    col,
    errors_of,
    lit,
    measure,
    name_of,
    option,
    problems_of,
    read,
)

U8, U16, U32, U64 = Type("u8"), Type("u16"), Type("u32"), Type("u64")


def bind_one(given: MeasureCall, producer: str = "") -> BoundMeasure:
    root = bound(aggregate(read(), (), (given,)), "m", producer=producer).root
    assert isinstance(root, BoundAggregate)
    return root.measures[0]


def errors(given: MeasureCall) -> list[tuple[str, str]]:
    return errors_of(aggregate(read(), (), (given,)), "m")


DERIVED = [
    ("sum", I8, "i64?", "i64?"),
    ("sum", I64, "i64?", "i64?"),
    ("sum", FP32, "fp64?", "fp64?"),
    ("sum", decimal(12, 2), "decimal?<38,2>", "decimal?<22,2>"),
    ("sum", decimal(35, 4), "decimal?<38,4>", "decimal?<38,4>"),
    ("sum0", I32, "i64", "i64"),
    ("sum0", decimal(12, 2), "decimal<38,2>", "decimal<22,2>"),
    ("avg", I32, "i32?", "fp64?"),
    ("avg", FP32, "fp32?", "fp64?"),
    ("avg", decimal(12, 2), "decimal?<38,2>", "decimal?<16,6>"),
    ("avg", decimal(38, 36), "decimal?<38,36>", "decimal?<38,38>"),
    ("count", STRING, "i64", "i64"),
    ("sum", U16, "u64?", "u64?"),
    ("sum0", U64, "u64", "u64"),
    ("avg", U32, "u32?", "fp64?"),
    ("min", DATE, "date?", "date?"),
    ("max", decimal(12, 2), "decimal?<12,2>", "decimal?<12,2>"),
    ("product", I32, "i32?", "i32?"),
    ("product", I32.as_nullable(False), "i32", "i32"),
    ("variance", FP32, "fp32?", "fp64?"),
    ("std_dev", I64, "fp64?", "fp64?"),
    ("median", I32, "i32?", "i32?"),
    ("mode", STRING, "string?", "string?"),
    ("bool_or", BOOL, "bool?", "bool?"),
    ("bit_xor", U8, "u8?", "u8?"),
    ("any_value", BINARY, "binary?", "binary?"),
    ("array_agg", I64, "list?<i64?>", "list?<i64?>"),
    ("list_agg", I64, "list<i64>", "list<i64>"),
    ("string_agg", STRING, "string?", "string?"),
    ("string_agg", STRING.as_nullable(False), "string?", "string?"),
    ("approx_distinct", STRING, "i64", "u64"),
    ("count_distinct", STRING, "i64", "i64"),
    ("first_value", I64.as_nullable(False), "i64?", "i64?"),
    ("list_union_distinct_agg", Type("list", children=(I64,)), "list<i64?>", "list<i64?>"),
    ("surrogate_key_int64", None, "i64", "i64"),
]


@pytest.mark.parametrize(("name", "argument", "standard", "arrow"), DERIVED)
def test_missing_output_types_are_derived_as_the_producer_would(
    name: str, argument: Type | None, standard: str, arrow: str
) -> None:
    for producer, expected in (("", standard), ("datafusion", arrow)):
        source = read({"v": argument or I64})
        given = measure(name, *([] if argument is None else [at(0)]))
        made = bound(aggregate(source, (), (given,)), "m", producer=producer)
        assert str(made.root.types[0]) == expected


def test_a_missing_output_type_is_a_warning_and_in_strict_mode_an_error() -> None:
    root = aggregate(read(), (), (measure("sum", col("big")),))
    assert codes_of(root, "m")["OUTPUT_TYPE_MISSING"] == "warning"
    assert codes_of(root, "m", mode="strict")["OUTPUT_TYPE_MISSING"] == "error"


def test_counts_under_the_decimal_extension_are_decimals() -> None:
    urn = "functions_aggregate_decimal_output"
    made = bind_one(measure("count", function=name_of("count", "", urn)))
    assert made.type == decimal(38, 0, nullable=False)


@pytest.mark.parametrize(
    ("name", "column", "output"),
    [
        ("sum", "big", I32),
        ("sum", "big", FP64),
        ("sum", "big", decimal(20, 3)),
        ("avg", "small", FP64),
        ("sum", "money", decimal(15, 2)),
        ("avg", "money", FP64),
        ("sum", "x", FP32),
        ("count", "name", decimal(5, 0)),
        ("min", "small", I64),
        ("median", "small", FP64),
        ("variance", "big", FP32),
        ("product", "small", I64),
        ("approx_count_distinct", "name", U64),
    ],
)
def test_declared_output_types_hold(name: str, column: str, output: Type) -> None:
    assert bind_one(measure(name, col(column), output=output)).type == output


@pytest.mark.parametrize(
    ("name", "column", "output"),
    [("sum", "big", STRING), ("sum", "x", I64), ("avg", "x", decimal(10, 2)), ("count", "x", DATE),
     ("sum", "money", decimal(50, 2)), ("min", "name", I64), ("variance", "big", I64),
     ("product", "big", decimal(38, 0)), ("bool_and", "flag", I64), ("max", "day", STRING),
     ("array_agg", "big", Type("list", children=(STRING,)))],
)  # fmt: skip
def test_output_types_without_a_conversion_are_refused(
    name: str, column: str, output: Type
) -> None:
    given = measure(name, col(column), output=output)
    assert errors(given) == [("OUTPUT_TYPE_NOT_SUPPORTED", f"{MEASURE}.output_type")]


def test_a_sum_that_claims_never_to_be_null_is_nullable_all_the_same() -> None:
    """Trusting the claim would put null in a column without nulls: the sum of no rows is null."""
    given = measure("sum", col("big"), output=I64.as_nullable(False))
    assert bind_one(given).type == I64
    assert codes_of(aggregate(read(), (), (given,)), "m")["OUTPUT_NULLABILITY"] == "warning"


@pytest.mark.parametrize("argument", [lit(1, I64), lit("x", STRING)])
def test_counting_a_constant_is_counting_rows(argument: Any) -> None:
    assert bind_one(measure("count", argument)).argument is None


def test_counting_null_is_not_counting_rows() -> None:
    assert bind_one(measure("count", lit(None, I64))).argument is not None


@pytest.mark.parametrize(
    ("given", "code", "suffix"),
    [
        (measure("regr_slope", col("x"), col("x")), "AGGREGATE_FUNCTION_NOT_SUPPORTED", ""),
        (measure("frobnicate", col("x")), "AGGREGATE_FUNCTION_UNKNOWN", ""),
        (measure("abs", col("x")), "FUNCTION_NOT_AGGREGATE", ""),
        (measure("row_number"), "FUNCTION_NOT_AGGREGATE", ""),
        (measure("mode", col("x"), invocation="distinct"), "DISTINCT_NOT_SUPPORTED", ".invocation"),
        (measure("sum", col("x"), phase="initial_to_intermediate"), "PHASE_NOT_SUPPORTED", ".phase"),
        (measure("bit_or", col("big"), phase="intermediate_to_result"), "PHASE_NOT_SUPPORTED", ".phase"),
        (measure("sum"), "ARGUMENT_COUNT", ".arguments"),
        (measure("avg", col("x"), col("x")), "ARGUMENT_COUNT", ".arguments"),
        (measure("sum", col("x"), options=(option("rounding", "FLOOR"),)), "OPTION_UNKNOWN", ".options[0].name"),
        (measure("sum", col("x"), options=(option("overflow", "WRAP"),)), "OPTION_VALUE_NOT_SUPPORTED", ".options[0].preference"),
        (measure("sum", col("x"), options=(option("overflow"),)), "OPTION_NO_PREFERENCE", ".options[0].preference"),
    ],
)  # fmt: skip
def test_what_is_not_honoured_is_refused(given: MeasureCall, code: str, suffix: str) -> None:
    assert errors(given) == [(code, MEASURE + suffix)]


def test_all_that_is_wrong_with_a_measure_is_reported_at_once() -> None:
    given = measure(
        "mode", at(99), col("name"), phase="intermediate_to_result", invocation="distinct",
        filter=col("x"), options=(option("colour", "RED"),),
    )  # fmt: skip
    assert {code for code, _ in errors(given)} == {
        "PHASE_NOT_DECOMPOSABLE", "DISTINCT_NOT_SUPPORTED", "FIELD_OUT_OF_RANGE",
        "MEASURE_FILTER_NOT_BOOLEAN", "OPTION_UNKNOWN",
    }  # fmt: skip


def test_one_mistake_is_reported_once() -> None:
    """A reference out of range makes the filter, the argument and the type unknown, without further problems."""
    given = measure("sum", call("add", col("big"), replace(col("big"), steps=(99,)), output=I64))
    assert [code for code, _ in errors(given)] == ["FIELD_OUT_OF_RANGE"]


def test_the_first_supported_preference_wins() -> None:
    given = measure("sum", col("big"), options=(option("Overflow", "WRAP", "silent", "ERROR"),))
    assert bind_one(given).overflow == "SILENT"
    assert bind_one(measure("sum", col("big"))).overflow == "ERROR"


def test_an_unset_phase_means_the_complete_aggregate_in_lenient_mode_only() -> None:
    root = aggregate(read(), (), (measure("sum", col("big"), phase="unspecified", output=I64),))
    assert codes_of(root, "m")["PHASE_UNSPECIFIED"] == "warning"
    assert codes_of(root, "m", mode="strict")["PHASE_UNSPECIFIED"] == "error"


@pytest.mark.parametrize(
    ("function", "code", "level"),
    [
        (FunctionName("sum", "i64", "functions_arithmetic", "sum:i64"), None, None),
        (FunctionName("sum", "i64", "acme:stats", "sum:i64"), "FUNCTION_URN_UNKNOWN", "error"),
        (FunctionName("sum", "i64", "functions_string", "sum:i64"), "FUNCTION_URN_DIFFERS", "warning"),
        (FunctionName("sum", "i32", "functions_arithmetic", "sum:i32"), "SIGNATURE_DIFFERS", "warning"),
        (FunctionName("sum", None, None, "sum"), "FUNCTION_NAME_BARE", "warning"),
        (FunctionName("", None, None, "anchor 7", known=False), "FUNCTION_UNDECLARED", "error"),
    ],
)  # fmt: skip
def test_declarations_of_functions(
    function: FunctionName, code: str | None, level: str | None
) -> None:
    given = measure("sum", col("big"), function=function, output=I64)
    found = codes_of(aggregate(read(), (), (given,)), "m")
    assert found == ({code: level} if code else {})


def test_a_bare_name_is_reported_once_however_often_it_is_used() -> None:
    given = (measure("sum", col("big"), output=I64), measure("sum", col("must"), output=I64))
    found = problems_of(aggregate(read(), (), given), "a", "b")
    assert [p.code for p in found] == ["FUNCTION_NAME_BARE"]
