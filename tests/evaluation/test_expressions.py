"""The place of evaluation, refusals, and the rows after linear steps."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from substrait_agg.bind.bound import (
    BoundNestedValue,
    Call,
    Column,
    Conditional,
    Constant,
    Conversion,
    Expr,
    InList,
    NestedPart,
)
from substrait_agg.errors import RunFailed
from substrait_agg.evaluation import steps
from substrait_agg.evaluation.expressions import (
    ExpressionFailed,
    evaluate,
    supports,
    supports_all_values,
)
from substrait_agg.evaluation.steps import apply_steps, supports_steps
from substrait_agg.flow.graph.graph import FilterStep, ProjectStep, Step
from substrait_agg.plan.types import BOOL, DATE, FP32, FP64, I32, I64, STRING, Type, decimal

TS = Type("precision_timestamp", params=(6,))
A, B = Column(I64, 0), Column(I64, 1)
ZERO = Constant(I64, 0)


def call(type_: Type, function: str, *arguments: Expr, **options: str) -> Call:
    return Call(type_, function, arguments, (), tuple((k.upper(), v) for k, v in options.items()))


DIVIDED = call(I64, "divide", A, B)
TOO_LARGE = call(BOOL, "gt", DIVIDED, ZERO)


def values(expr: Expr, *columns: list[Any], types: tuple[pa.DataType, ...] = ()) -> list[Any]:
    kinds = types or (pa.int64(),) * len(columns)
    arrays = [pa.array(c, t) for c, t in zip(columns, kinds, strict=True)]
    found: list[Any] = evaluate(expr, arrays, len(columns[0])).to_pylist()
    return found


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        (Conditional(I64, ((call(BOOL, "not_equal", B, ZERO), DIVIDED),), ZERO), [0, 3]),
        (call(BOOL, "and", call(BOOL, "not_equal", B, ZERO), TOO_LARGE), [False, True]),
        (call(BOOL, "or", call(BOOL, "equal", B, ZERO), TOO_LARGE), [True, True]),
        (call(I64, "coalesce", A, DIVIDED), [6, 6]),
        (InList(BOOL, A, (Constant(I64, 6), DIVIDED)), [True, True]),
        (call(I64, "divide", A, B, on_division_by_zero="NULL"), [None, 3]),
    ],
)  # fmt: skip
def test_a_value_that_is_not_needed_does_not_fail(expr: Expr, wanted: list[Any]) -> None:
    assert values(expr, [6, 6], [0, 2]) == wanted


def test_an_argument_fails_where_another_one_is_null() -> None:
    expr = call(I64, "add", A, call(I64, "divide", B, B))
    assert values(expr, [None, 1], [3, 1]) == [None, 2]
    with pytest.raises(RunFailed):
        values(expr, [None, 1], [0, 1])


@pytest.mark.parametrize(
    "expr",
    [
        DIVIDED,
        call(I64, "modulus", A, B),
        call(I64, "multiply", Constant(I64, 2**62), A),
        Conversion(Type("i8"), Constant(I64, 128)),
        call(decimal(3, 2), "add", *[Constant(decimal(3, 2), 999)] * 2),
    ],
)
def test_a_value_that_spark_refuses_fails_the_batch(expr: Expr) -> None:
    with pytest.raises(RunFailed) as caught:
        values(expr, [6], [0])
    assert caught.value.code == "BATCH_FAILED"


def test_a_struct_has_its_fields_and_fails_where_they_do() -> None:
    pair = BoundNestedValue(Type("struct", False, children=(I64, I64)), (A, DIVIDED))
    assert values(pair, [6, None], [2, 1]) == [{"f0": 6, "f1": 3}, {"f0": None, "f1": None}]
    guarded = Conditional(pair.type, ((call(BOOL, "not_equal", B, ZERO), pair),), pair)
    with pytest.raises(RunFailed):
        values(guarded, [6], [0])


def test_lists_compare_value_by_value_with_nulls_and_nan_as_values() -> None:
    """Null comes before all values and NaN after them; a list comes after its beginning."""
    floats = Type("list", children=(FP64,))
    left = pa.array([[1.0], [], [None], [-0.0], [float("nan")], None], pa.list_(pa.float64()))
    right = pa.array([[1.0, None], [0.0], [None], [0.0], [1e300], []], pa.list_(pa.float64()))

    def compare(name: str) -> list[bool | None]:
        compared = call(BOOL, name, Column(floats, 0), Column(floats, 1))
        return list(evaluate(compared, [left, right], len(left)).to_pylist())

    assert compare("equal") == [False, False, True, True, False, None]
    assert compare("lt") == [True, True, False, False, False, None]
    assert compare("is_not_distinct_from") == [False, False, True, True, False, False]


def test_a_condition_that_is_null_is_not_true() -> None:
    expr = Conditional(I64, ((call(BOOL, "gt", A, ZERO), A),), Constant(I64, -1))
    assert values(expr, [None, 1, 0]) == [-1, 1, -1]


@pytest.mark.parametrize(
    "expr",
    [
        call(FP64, "sqrt", Column(FP64, 0), on_domain_error="ERROR"),
        call(FP64, "exp", Column(FP64, 0)),
        call(BOOL, "like", Column(STRING, 0), Column(STRING, 0)),
        call(I64, "add", A, B, overflow="SILENT"),
        Conversion(I64, Column(STRING, 0)),
        Conversion(STRING, Column(FP64, 0)),
        BoundNestedValue(Type("list", children=(I64,)), (A,)),
        call(BOOL, "equal", A, Column(I32, 1)),
        Column(Type("precision_timestamp", params=(9,)), 0),
        call(BOOL, "not", call(BOOL, "equal", call(STRING, "initcap", Column(STRING, 0)), Constant(STRING, "A"))),
    ],
)  # fmt: skip
def test_what_may_differ_from_spark_is_not_supported(expr: Expr) -> None:
    assert not supports(expr)
    assert not supports_steps([ProjectStep((A, expr))])


@pytest.mark.parametrize(("name", "wanted"), [("upper", ["AB1", None]), ("lower", ["ab1", None])])
def test_case_is_that_of_ascii_and_other_letters_are_left_to_spark(
    name: str, wanted: list[str | None]
) -> None:
    expr = call(STRING, name, Column(STRING, 0))
    assert supports(expr)
    assert evaluate(expr, [pa.array(["aB1", None])], 2).to_pylist() == wanted
    with pytest.raises(ExpressionFailed, match="ASCII"):
        evaluate(expr, [pa.array(["a", "stra\u00dfe"])], 2)
    assert not supports_all_values(call(BOOL, "equal", expr, Column(STRING, 1)))


def test_a_constant_date_in_words_is_supported() -> None:
    shipped = call(BOOL, "lt", Column(DATE, 0), Conversion(DATE, Constant(STRING, "1995-03-15")))
    assert supports(shipped)
    assert evaluate(Conversion(I64, Constant(STRING, None)), [], 2).to_pylist() == [None, None]
    assert not supports(Conversion(DATE, Constant(STRING, "1995-02-30")))
    assert not supports(Conversion(DATE, Constant(STRING, "1995-3-15")))


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (TS, "9999-12-31 23:59:59.5", datetime(9999, 12, 31, 23, 59, 59, 500_000)),
        (TS, "0001-01-01", datetime(1, 1, 1)),
        (I32, "-007", -7),
        (decimal(4, 2), "-1.5", Decimal("-1.50")),
        (FP64, "1e19", 1e19),
        (FP32, "0.5", 0.5),
    ],
)
def test_a_constant_text_in_the_usual_form_is_supported(type_: Type, text: str, value: Any) -> None:
    assert values(Conversion(type_, Constant(STRING, text)), [1]) == [value]


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (TS, "2024-02-30 00:00:00"), (TS, "2024-1-1"), (Type("precision_timestamp", params=(3,)), "2024-01-01 00:00:00.0001"),
        (I32, "2147483648"), (I32, " 1"), (I32, "1.0"), (decimal(4, 2), "100"), (decimal(4, 2), "0.001"), (FP32, "0.1"), (FP64, "1d"),
    ],
)  # fmt: skip
def test_other_constant_texts_are_left_to_spark(type_: Type, text: str) -> None:
    assert not supports(Conversion(type_, Constant(STRING, text)))


@pytest.mark.parametrize(
    ("function", "interval", "moved"),
    [
        ("add", (1, 1, 0), date(2024, 3, 1)),
        ("subtract", (1, -30, 0), date(2024, 1, 30)),
        ("add", (0, 0, 86_400_000_000_000), date(2024, 2, 1)),
        ("add", (0, 0, 1), None),
    ],
)
def test_months_are_added_before_days(
    function: str, interval: tuple[int, int, int], moved: date | None
) -> None:
    """An interval with less than a microsecond is left to Spark."""
    constant = Constant(Type("interval_compound", params=(9,)), interval)
    expr = call(DATE, function, Column(DATE, 0), constant)
    assert supports(expr) == (moved is not None)
    if moved is not None:
        assert values(expr, [date(2024, 1, 31)], types=(pa.date32(),)) == [moved]


def test_a_quotient_is_rounded_once() -> None:
    type_ = decimal(38, 4)
    expr = call(decimal(38, 6), "divide", Column(type_, 0), Column(type_, 1))
    found = values(
        expr, [Decimal(1), Decimal(-2), Decimal("0.0001")], [Decimal(3), Decimal(3), Decimal(200)],
        types=(pa.decimal128(38, 4),) * 2,
    )  # fmt: skip
    assert found == [Decimal("0.333333"), Decimal("-0.666667"), Decimal("0.000001")]


@pytest.mark.parametrize("digits", [10, 19, 38])
def test_a_product_of_nines_is_rounded_up(digits: int) -> None:
    """The rounded product has one digit more than the factors have together."""
    type_ = decimal(digits, digits)
    nines = [Decimal(f"{sign}0.{'9' * digits}") for sign in ("", "-")]
    expr = call(decimal(38, 0), "multiply", Column(type_, 0), Column(type_, 0))
    found = values(expr, nines, types=(pa.decimal128(digits, digits),))
    assert found == [Decimal(1), Decimal(1)]


def test_a_field_of_a_null_struct_is_null() -> None:
    pair = Type("struct", children=(I64, STRING))
    field = NestedPart(I64, Column(pair, 0), 0)
    assert supports(field)
    whole = pa.array([{"f0": 1, "f1": "a"}, None, {"f0": None, "f1": "b"}, {"f0": 4, "f1": "c"}])
    hidden = pa.StructArray.from_arrays(
        [whole.field(0), whole.field(1)], ["f0", "f1"], mask=pa.array([False, True, False, True])
    )
    assert evaluate(field, [whole], 4).to_pylist() == [1, None, None, 4]
    assert evaluate(field, [hidden], 4).to_pylist() == [1, None, None, None]
    assert evaluate(field, [hidden.slice(1)], 3).to_pylist() == [None, None, None]


def rows() -> pa.Table:
    chunks = {"c0": [[1, 2, None], [4]], "c1": [[5, None, 7], [8]], "__weight": [[1, -1, 1], [2]]}
    return pa.table({n: pa.chunked_array(c, pa.int64()) for n, c in chunks.items()})


def test_steps_keep_the_carried_columns_of_their_rows() -> None:
    steps: list[Step] = [
        FilterStep(call(BOOL, "is_not_null", B)),
        ProjectStep((call(I64, "add", A, B), B, Constant(STRING, "x"))),
        FilterStep(call(BOOL, "not_equal", Column(I64, 0), Constant(I64, 6))),
    ]
    assert supports_steps(steps)
    found = apply_steps(rows(), steps, carried=("__weight",))
    assert found.to_pydict() == {"c0": [12], "c1": [8], "c2": ["x"], "__weight": [2]}


def test_steps_without_columns_keep_the_number_of_rows() -> None:
    assert apply_steps(rows().select(["c0", "c1"]), [ProjectStep(())]).num_rows == 4
    assert apply_steps(rows(), [ProjectStep(())], carried=("__weight",)).num_rows == 4


def test_a_filter_of_several_arguments_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters with 0.0 and -0.0 are two filters, although their constants are equal."""
    evaluated: list[Expr] = []

    def counted(expr: Expr, columns: list[pa.Array], rows: int) -> pa.Array:
        evaluated.append(expr)
        return evaluate(expr, columns, rows)

    monkeypatch.setattr(steps, "evaluate", counted)
    positive = call(BOOL, "gt", A, ZERO)
    zeros = [
        call(BOOL, "is_not_distinct_from", Constant(FP64, zero), Constant(FP64, 0.0))
        for zero in (0.0, -0.0)
    ]
    assert zeros[0] == zeros[1]
    arguments = ((A, positive), (B, positive), (None, zeros[0]), (None, zeros[1]), (B, None))
    columns = [pa.array([1, -1, None]), pa.array([4, 5, 6])]
    found = steps.argument_values(arguments, columns, 3)
    assert [column.to_pylist() for column in found[:2]] == [[1, None, None], [4, None, None]]
    assert found[4].equals(columns[1])
    assert [evaluated.count(expr) for expr in (positive, A, zeros[0])] == [1, 1, 2]


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_constant_list_has_a_value_for_each_row(rows: int) -> None:
    constant = Constant(Type("list", children=(I64,)), (1, None))
    assert supports(constant)
    assert evaluate(constant, [], rows).to_pylist() == [[1, None]] * rows
