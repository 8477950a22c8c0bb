"""Queries that DataFusion simplifies to others keep their results."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from datafusion import DataFrame

import substrait_agg as sa
from substrait_agg.bind.bound import BoundProject, Constant, Conversion, Expr
from substrait_agg.bind.rewrite import subexpressions
from substrait_agg.errors import PlanRefused, RunFailed, SqlRefused
from substrait_agg.evaluation.expressions import evaluate

TABLE = "CREATE TABLE t (k BIGINT, x DOUBLE, p DECIMAL(10, 2), d DATE, ts TIMESTAMP(6));"


def first_column(text: str) -> Expr:
    """Return the first column of ``SELECT text, k FROM t``."""
    root = sa.sql(f"{TABLE} SELECT {text}, k FROM t", {}).bound().root
    assert isinstance(root, BoundProject)
    return root.expressions[0]


@pytest.mark.parametrize(
    "text",
    [
        "9223372036854775807 + 1",
        "9223372036854775807 * 2",
        "CAST(-2147483648 AS INT) - CAST(1 AS INT)",
        "-CAST(-9223372036854775808 AS BIGINT)",
    ],
)
def test_an_overflow_fails_as_over_columns(text: str) -> None:
    """DataFusion wraps around."""
    with pytest.raises(RunFailed, match="overflow"):
        evaluate(first_column(text), [], 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("CAST(0.05 AS DECIMAL(10, 2)) / CAST(3 AS DECIMAL(10, 0))", Decimal("0.016667")),
        ("CAST(-0.0 AS DOUBLE) IN (CAST(0.0 AS DOUBLE))", True),
        ("1.25 / ((1.25 + 2.50) * -(-1.25))", Decimal("0.266667")),
        ("nullif(CAST(-0.0 AS DOUBLE) * CAST(-2.5 AS DOUBLE), CAST(-0.0 AS DOUBLE))", None),
        ("CASE WHEN k > 0 THEN 1 ELSE 9223372036854775807 + 1 END", 1),
        ("CAST(true AS DECIMAL(4, 2))", Decimal("1.00")),
        ("1e3", Decimal(1000)),
        ("k + 2.5e3", Decimal(2501)),
        ("CAST(1e37 AS DOUBLE)", 1e37),
        ("1e100", 1e100),
        (
            "TIMESTAMP '9999-12-31 23:59:59' - INTERVAL '1' MONTH",
            datetime(9999, 11, 30, 23, 59, 59),
        ),
        ("CAST(TIMESTAMP '2024-02-29 01:02:03' AS VARCHAR)", "2024-02-29 01:02:03"),
    ],
)
def test_a_value_is_that_of_the_run(text: str, value: Any) -> None:
    assert evaluate(first_column(text), [pa.array([1])], 1)[0].as_py() == value


@pytest.mark.parametrize(
    "text",
    [
        "CAST(CAST(1e19 AS DOUBLE) AS VARCHAR)",
        "CAST(CAST(1e19 AS DOUBLE) AS DECIMAL(38, 10))",
        "CAST(' 5' AS INT)",
        "power(2, 10)",
    ],
)
def test_a_value_that_only_spark_computes_is_computed_by_spark(text: str) -> None:
    """DataFusion writes 1e19 where Spark writes 1.0E19, and reads other texts as numbers."""
    assert not isinstance(first_column(text), Constant)


@pytest.mark.parametrize(
    "text",
    [
        "CAST(5 AS DATE)",
        "CAST(5 AS TIMESTAMP)",
        "CAST(ts AS BIGINT)",
        "CAST(d AS DECIMAL(9, 1)) < 1",
    ],
)
def test_a_cast_that_columns_cannot_have_is_refused(text: str) -> None:
    with pytest.raises(PlanRefused) as refused:
        first_column(text)
    assert {problem.code for problem in refused.value.problems} == {"CAST_NOT_SUPPORTED"}


@pytest.mark.parametrize("text", ["CAST('abc' AS INT)", "DATE '2024-02-30'"])
def test_a_constant_without_a_value_is_refused(text: str) -> None:
    with pytest.raises(SqlRefused) as refused:
        first_column(text)
    assert refused.value.code == "SQL_NOT_PLANNED"


@pytest.mark.parametrize(("column", "values"), [("ts", [False, True]), ("d", [True, True])])
def test_a_timestamp_can_be_in_any_year(column: str, values: list[bool]) -> None:
    """DataFusion computes with nanoseconds, which end in the year 2262."""
    times = [datetime(9999, 12, 31, 23, 59, 59), datetime(1, 1, 1)]
    of_type = {"ts": pa.array(times, pa.timestamp("us")), "d": pa.array(t.date() for t in times)}
    condition = first_column(f"{column} < TIMESTAMP '9999-12-31 23:59:59'")
    assert evaluate(condition, [pa.array([1, 2]), of_type[column]], 2).to_pylist() == values


@pytest.mark.parametrize(
    "text", ["1 + 1", "2 * 0.5", "DATE '2024-01-31' - INTERVAL '1' MONTH + INTERVAL '90' DAY"]
)
def test_other_constants_are_computed_once(text: str) -> None:
    assert isinstance(first_column(text), Constant)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("CAST(p AS BIGINT) = 1", [True, True, False]),
        ("CAST(p AS BIGINT) > 1", [False, False, False]),
        ("CAST(p AS BIGINT) IN (1, 2)", [True, True, False]),
        ("CAST(p AS INT) BETWEEN 0 AND 1", [True, True, True]),
        ("CAST(p AS DECIMAL(10, 1)) = 1.3", [False, True, False]),
        ("0 < CAST(p AS SMALLINT)", [True, True, False]),
        (
            "TRY_CAST(p AS DECIMAL(2, 2)) IS NOT DISTINCT FROM CAST(NULL AS BIGINT) + k",
            [True, True, False],
        ),
    ],
)
def test_a_cast_that_rounds_stays_below_a_comparison(text: str, values: list[bool]) -> None:
    """DataFusion compares the value before the cast."""
    prices = pa.array(map(Decimal, ("1.00", "1.25", "0.75")), pa.decimal128(10, 2))
    assert evaluate(first_column(text), [pa.array([1, 2, 3]), prices], 3).to_pylist() == values


@pytest.mark.parametrize(
    "text",
    [
        "CAST(k AS INT) = 5",
        "CAST(k AS SMALLINT) IN (1, 2)",
        "CAST(p AS DECIMAL(4, 2)) BETWEEN 1 AND 2",
    ],
)
def test_a_cast_that_fails_stays_below_a_comparison(text: str) -> None:
    columns = [pa.array([2**40]), pa.array([Decimal(10**6)], pa.decimal128(10, 2))]
    with pytest.raises(RunFailed):
        evaluate(first_column(text), columns, 1)


@pytest.mark.parametrize(
    "text", ["CAST(p AS DECIMAL(12, 3)) = 1.5 + 0.0", "CAST(p AS DECIMAL(14, 4)) IN (1, 2)"]
)
def test_a_cast_that_keeps_values_is_removed(text: str) -> None:
    """DataFusion's simplification is used for other queries."""
    comparison = first_column(text)
    assert not any(isinstance(e, Conversion) for e in subexpressions(comparison))


def test_lists_of_columns_are_not_joined() -> None:
    """DataFusion keeps what both lists contain, which is nothing."""
    condition = first_column("k IN (k + 1, k) AND k IN (1, 3)")
    assert evaluate(condition, [pa.array([1, 2, 3])], 3).to_pylist() == [True, False, True]


class PanicException(BaseException):
    """What PyO3 raises for a panic, which needs a constant of two gigabytes."""


def test_a_panic_of_datafusion_is_an_error_with_a_code() -> None:
    def panicking(_frame: object) -> None:
        raise PanicException("byte array offset overflow")

    with (
        patch.object(DataFrame, "optimized_logical_plan", panicking),
        pytest.raises(SqlRefused, match="byte array offset overflow") as refused,
    ):
        sa.sql(f"{TABLE} SELECT k FROM t", {})
    assert refused.value.code == "SQL_NOT_PLANNED"
