"""Decimal arithmetic against Python's: exact, rounded once, half away from zero, or an error."""

from __future__ import annotations

import decimal as py
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from substrait_agg.bind.bound import Call, Column
from substrait_agg.plan.types import Type, decimal
from substrait_agg.spark.expressions import to_column
from substrait_agg.spark.types.schema import to_spark
from tests.sampling import examples

pytestmark = pytest.mark.spark

OPERATIONS = ("add", "subtract", "multiply", "divide", "modulus")


def rounded(value: Fraction, type_: Type) -> Decimal | None:
    """The decimal nearest to `value`, half away from zero; None if it does not fit."""
    precision, scale = type_.params
    scaled = abs(value) * 10**scale
    whole = int(scaled + Fraction(1, 2))
    if whole >= 10**precision:
        return None
    return scaled_decimal(whole if value >= 0 else -whole, scale)


def scaled_decimal(unscaled: int, scale: int) -> Decimal:
    with py.localcontext(py.Context(prec=100)):
        return Decimal(unscaled).scaleb(-scale)


def expected(name: str, a: Decimal, b: Decimal, type_: Type) -> Decimal | None:
    x, y = Fraction(a), Fraction(b)
    if name == "divide":
        return rounded(x / y, type_)
    if name == "modulus":
        return rounded(x - y * int(x / y), type_)
    return rounded({"add": x + y, "subtract": x - y, "multiply": x * y}[name], type_)


def run(
    spark: SparkSession, name: str, types: tuple[Type, Type, Type], pairs: list[Any]
) -> list[Any]:
    """Results of an operation over pairs of decimals, as columns so that nothing is folded."""
    from pyspark.sql import types as sparktypes

    left, right, target = types
    schema = sparktypes.StructType(
        [
            sparktypes.StructField("n", sparktypes.IntegerType()),
            sparktypes.StructField("a", to_spark(left)),
            sparktypes.StructField("b", to_spark(right)),
        ]
    )
    frame = spark.createDataFrame([(i, a, b) for i, (a, b) in enumerate(pairs)], schema).coalesce(1)
    expr = Call(target, name, (Column(left, 0), Column(right, 1)))
    result = frame.select("n", to_column(expr, [frame["a"], frame["b"]]).alias("v"))
    assert result.schema["v"].dataType == to_spark(target)
    return [row[1] for row in sorted(result.collect())]


@st.composite
def decimal_types(draw: st.DrawFn) -> Type:
    precision = draw(st.one_of(st.just(38), st.integers(1, 38)))
    return decimal(precision, draw(st.integers(0, precision)))


def decimals_of(type_: Type) -> st.SearchStrategy[Decimal]:
    """Values of a type: any, small ones, and those near the ends."""
    precision, scale = type_.params
    top = 10**precision - 1
    numbers = st.one_of(
        st.integers(-top, top),
        st.integers(-min(top, 1000), min(top, 1000)),
        st.sampled_from([top, -top, top // 3, 10 ** (precision - 1), 5 * 10 ** (precision - 1)]),
    )
    return numbers.map(lambda n: scaled_decimal(n, scale))


@st.composite
def operations(
    draw: st.DrawFn,
) -> tuple[str, tuple[Type, Type, Type], list[tuple[Decimal, Decimal]]]:
    left, right, target = draw(decimal_types()), draw(decimal_types()), draw(decimal_types())
    pairs = st.tuples(decimals_of(left), decimals_of(right))
    name = draw(st.sampled_from(OPERATIONS))
    return name, (left, right, target), draw(st.lists(pairs, min_size=5, max_size=25))


@settings(
    max_examples=examples(25),
    deadline=None,
    derandomize=True,
    # Each try is a Spark job: shrinking would take minutes.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(case=operations())
def test_any_types_and_values(
    spark: SparkSession, case: tuple[str, tuple[Type, Type, Type], list[tuple[Decimal, Decimal]]]
) -> None:
    """For all types the result is the exact one rounded once; a result that does not fit fails."""
    name, types, pairs = case
    pairs = [p for p in pairs if p[1] != 0 and not too_wide(name, types, p)]
    wanted = [(p, expected(name, *p, types[2])) for p in pairs]
    good = [(p, w) for p, w in wanted if w is not None]
    found = run(spark, name, types, [p for p, _ in good]) if good else []
    assert [(p, v) for (p, _), v in zip(good, found, strict=True)] == good
    bad = next((p for p, w in wanted if w is None), None)
    if bad:
        with pytest.raises(
            Exception,
            match=r"NUMERIC_VALUE_OUT_OF_RANGE|NUMERIC_OUT_OF_SUPPORTED_RANGE|ARITHMETIC_OVERFLOW|CAST_INVALID_INPUT|DECIMAL_TOO_WIDE",
        ):
            run(spark, name, types, [bad])


def too_wide(name: str, types: tuple[Type, Type, Type], pair: tuple[Decimal, Decimal]) -> bool:
    """Divisors of 38 digits (of a modulus: at the common scale) are refused while rows are read."""
    scale = types[1].params[1]
    if name == "modulus":
        scale = max(types[0].params[1], scale)
    return name in ("divide", "modulus") and abs(Fraction(pair[1]) * 10**scale) >= 10**37


D = Decimal
EXAMPLES = [
    # A product whose type Spark cannot hold: 61 digits, of which 6 after the point.
    ("multiply", (38, 4), (23, 2), (38, 6), "12345678901234567890123456.1234", "1.25"),
    ("multiply", (38, 10), (38, 10), (38, 6), "12345678901234567890.1234567890", "1.0000000001"),
    ("multiply", (38, 30), (38, 30), (38, 30), "1." + "3" * 30, "2." + "6" * 30),
    ("multiply", (38, 38), (38, 38), (38, 38), "0." + "7" * 38, "0." + "9" * 38),
    ("multiply", (15, 2), (15, 2), (15, 2), "1.15", "1.50"),
    ("multiply", (15, 2), (15, 2), (15, 2), "-1.15", "1.50"),
    # Cancellation: neither term fits the type of the sum.
    ("subtract", (38, 0), (38, 37), (38, 37), "9", "8." + "9" * 37),
    ("add", (38, 0), (38, 38), (38, 38), "1", "-0." + "9" * 38),
    ("add", (38, 0), (38, 38), (38, 0), "9" * 38, "0.4" + "9" * 37),
    ("add", (38, 38), (38, 38), (38, 37), "0." + "9" * 38, "0." + "9" * 38),
    # Ties that only an early rounding would make.
    ("divide", (38, 0), (38, 0), (38, 0), "1" * 37, "2" * 36),
    ("divide", (2, 0), (1, 0), (38, 37), "1", "3"),
    ("divide", (38, 6), (38, 6), (38, 6), "2", "3"),
    ("divide", (15, 2), (15, 2), (38, 10), "1.00", "3.00"),
    ("divide", (15, 2), (15, 2), (15, 2), "0.01", "2.00"),
    ("divide", (15, 2), (15, 2), (15, 2), "-0.01", "2.00"),
    ("divide", (10, 0), (12, 0), (10, 2), "4999999999", "1000000000001"[:12]),
    ("modulus", (38, 0), (38, 20), (38, 20), "9" * 38, "0." + "3" * 20),
    ("modulus", (10, 2), (10, 3), (10, 3), "-7.50", "2.125"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "p", "q", "r", "a", "b"), EXAMPLES)
def test_results_at_the_edge(
    spark: SparkSession,
    name: str,
    p: tuple[int, int],
    q: tuple[int, int],
    r: tuple[int, int],
    a: str,
    b: str,
) -> None:
    """Cases that Spark's own operators round, or refuse, or get wrong."""
    types = (decimal(*p), decimal(*q), decimal(*r))
    pair = (py.Context(prec=100).create_decimal(a).quantize(scaled_decimal(1, p[1]), context=py.Context(prec=100)),
            py.Context(prec=100).create_decimal(b).quantize(scaled_decimal(1, q[1]), context=py.Context(prec=100)))  # fmt: skip
    wanted = expected(name, *pair, types[2])
    if wanted is None:
        with pytest.raises(
            Exception, match=r"OUT_OF_RANGE|OUT_OF_SUPPORTED_RANGE|CAST_INVALID_INPUT"
        ):
            run(spark, name, types, [pair])
        return
    assert run(spark, name, types, [pair]) == [wanted]


def test_a_quotient_that_looks_like_a_tie_after_one_rounding_is_not_rounded_up(
    spark: SparkSession,
) -> None:
    """0.4999...: Spark keeps 38 digits first, which makes it 0.5."""
    left = "4" + "9" * 37
    types = (decimal(38, 0), decimal(38, 0), decimal(38, 0))
    # (10^37 - 1) / (2 * 10^37) has 37 nines after the 4.
    pairs = [(D(10**36 - 1), D(2 * 10**36)), (D(1), D(2)), (D(-1), D(2)), (D(left[:30]), D(10**30))]
    assert [int(v) for v in run(spark, "divide", types, pairs)] == [0, 1, -1, 0]


def test_nulls_give_null(spark: SparkSession) -> None:
    """On the quick way and on the digit-wise one."""
    for name in OPERATIONS:
        for type_ in (decimal(9, 2), decimal(38, 20)):
            one = D("1")
            pairs = [(one, None), (None, one), (None, None)]
            assert run(spark, name, (type_, type_, decimal(38, 3)), pairs) == [None] * 3


def test_the_smallest_divisor_is_not_zero(spark: SparkSession) -> None:
    """Where zero gives null: Spark's comparison with a plain 0 would drop the last digit."""
    type_ = decimal(38, 38)
    expr = Call(
        type_, "modulus", (Column(type_, 0), Column(type_, 1)), (), (("ON_DOMAIN_ERROR", "NULL"),)
    )
    smallest = "cast('0.00000000000000000000000000000000000001' as decimal(38,38))"
    frame = spark.range(1).selectExpr(
        f"if(id = 0, {smallest}, null) as a", "cast(id as decimal(38,38)) as z"
    )
    values = [to_column(expr, [frame["a"], frame[b]]) for b in ("a", "z")]
    assert tuple(frame.select(*values).collect()[0]) == (D(0), None)


@pytest.mark.parametrize("type_", [decimal(9, 2), decimal(38, 20)])
@pytest.mark.parametrize("name", ["divide", "modulus"])
def test_zero_divides_nothing(spark: SparkSession, name: str, type_: Type) -> None:
    """A zero divisor fails the batch, with the error of the operation."""
    error = {"divide": "DIVIDE_BY_ZERO", "modulus": "REMAINDER_BY_ZERO"}[name]
    with pytest.raises(Exception, match=rf"\[{error}\]"):
        run(spark, name, (type_, type_, decimal(38, 20)), [(D(1), D(0))])


def test_a_quotient_with_fewer_digits_than_its_operands_names_the_division(
    spark: SparkSession,
) -> None:
    type_ = decimal(38, 2)
    with pytest.raises(Exception, match=r"\[DIVIDE_BY_ZERO\]"):
        run(spark, "divide", (type_, type_, type_), [(D(1), D(0))])
    assert run(spark, "divide", (type_, type_, type_), [(None, D(0)), (D(1), D(4))]) == [
        None,
        D("0.25"),
    ]
