"""Expressions on Spark: exact powers and factorials, unsigned integers, hyperbolic functions, patterns, lists, intervals."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from substrait_agg.bind.bound import Call, Column
from substrait_agg.plan.types import Type, decimal
from tests.spark.evaluating import (
    DAYS,
    FP64,
    I8,
    I32,
    I64,
    MONTHS,
    STRING,
    call,
    constants,
    over_rows,
)

pytestmark = pytest.mark.spark

U8, U64 = Type("u8"), Type("u64")
MAX64, MAXU64 = 2**63 - 1, 2**64 - 1
TEXTS = Type("list", children=(Type("string"),))
NUMBERS = Type("list", children=(I32,))


def check(spark: SparkSession, cases: list[tuple[Call, Any]]) -> None:
    found = constants(spark, *(c for c, _ in cases))
    for (expr, wanted), value in zip(cases, found, strict=True):
        assert value == wanted, (expr, value)


def fails(spark: SparkSession, expr: Call, match: str) -> None:
    with pytest.raises(Exception, match=match):
        constants(spark, expr)


def _power(base: int | None, exponent: int | None) -> Call:
    return call("power", I64, (I64, base), (I64, exponent), overflow="ERROR")


def test_powers_of_integers_are_exact_where_an_fp64_is_not(spark: SparkSession) -> None:
    check(
        spark,
        [
            (_power(3, 39), 3**39),
            (_power(-2, 63), -(2**63)),
            (_power(0, 0), 1),
            (_power(0, 10**12), 0),
            (_power(-1, 10**12 + 1), -1),
            (_power(-1, -2), 1),
            (_power(None, 2), None),
            (_power(2, None), None),
        ],
    )


def test_powers_that_no_i64_holds_fail(spark: SparkSession) -> None:
    fails(spark, _power(2, 63), "(?i)overflow")
    fails(spark, _power(-2, 64), "(?i)overflow")
    fails(spark, _power(10, 10**15), "(?i)overflow")
    fails(spark, _power(2, -1), "DOMAIN_ERROR")


def test_factorials(spark: SparkSession) -> None:
    wide = decimal(38, 0)
    check(
        spark,
        [
            (call("factorial", I64, (I64, 20)), math.factorial(20)),
            (call("factorial", wide, (decimal(2, 0), 33)), Decimal(math.factorial(33))),
            (call("factorial", I32, (I32, None)), None),
        ],
    )
    fails(spark, call("factorial", I64, (I64, 21)), "OVERFLOW")
    fails(spark, call("factorial", I32, (I32, 13)), "(?i)overflow")
    fails(spark, call("factorial", I64, (I64, -1)), "DOMAIN_ERROR")


def test_bits_of_decimals_are_those_of_twos_complement(spark: SparkSession) -> None:
    """Checked against Python's integers, which have as many bits as it takes."""
    most, wide = 10**38 - 1, decimal(38, 0)
    numbers = [0, -1, -(2**63), 2**64, 12345678901234567890123, most, -most]
    operations = {"bitwise_and": int.__and__, "bitwise_or": int.__or__, "bitwise_xor": int.__xor__}
    compared = 0
    for name, operate in operations.items():
        wanted = {
            (x, y): operate(x, y) for x in numbers for y in numbers if abs(operate(x, y)) <= most
        }
        expr = Call(wide, name, (Column(wide, 0), Column(wide, 1)))
        found = over_rows(spark, [expr], (wide, wide), list(wanted))
        assert [value for (value,) in found] == [Decimal(v) for v in wanted.values()]
        compared += len(found)
    assert compared > 120
    check(spark, [(call("bitwise_or", wide, (wide, -1), (wide, 2**64)), Decimal(-1))])
    fails(
        spark, call("bitwise_and", wide, (wide, -most), (wide, -(2**126))), "cannot be represented"
    )


def _unsigned(name: str, kind: Type, x: int | None, y: int | None, **options: str) -> Call:
    return call(name, kind, (kind, x), (kind, y), enums=(), **options)


def test_unsigned_integers_at_the_ends_of_their_range(spark: SparkSession) -> None:
    check(
        spark,
        [
            (_unsigned("add", U64, MAXU64 - 1, 1), Decimal(MAXU64)),
            (_unsigned("add", U8, 200, 100, overflow="SATURATE"), 255),
            (_unsigned("add", U8, 200, 100, overflow="SILENT"), 44),
            (_unsigned("subtract", U8, 0, 1, overflow="SATURATE"), 0),
            (_unsigned("subtract", U8, 0, 1, overflow="SILENT"), 255),
            (_unsigned("multiply", U64, MAXU64, MAXU64, overflow="SATURATE"), Decimal(MAXU64)),
            (_unsigned("divide", U64, MAXU64, 2), Decimal(MAX64)),
            (_unsigned("divide", U64, MAXU64, 1), Decimal(MAXU64)),
            (_unsigned("divide", U8, 5, 0, on_division_by_zero="NULL"), None),
            (_unsigned("multiply", U8, None, 3, overflow="SATURATE"), None),
        ],
    )
    fails(spark, _unsigned("add", U8, 200, 100), "VALUE_OUT_OF_RANGE")
    fails(spark, _unsigned("subtract", U64, 0, 1), "VALUE_OUT_OF_RANGE")
    fails(spark, _unsigned("multiply", U64, MAXU64, MAXU64), "VALUE_OUT_OF_RANGE")
    fails(spark, _unsigned("divide", U8, 5, 0), "(?i)zero")


def test_the_one_quotient_of_integers_that_overflows(spark: SparkSession) -> None:
    least = -(2**63)
    check(
        spark,
        [
            (call("divide", I64, (I64, least), (I64, -1), overflow="SATURATE"), MAX64),
            (call("divide", I64, (I64, least), (I64, -1), overflow="SILENT"), least),
            (call("divide", I8, (I8, -7), (I8, 2), overflow="SATURATE"), -3),
        ],
    )


HYPERBOLIC = [
    ("asinh", 1e-10, math.asinh(1e-10)), ("asinh", -1e300, -math.asinh(1e300)), ("asinh", -0.0, -0.0),
    ("asinh", math.inf, math.inf), ("asinh", -math.inf, -math.inf),
    ("acosh", 1.0, 0.0), ("acosh", 1.0 + 1e-9, math.acosh(1.0 + 1e-9)), ("acosh", 1e300, math.acosh(1e300)),
    ("atanh", 1e-12, math.atanh(1e-12)), ("atanh", -0.9, math.atanh(-0.9)), ("atanh", 1.0, math.inf),
    ("atanh", -1.0, -math.inf),
]  # fmt: skip


def test_inverse_hyperbolic_functions_are_precise_near_zero_and_far_from_it(
    spark: SparkSession,
) -> None:
    found = constants(spark, *(call(name, FP64, (FP64, x)) for name, x, _ in HYPERBOLIC))
    for (name, x, wanted), value in zip(HYPERBOLIC, found, strict=True):
        assert math.isclose(value, wanted, rel_tol=1e-15), (name, x, value)
        assert math.copysign(1.0, value) == math.copysign(1.0, wanted), (name, x)


@pytest.mark.parametrize(
    ("name", "x"), [("asin", 1.5), ("acos", -2.0), ("acosh", 0.5), ("atanh", 2.0), ("sqrt", -1.0)]
)
def test_outside_of_the_domain_the_option_decides(spark: SparkSession, name: str, x: float) -> None:
    nothing, not_a_number, default = constants(
        spark,
        call(name, FP64, (FP64, None), on_domain_error="ERROR"),
        call(name, FP64, (FP64, math.nan), on_domain_error="ERROR"),
        call(name, FP64, (FP64, x)),
    )
    assert nothing is None
    assert math.isnan(not_a_number)
    assert math.isnan(default)
    fails(spark, call(name, FP64, (FP64, x), on_domain_error="ERROR"), "DOMAIN_ERROR")


def test_a_logarithm_may_fail_instead_of_giving_what_is_no_number(spark: SparkSession) -> None:
    fails(spark, call("ln", FP64, (FP64, 0.0), on_log_zero="ERROR"), "DOMAIN_ERROR")
    fails(spark, call("log2", FP64, (FP64, -1.0), on_domain_error="ERROR"), "DOMAIN_ERROR")


def _text(name: str, type_: Type, *texts: str | None, **options: str) -> Call:
    return call(name, type_, *((STRING, t) for t in texts), enums=(), **options)


def test_patterns(spark: SparkSession) -> None:
    check(
        spark,
        [
            (_text("regexp_match_substring", STRING, "a\u00e9b c", r"\w+"), "a\u00e9b"),
            (_text("regexp_match_substring", STRING, "abc", "x"), ""),
            (_text("regexp_match_substring", STRING, "abc", None), None),
            (
                _text("regexp_match_substring", STRING, "\u00c4b", "\u00e4", case_sensitivity="CASE_INSENSITIVE"),
                "\u00c4",
            ),
            (_text("regexp_count_substring", I64, "a\nb", "^.", multiline="MULTILINE_ENABLED"), 2),
            (_text("regexp_count_substring", I64, "a\nb", "a.b"), 0),
            (_text("regexp_count_substring", I64, "a\nb", "a.b", dotall="DOTALL_ENABLED"), 1),
            (_text("regexp_string_split", TEXTS, "a1b22", r"\d+"), ["a", "b", ""]),
        ],
    )  # fmt: skip


def test_text_is_split_at_separators_that_are_no_patterns(spark: SparkSession) -> None:
    check(
        spark,
        [
            (_text("string_split", TEXTS, "a.b.", "."), ["a", "b", ""]),
            (_text("string_split", TEXTS, r"a\Eb", r"\E"), ["a", "b"]),
            (_text("string_split", TEXTS, "a[-^b", "[-^"), ["a", "b"]),
            (_text("string_split", TEXTS, "ab", ""), ["ab"]),
            (_text("string_split", TEXTS, "ab", None), ["ab"]),
            (_text("string_split", TEXTS, None, "a"), None),
            (_text("concat_ws", STRING, "-", None, "a", None, "b"), "a-b"),
            (_text("concat_ws", STRING, None, "a"), None),
        ],
    )


def test_lists_are_sorted_with_nulls_where_they_are_wanted(spark: SparkSession) -> None:
    values = (NUMBERS, (2, None, 3))
    check(
        spark,
        [
            (call("sort", NUMBERS, values, direction="ASC_NULLS_FIRST"), [None, 2, 3]),
            (call("sort", NUMBERS, values, direction="ASC_NULLS_LAST"), [2, 3, None]),
            (call("sort", NUMBERS, values, direction="DESC_NULLS_FIRST"), [None, 3, 2]),
            (call("sort", NUMBERS, values, direction="DESC_NULLS_LAST"), [3, 2, None]),
            (call("cardinality", I64, values), 3),
            (call("cardinality", I64, (NUMBERS, None)), None),
        ],
    )


def test_intervals_are_added(spark: SparkSession) -> None:
    check(
        spark,
        [
            (call("add_intervals", MONTHS, (MONTHS, 5), (MONTHS, -17)), -12),
            (call("add_intervals", DAYS, (DAYS, (1, 1)), (DAYS, (2, 5))), dt.timedelta(3, 0, 6)),
        ],
    )


LEAST64 = -(2**63)


def test_positions_and_counts_at_the_ends_of_64_bits(spark: SparkSession) -> None:
    """Producers write the greatest integer for "all the rest"; nothing overflows on the way."""
    hello = (STRING, "hello")
    check(
        spark,
        [
            (call("substring", STRING, hello, (I64, 2), (I64, MAX64)), "ello"),
            (call("substring", STRING, hello, (I64, -2), (I64, MAX64)), "hello"),
            (call("substring", STRING, hello, (I64, MAX64), (I64, 1)), ""),
            (call("substring", STRING, hello, (I64, LEAST64), (I64, MAX64)), ""),
            (call("substring", STRING, hello, (I64, 2), (I64, LEAST64)), ""),
            (call("left", STRING, hello, (I64, LEAST64)), ""),
            (call("right", STRING, hello, (I64, LEAST64)), ""),
            (call("right", STRING, hello, (I64, MAX64)), "hello"),
            (call("round", I64, (I64, 5), (I32, -(2**31))), 0),
            (call("round", FP64, (FP64, 5e-324), (I32, 2**31 - 1)), 5e-324),
            (call("round", FP64, (FP64, 1e308), (I32, -(2**31))), 0.0),
        ],
    )
