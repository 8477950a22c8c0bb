"""Expressions on Spark: literals, logic, casts, integers, floats, strings and time."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from substrait_agg.bind.bound import (
    Call,
    Column,
    Conditional,
    Constant,
    Conversion,
    Expr,
    InList,
    NestedPart,
)
from substrait_agg.errors import UsageError
from substrait_agg.plan.types import Type, decimal
from substrait_agg.spark.expressions import to_column
from tests.spark.evaluating import (
    BINARY,
    BOOL,
    DATE,
    DAYS,
    FP32,
    FP64,
    I8,
    I16,
    I32,
    I64,
    MONTHS,
    STRING,
    TS,
    TSTZ,
    call,
    check,
    column_calls,
    fails,
    over_rows,
    same,
)  # fmt: skip

pytestmark = pytest.mark.spark

UTC = dt.UTC
MIN64, MAX64 = -(2**63), 2**63 - 1


LITERALS = [
    (BOOL, True, True),
    (I8, -128, -128),
    (I64, MIN64, MIN64),
    (Type("u64"), 2**64 - 1, Decimal(2**64 - 1)),
    (FP64, 0.1, 0.1),
    (FP64, -0.0, -0.0),
    (FP64, 5e-324, 5e-324),
    (FP64, math.inf, math.inf),
    (FP64, -math.inf, -math.inf),
    (FP64, math.nan, math.nan),
    (FP32, 1.5, 1.5),
    (STRING, "it's \\ \u00e4\U0001f600 %_", "it's \\ \u00e4\U0001f600 %_"),
    (Type("fixedchar", params=(3,)), "a  ", "a  "),
    (BINARY, b"\x00\xff", b"\x00\xff"),
    (BINARY, b"", b""),
    (Type("uuid"), bytes(range(16)), bytes(range(16))),
    (decimal(38, 0), 10**38 - 1, Decimal(10**38 - 1)),
    (decimal(38, 10), -1, Decimal("-1E-10")),
    (decimal(3, 2), 123, Decimal("1.23")),
    (DATE, -719162, dt.date(1, 1, 1)),
    (DATE, 2932896, dt.date(9999, 12, 31)),
    (TS, -62135596800000000, dt.datetime(1, 1, 1)),
    (TS, 253402300799999999, dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    (Type("precision_timestamp", params=(3,)), 1, dt.datetime(1970, 1, 1, 0, 0, 0, 1000)),
    (DAYS, (1, -1), dt.timedelta(days=1, microseconds=-1)),
    (DAYS, (-100000, 0), dt.timedelta(days=-100000)),
    (Type("precision_time", params=(6,)), 86399999999, dt.time(23, 59, 59, 999999)),
    (MONTHS, -13, -13),
    (Type("list", children=(I32,)), (1, None), [1, None]),
    (Type("list", children=(I32,)), (), []),
    (Type("map", children=(STRING, I32)), (("a", 1), ("b", None)), {"a": 1, "b": None}),
]


def test_literals_are_exact(spark: SparkSession) -> None:
    """No value passes through local time, a double, or a narrower type."""
    check(spark, [(Constant(t, v), w) for t, v, w in LITERALS])


def test_null_literals_have_their_type(spark: SparkSession) -> None:
    """A null keeps the type of the plan."""
    check(spark, [(Constant(t, None), None) for t, _, _ in LITERALS])


def test_instants_are_exact(spark: SparkSession) -> None:
    """Compared as microseconds: Python's driver would show them in local time."""
    expr = call("extract", I64, (TSTZ, -1), (STRING, "UTC"), enums=("UNIX_TIME",))
    equal = call(
        "equal", BOOL, (TSTZ, 1), Conversion(TSTZ, Constant(STRING, "1970-01-01 00:00:00.000001Z"))
    )
    check(spark, [(expr, -1), (equal, True)])


def test_types_that_no_column_can_have_are_refused() -> None:
    """Nanoseconds would be cut to microseconds."""
    with pytest.raises(UsageError) as raised:
        to_column(Constant(Type("precision_timestamp", params=(9,)), 1), ())
    assert raised.value.code == "TYPE_NOT_SUPPORTED"


def test_parts_of_nested_values(spark: SparkSession) -> None:
    """Fields, offsets and keys of nested values; a missing one is null."""
    struct = Constant(Type("struct", children=(I32, STRING)), (7, "x"))
    items = Constant(Type("list", children=(I32,)), (1, 2))
    table = Constant(Type("map", children=(STRING, I32)), (("a", 1),))
    check(
        spark,
        [
            (NestedPart(STRING, struct, 1), "x"),
            (NestedPart(I32, items, 1), 2),
            (NestedPart(I32, items, 2), None),
            (NestedPart(I32, table, Constant(STRING, "a")), 1),
            (NestedPart(I32, table, Constant(STRING, "b")), None),
        ],
    )


T, F_, N = (BOOL, True), (BOOL, False), (BOOL, None)

LOGIC = [
    ("and", (T, N), None), ("and", (F_, N), False), ("and", (T, T, F_), False), ("and", (T, T), True),
    ("or", (T, N), True), ("or", (F_, N), None), ("or", (F_, F_, T), True),
    ("not", (N,), None), ("not", (T,), False),
    ("xor", (T, F_), True), ("xor", (T, T), False), ("xor", (T, N), None),
    ("and_not", (T, F_), True), ("and_not", (N, T), False), ("and_not", (T, N), None),
    ("is_true", (N,), False), ("is_not_true", (N,), True), ("is_false", (N,), False),
    ("is_not_false", (N,), True), ("is_false", (F_,), True), ("is_unknown", (N,), True),
    ("is_not_unknown", (N,), False), ("is_null", (N,), True), ("is_not_null", (N,), False),
    ("equal", ((I32, 1), (I32, None)), None), ("not_equal", ((I32, 1), (I32, 2)), True),
    ("is_distinct_from", ((I32, None), (I32, None)), False),
    ("is_distinct_from", ((I32, 1), (I32, None)), True),
    ("is_not_distinct_from", ((I32, 1), (I32, 1)), True),
    ("between", ((I32, 2), (I32, 1), (I32, 2)), True), ("between", ((I32, 0), (I32, 1), (I32, None)), False),
    ("lt", ((FP64, 1.0), (FP64, math.nan)), True), ("equal", ((FP64, math.nan), (FP64, math.nan)), True),
    ("equal", ((FP64, 0.0), (FP64, -0.0)), True), ("gt", ((FP64, math.nan), (FP64, math.inf)), True),
    ("is_nan", ((FP64, math.nan),), True), ("is_nan", ((FP64, None),), None), ("is_nan", ((FP32, 1.0),), False),
    ("is_finite", ((FP64, math.nan),), False), ("is_finite", ((FP64, -math.inf),), False),
    ("is_finite", ((FP64, -1e308),), True), ("is_finite", ((FP64, None),), None),
    ("is_infinite", ((FP32, -math.inf),), True), ("is_infinite", ((FP64, math.nan),), False),
]  # fmt: skip


def test_logic_and_comparison(spark: SparkSession) -> None:
    """SQL's three values; NaN equals itself and is the greatest."""
    check(spark, [(call(name, BOOL, *args), wanted) for name, args, wanted in LOGIC])


def test_choices(spark: SparkSession) -> None:
    """Which of several values, with nulls counted or passed over."""
    one, two, none = (I32, 1), (I32, 2), (I32, None)
    cases = [
        ("coalesce", (none, two), 2), ("coalesce", (none,), None),
        ("nullif", (one, one), None), ("nullif", (one, none), 1), ("nullif", (none, one), None), ("nullif", (one, two), 1),
        ("least", (two, one), 1), ("least", (two, none), None), ("greatest", (one,), 1),
        ("greatest", (one, two, none), None), ("least_skip_null", (two, none), 2),
        ("greatest_skip_null", (one, none, two), 2), ("greatest_skip_null", (none, none), None),
    ]  # fmt: skip
    check(spark, [(call(name, I32, *args), wanted) for name, args, wanted in cases])


def test_conditionals_and_lists(spark: SparkSession) -> None:
    """A null condition is not true, IN has three-valued logic, and later branches are not
    evaluated.
    """
    by_zero = call("divide", I32, (I32, 1), (I32, 0))
    check(
        spark,
        [
            (Conditional(I32, ((Constant(*N), Constant(I32, 1)),), Constant(I32, 2)), 2),
            (Conditional(I32, ((Constant(*T), Constant(I32, 1)),), by_zero), 1),
            (Conditional(I32, (), Constant(I32, 3)), 3),
            (InList(BOOL, Constant(I32, 1), (Constant(I32, 2), Constant(I32, 1))), True),
            (InList(BOOL, Constant(I32, 1), (Constant(I32, 2), Constant(I32, None))), None),
            (InList(BOOL, Constant(I32, None), (Constant(I32, 2),)), None),
            (InList(BOOL, Constant(I32, 1), ()), False),
        ],
    )


def test_integer_overflow_follows_the_option(spark: SparkSession) -> None:
    """ERROR fails, SILENT wraps around, SATURATE stays at the end."""
    cases: list[tuple[Expr, Any]] = []
    for type_, low, high in ((I8, -128, 127), (I16, -(2**15), 2**15 - 1), (I64, MIN64, MAX64)):
        edge = [
            ("add", (high, 1), low, high), ("subtract", (low, 1), high, low),
            ("multiply", (low, -1), low, high), ("multiply", (high, high), 1, high),
            ("negate", (low,), low, high), ("abs", (low,), low, high), ("add", (high, None), None, None),
        ]  # fmt: skip
        for name, values, wrapped, ended in edge:
            arguments = [(type_, v) for v in values]
            cases.append((call(name, type_, *arguments, overflow="SILENT"), wrapped))
            cases.append((call(name, type_, *arguments, overflow="SATURATE"), ended))
            if wrapped is not None:
                fails(spark, call(name, type_, *arguments, overflow="ERROR"), "OVERFLOW|overflow")
    check(spark, cases)


def test_integer_division(spark: SparkSession) -> None:
    """Cut towards zero; the remainder has the sign of the dividend, or of the divisor for FLOOR."""

    def of(name: str, x: int, y: int, **options: Any) -> Expr:
        return call(name, I32, (I32, x), (I32, y), **options)

    check(
        spark,
        [
            (of("divide", -7, 2), -3),
            (of("divide", 7, 0, on_division_by_zero="NULL"), None),
            (of("modulus", -7, 3), -1),
            (of("modulus", -7, 3, division_type="FLOOR"), 2),
            (of("modulus", 7, -3, division_type="FLOOR"), -2),
            (of("modulus", -6, 3, division_type="FLOOR"), 0),
            (of("modulus", 7, 0, on_domain_error="NULL"), None),
        ],
    )
    fails(spark, of("divide", 7, 0), "DIVIDE_BY_ZERO")
    fails(spark, of("modulus", 7, 0), "BY_ZERO")
    fails(spark, call("divide", I8, (I8, -128), (I8, -1)), "OVERFLOW")
    fails(spark, call("divide", I64, (I64, MIN64), (I64, -1)), "OVERFLOW|overflow")


def test_bits(spark: SparkSession) -> None:
    """Within the width of the type."""
    cases = [
        ("bitwise_and", I8, (-1, 15), 15), ("bitwise_or", I64, (MIN64, 1), MIN64 + 1),
        ("bitwise_xor", I32, (5, 1), 4), ("bitwise_not", I16, (0,), -1),
        ("shift_left", I8, (100, 1), -56), ("shift_left", I32, (1, 31), -(2**31)),
        ("shift_left", I64, (1, 63), MIN64), ("shift_right", I8, (-3, 1), -2),
        ("shift_right_unsigned", I8, (-3, 1), 126), ("shift_right_unsigned", I64, (-1, 1), MAX64),
        ("shift_right_unsigned", I32, (None, 1), None),
    ]  # fmt: skip
    check(spark, [(call(n, t, *((t, v) for v in values)), w) for n, t, values, w in cases])


INF, NAN = math.inf, math.nan

FLOATS = [
    ("divide", (1.0, 0.0), INF), ("divide", (-1.0, 0.0), -INF), ("divide", (1.0, -0.0), -INF),
    ("divide", (0.0, 0.0), NAN), ("divide", (NAN, 0.0), NAN), ("divide", (INF, 0.0), INF),
    ("divide", (1.0, 3.0), 1.0 / 3.0), ("divide", (None, 0.0), None), ("divide", (1.0, None), None),
    ("modulus", (5.5, 2.0), 1.5), ("modulus", (-5.5, 2.0), -1.5), ("modulus", (1.0, 0.0), NAN),
    ("modulus", (None, 0.0), None), ("add", (1e308, 1e308), INF), ("subtract", (INF, INF), NAN),
    ("multiply", (0.1, 3.0), 0.1 * 3.0), ("negate", (0.0,), -0.0), ("abs", (-0.0,), 0.0), ("sign", (-2.5,), -1.0),
    ("sqrt", (-1.0,), NAN), ("sqrt", (4.0,), 2.0), ("ln", (0.0,), -INF), ("ln", (-1.0,), NAN),
    ("ln", (NAN,), NAN), ("ln", (None,), None), ("log10", (1000.0,), 3.0), ("log2", (8.0,), 3.0),
    ("log1p", (-1.0,), -INF), ("log1p", (0.0,), 0.0), ("power", (2.0, 0.5), 2.0**0.5), ("power", (0.0, -1.0), INF),
    ("power", (1e300, 2.0), INF),
    ("exp", (0.0,), 1.0), ("acos", (2.0,), NAN), ("atan2", (1.0, 0.0), math.pi / 2),
    ("ceil", (1.2,), 2.0), ("ceil", (1e300,), 1e300), ("floor", (-1.2,), -2.0), ("floor", (NAN,), NAN),
    ("floor", (-INF,), -INF), ("ceil", (None,), None), ("round", (2.5,), 3.0), ("round", (-2.5,), -3.0),
    ("round", (NAN,), NAN),
]  # fmt: skip


def test_floats_follow_ieee_754(spark: SparkSession) -> None:
    """Division by zero, logarithms of zero and rounding of great numbers do not fail."""
    check(spark, [(call(n, FP64, *((FP64, v) for v in values)), w) for n, values, w in FLOATS])


def test_float_options(spark: SparkSession) -> None:
    """The options of a plan decide the result outside of a function's domain."""
    check(
        spark,
        [
            (call("divide", FP64, (FP64, 1.0), (FP64, 0.0), on_division_by_zero="NULL"), None),
            (call("ln", FP64, (FP64, 0.0), on_log_zero="NAN"), NAN),
            (call("ln", FP64, (FP64, -1.0), on_domain_error="NULL"), None),
            (call("round", FP64, (FP64, 2.5), (I32, 0), rounding="TIE_TO_EVEN"), 2.0),
            (call("divide", FP32, (FP32, 1.0), (FP32, 4.0)), 0.25),
            (call("sqrt", FP64, (I64, 9)), 3.0),
        ],
    )
    fails(spark, call("power", FP64, (I64, 10**9), (I64, 100), overflow="ERROR"), "OVERFLOW")
    check(spark, [(call("sqrt", FP64, (decimal(3, 2), 225)), 1.5)])
    fails(spark, call("sqrt", FP64, (decimal(3, 2), -1)), "DOMAIN_ERROR")


def test_rounding_of_integers_and_decimals(spark: SparkSession) -> None:
    """Half away from zero, or to even; the digits may be negative."""
    d = decimal(5, 2)
    check(
        spark,
        [
            (call("round", I32, (I32, 25), (I32, -1)), 30),
            (call("round", I32, (I32, 25), (I32, -1), rounding="TIE_TO_EVEN"), 20),
            (call("round", decimal(6, 2), (d, -12345), (I32, 1)), Decimal("-123.50")),
            (call("ceil", decimal(4, 0), (d, 12301)), Decimal(124)),
            (call("floor", decimal(4, 0), (d, -12301)), Decimal(-124)),
            (call("ceil", I8, (I8, 5)), 5),
            (call("sign", d, (d, -12301)), Decimal("-1.00")),
        ],
    )
    digits = call("add", I32, (I32, -2), (I32, 1))
    check(spark, [(call("round", I32, (I32, 25), digits), 30)])
    with pytest.raises(UsageError, match="constant"):
        to_column(call("strftime", STRING, (DATE, 0), call("upper", STRING, (STRING, "%y"))), ())


def test_minus_and_abs_of_long_decimals_are_exact(spark: SparkSession) -> None:
    """Spark's own operators round to 34 digits."""
    long = decimal(38, 4)
    top = 10**38 - 1
    check(
        spark,
        [
            (call("negate", long, (long, top)), Decimal(f"-{'9' * 34}.9999")),
            (call("abs", long, (long, -top)), Decimal(f"{'9' * 34}.9999")),
            (call("abs", decimal(38, 38), (decimal(38, 38), -1)), Decimal("1E-38")),
        ],
    )


S = STRING

STRINGS = [
    ("substring", ("hello", 2, 3), "ell"), ("substring", ("hello", 0, 2), "h"),
    ("substring", ("hello", -1, 3), "h"), ("substring", ("hello", -1, 2), ""),
    ("substring", ("hello", 2), "ello"), ("substring", ("hello", -3), "hello"), ("substring", ("hello", 9, 2), ""),
    ("substring", ("\U0001f600a\u00e4", 2, 2), "a\u00e4"), ("substring", ("hello", None, 2), None),
    ("substring", ("hello", 2, 2**40), "ello"), ("left", ("hello", 2), "he"), ("right", ("hello", 2), "lo"),
    ("left", ("hello", -1), "hell"), ("right", ("hello", -1), "ello"), ("left", ("hello", -9), ""),
    ("right", ("hello", -9), ""), ("left", (None, -1), None), ("right", ("hello", None), None), ("upper", ("a\u00e4",), "A\u00c4"), ("lower", ("A\u00c4",), "a\u00e4"),
    ("initcap", ("hello wORLD",), "Hello World"), ("initcap", ("",), ""), ("initcap", (None,), None),
    ("initcap", ("it's a-b_1c \u00e9t\u00e9",), "It'S A-B_1c \u00c9t\u00e9"), ("reverse", ("a\U0001f600",), "\U0001f600a"),
    ("ltrim", ("  a ",), "a "), ("rtrim", ("  a ",), "  a"), ("trim", ("\t a ",), "\t a"),
    ("trim", ("xyaxy", "xy"), "a"), ("ltrim", ("abcabcdef", "abc"), "def"), ("rtrim", ("axx", "x"), "a"),
    ("lpad", ("ab", 5, "xy"), "xyxab"), ("rpad", ("ab", 4), "ab  "), ("lpad", ("abc", 2, "x"), "ab"),
    ("lpad", ("abc", -1, "x"), ""), ("replace", ("aXbX", "X", ""), "ab"), ("repeat", ("ab", 2), "abab"),
    ("concat", ("a", "b", "c"), "abc"), ("concat", ("a", None), None),
]  # fmt: skip


def test_strings(spark: SparkSession) -> None:
    """Positions count code points from 1."""

    def argument(value: Any) -> tuple[Type, Any]:
        return (I64 if isinstance(value, int) or value is None else S, value)

    def arguments(name: str, values: tuple[Any, ...]) -> list[tuple[Type, Any]]:
        return [(S, v) for v in values] if name == "concat" else [argument(v) for v in values]

    check(spark, [(call(n, S, *arguments(n, values)), w) for n, values, w in STRINGS])


def test_string_options_and_lengths(spark: SparkSession) -> None:
    """Lengths in characters, bytes and bits; searches with and without case."""
    check(
        spark,
        [
            (
                call(
                    "substring",
                    S,
                    (S, "hello"),
                    (I32, -2),
                    (I32, 1),
                    negative_start="WRAP_FROM_END",
                ),
                "l",
            ),
            (call("concat", S, (S, None), (S, "b"), null_handling="IGNORE_NULLS"), "b"),
            (call("char_length", I64, (S, "a\u00e4\U0001f600")), 3),
            (call("octet_length", I64, (S, "a\u00e4\U0001f600")), 7),
            (call("bit_length", I64, (S, "a\u00e4\U0001f600")), 56),
            (call("strpos", I64, (S, "abcb"), (S, "b")), 2),
            (call("strpos", I64, (S, "abc"), (S, "x")), 0),
            (call("starts_with", BOOL, (S, "abc"), (S, "AB")), False),
            (
                call(
                    "starts_with", BOOL, (S, "abc"), (S, "AB"), case_sensitivity="CASE_INSENSITIVE"
                ),
                True,
            ),
            (call("ends_with", BOOL, (S, "abc"), (S, "bc")), True),
            (call("contains", BOOL, (S, "abc"), (S, None)), None),
        ],
    )


@pytest.mark.parametrize(
    ("text", "pattern", "escape", "wanted"),
    [
        ("abc", "a%", None, True), ("abc", "a_c", None, True), ("abc", "A%", None, False),
        ("a\nb", "a%b", None, True), ("a.c", "a_c", None, True), ("abc", "a.c", None, False),
        ("50%", "50\\%", None, False), ("50\\x", "50\\%", None, True), ("50%", "50\\%", "\\", True),
        ("50x", "50\\%", "\\", False), ("a_b", "a#_b", "#", True), ("axb", "a#_b", "#", False),
        ("", "%", None, True), ("\U0001f600", "_", None, True),
        ("a\\b", "a\\\\b", "\\", True), ("ab", "a\\b", "\\", True), ("a\\b", "a\\b", "\\", False),
        ("a\\", "a\\", "\\", True), ("a\\", "a\\\\", "\\", True), ("a$", "a#$", "#", True), ("a#", "a#", "#", True),
    ],
)  # fmt: skip
def test_like(
    spark: SparkSession, text: str, pattern: str, escape: str | None, wanted: bool
) -> None:
    """`%` and `_` are the only wildcards; there is no escape character unless one is given.

    Before any other character it stands for that character, at the end for itself.
    """
    arguments = [(S, text), (S, pattern)] + ([(S, escape)] if escape else [])
    check(spark, [(call("like", BOOL, *arguments), wanted)])


def test_like_without_case(spark: SparkSession) -> None:
    """By option, and by name."""
    check(
        spark,
        [
            (call("like", BOOL, (S, "ABC"), (S, "a%"), case_sensitivity="CASE_INSENSITIVE"), True),
            (call("ilike", BOOL, (S, "ABC"), (S, "a%")), True),
        ],
    )


MOMENT = dt.datetime(2024, 12, 30, 23, 4, 5, 678901)  # a Monday, in the first ISO week of 2025
MICROS = int((MOMENT - dt.datetime(1970, 1, 1)) / dt.timedelta(microseconds=1))
DAY = (MOMENT.date() - dt.date(1970, 1, 1)).days

COMPONENTS = {
    "YEAR": 2024, "ISO_YEAR": 2025, "QUARTER": 4, "MONTH": 12, "DAY": 30, "DAY_OF_YEAR": 365,
    "MONDAY_DAY_OF_WEEK": 1, "SUNDAY_DAY_OF_WEEK": 2, "ISO_WEEK": 1, "HOUR": 23, "MINUTE": 4, "SECOND": 5,
    "MILLISECOND": 678, "MICROSECOND": 901, "UNIX_TIME": MICROS // 10**6,
}  # fmt: skip


def test_extract(spark: SparkSession) -> None:
    """Every component, of a timestamp, of an instant in a zone, and counted from zero."""
    cases: list[tuple[Expr, Any]] = [
        (call("extract", I64, (TS, MICROS), enums=(c,)), w) for c, w in COMPONENTS.items()
    ]
    zone = (STRING, "America/New_York")
    cases += [
        (call("extract", I64, (TSTZ, MICROS), zone, enums=("HOUR",)), 18),
        (call("extract", I64, (TSTZ, MICROS), zone, enums=("UNIX_TIME",)), MICROS // 10**6),
        (call("extract", I64, (TS, MICROS), enums=("MONTH", "ZERO")), 11),
        (call("extract", I64, (TS, MICROS), enums=("SUNDAY_DAY_OF_WEEK", "ZERO")), 1),
        (call("extract", I64, (TS, MICROS), enums=("MONTH", "ONE")), 12),
        (call("extract", I64, (DATE, DAY), enums=("YEAR",)), 2024),
        (call("extract", I64, (DATE, DAY), enums=("HOUR",)), 0),
        (call("extract", I64, (DATE, DAY), enums=("UNIX_TIME",)), DAY * 86400),
        (call("extract", I64, (TS, -1), enums=("UNIX_TIME",)), -1),
        (call("extract", I64, (TS, -1), enums=("MICROSECOND",)), 999),
        (call("extract", I64, (TS, None), enums=("YEAR",)), None),
    ]
    time = Type("precision_time", params=(6,))
    in_day = MICROS % 86_400_000_000
    for component in ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"):
        cases.append(
            (call("extract", I64, (time, in_day), enums=(component,)), COMPONENTS[component])
        )
    check(spark, cases)


def test_date_part_and_date_trunc(spark: SparkSession) -> None:
    """As DataFusion means them: seconds include nothing smaller, milliseconds include the seconds."""
    parts = {
        "year": 2024, "quarter": 4, "month": 12, "week": 1, "day": 30, "doy": 365, "dow": 1, "isodow": 1,
        "hour": 23, "minute": 4, "second": 5, "millisecond": 5678, "microsecond": 5678901,
    }  # fmt: skip
    cases: list[tuple[Expr, Any]] = [
        (call("date_part", I32, (STRING, word), (TS, MICROS)), w) for word, w in parts.items()
    ]
    cuts = {
        "year": dt.datetime(2024, 1, 1), "quarter": dt.datetime(2024, 10, 1), "month": dt.datetime(2024, 12, 1),
        "week": dt.datetime(2024, 12, 30), "day": dt.datetime(2024, 12, 30), "hour": dt.datetime(2024, 12, 30, 23),
        "minute": dt.datetime(2024, 12, 30, 23, 4), "second": dt.datetime(2024, 12, 30, 23, 4, 5),
        "millisecond": dt.datetime(2024, 12, 30, 23, 4, 5, 678000),
    }  # fmt: skip
    for unit, wanted in cuts.items():
        cases.append((call("date_trunc", TS, (STRING, unit), (TS, MICROS)), wanted))
        cases.append(
            (
                call("date_trunc", DATE, (STRING, unit), (DATE, DAY)),
                min(wanted.date(), MOMENT.date()),
            )
        )
    check(spark, cases)


def test_points_in_time_and_intervals(spark: SparkSession) -> None:
    """Months end where the month ends; days and smaller parts are exact; zones count for months."""
    end = (dt.date(2024, 1, 31) - dt.date(1970, 1, 1)).days
    midnight = end * 86_400_000_000
    compound = Type("interval_compound", params=(6,))
    moved = dt.datetime(2024, 3, 1, 0, 0, 0, 5)
    zone = (STRING, "America/New_York")
    # 2024-02-29 23:30 in New York, one month earlier: the same time of day there.
    late = int((dt.datetime(2024, 3, 31, 3, 30) - dt.datetime(1970, 1, 1)).total_seconds()) * 10**6
    back = call("subtract", TSTZ, (TSTZ, late), (MONTHS, 1), zone)
    check(
        spark,
        [
            (call("add", DATE, (DATE, end), (MONTHS, 1)), dt.date(2024, 2, 29)),
            (call("subtract", DATE, (DATE, end), (MONTHS, 2)), dt.date(2023, 11, 30)),
            (call("add", TS, (DATE, end), (DAYS, (1, 5))), dt.datetime(2024, 2, 1, 0, 0, 0, 5)),
            (call("subtract", DATE, (DATE, end), (DAYS, (90, 0))), dt.date(2023, 11, 2)),
            (call("add", TS, (TS, midnight), (MONTHS, 1)), dt.datetime(2024, 2, 29)),
            (
                call("subtract", TS, (TS, midnight), (DAYS, (0, 1))),
                dt.datetime(2024, 1, 30, 23, 59, 59, 999999),
            ),
            (call("add", TS, (TS, midnight), (compound, (1, 1, 5))), moved),
            (call("add", TS, (DATE, end), (compound, (1, 1, 5))), moved),
            (call("subtract", DATE, (DATE, end), (compound, (0, 90, 0))), dt.date(2023, 11, 2)),
            (call("extract", I64, back, (STRING, "UTC"), enums=("DAY",)), 1),
            (call("extract", I64, back, (STRING, "UTC"), enums=("HOUR",)), 4),
            (call("add", DATE, (DATE, None), (MONTHS, 1)), None),
        ],
    )


CASTS = [
    (I64, 300, I32, 300), (FP64, 3.9, I32, 3), (FP64, -3.9, I32, -3), (STRING, " 12 ", I32, 12),
    (decimal(5, 2), 125, decimal(5, 1), Decimal("1.3")), (decimal(5, 2), -125, decimal(5, 1), Decimal("-1.3")),
    (decimal(5, 2), 199, I32, 1), (FP64, 1.25, decimal(5, 1), Decimal("1.3")), (STRING, "1.25", decimal(5, 2), Decimal("1.25")),
    (BOOL, True, I32, 1), (I32, 5, BOOL, True), (BOOL, True, STRING, "true"), (I64, -5, STRING, "-5"),
    (decimal(38, 38), 10**38 - 1, I16, 0), (decimal(38, 30), 10**30 - 1, I32, 0),
    (decimal(5, 2), 150, STRING, "1.50"), (STRING, "true", BOOL, True), (FP64, 1e300, FP32, INF),
    (STRING, "2024-02-29", DATE, dt.date(2024, 2, 29)), (DATE, DAY, STRING, "2024-12-30"),
    (DATE, DAY, TS, dt.datetime(2024, 12, 30)), (TS, MICROS, DATE, dt.date(2024, 12, 30)),
    (TSTZ, MICROS, TS, MOMENT), (TS, MICROS, Type("precision_timestamp", params=(3,)), MOMENT.replace(microsecond=678000)),
    (TS, -1, Type("precision_timestamp", params=(0,)), dt.datetime(1969, 12, 31, 23, 59, 59)),
    (STRING, "2024-12-30 23:04:05.678901", TS, MOMENT), (TS, MICROS, STRING, "2024-12-30 23:04:05.678901"),
    (STRING, "abcdef", Type("varchar", params=(3,)), "abc"), (STRING, "ab", Type("fixedchar", params=(3,)), "ab"),
    (STRING, "a", BINARY, b"a"), (BINARY, b"a", STRING, "a"), (STRING, "NaN", FP64, NAN), (I32, None, STRING, None),
]  # fmt: skip


def test_casts(spark: SparkSession) -> None:
    """Values that convert do so whether failures throw or not."""
    for to_null in (False, True):
        check(spark, [(Conversion(t, Constant(s, v), to_null), w) for s, v, t, w in CASTS])


BAD_CASTS = [
    (I64, 2**31, I32), (I32, 128, I8), (FP64, 1e20, I64), (FP64, NAN, I64), (STRING, "x", I32),
    (STRING, "", I32), (STRING, "1.5", I32), (STRING, "2023-02-29", DATE), (decimal(5, 2), 99999, decimal(3, 1)),
    (decimal(38, 30), -(10**38 - 1), I8), (decimal(38, 0), 2**31, I32), (FP64, NAN, decimal(5, 1)), (FP64, INF, decimal(5, 1)), (FP64, 1e30, decimal(5, 1)), (STRING, "maybe", BOOL),
]  # fmt: skip


def test_casts_that_fail(spark: SparkSession) -> None:
    """An error for throw, null for null; never a value cut off."""
    check(
        spark,
        [(Conversion(t, Constant(s, v), null_on_failure=True), None) for s, v, t in BAD_CASTS],
    )
    for source, value, target in BAD_CASTS:
        fails(
            spark, Conversion(target, Constant(source, value)), "CAST|OUT_OF_RANGE|OUT_OF_SUPPORTED"
        )


def test_columns_give_what_constants_give(spark: SparkSession) -> None:
    """Spark evaluates constants by other code than rows; both must agree."""
    cases = [(call(n, FP64, *((FP64, v) for v in values)), w) for n, values, w in FLOATS]
    cases += [(call(n, BOOL, *args), w) for n, args, w in LOGIC]
    moved: list[Any] = []
    values: list[Any] = []
    for expr, _ in cases:
        assert isinstance(expr, Call)
        over, constants_of = column_calls(expr, len(values))
        moved.append(over)
        values += constants_of
    row = [v.value for v in values]
    for found in over_rows(spark, moved, [v.type for v in values], [row, row]):
        wrong = [(e, f) for (e, w), f in zip(cases, found, strict=True) if not same(f, w)]
        assert not wrong


def test_column_ordinals_count_the_input_row(spark: SparkSession) -> None:
    """The second column is the second column."""
    expr = call("subtract", I64, Column(I64, 1), Column(I64, 0))
    found = over_rows(spark, [expr], [I64, I64], [(1, 5), (2, None), (3, 3)])
    assert found == [(4,), (None,), (0,)]
