"""Queries that DataFusion simplifies to others keep their results."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from datafusion import DataFrame

import substrait_agg as sa
from substrait_agg.bind.bound import BoundProject, Constant, Conversion, Expr
from substrait_agg.bind.rewrite import subexpressions
from substrait_agg.errors import RunFailed, SqlRefused
from substrait_agg.evaluation.expressions import evaluate

TABLE = "CREATE TABLE t (k BIGINT, x DOUBLE, p DECIMAL(10, 2));"


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
    ],
)
def test_a_value_is_that_of_the_run(text: str, value: Any) -> None:
    assert evaluate(first_column(text), [pa.array([1])], 1)[0].as_py() == value


@pytest.mark.parametrize(
    "value", ["TIMESTAMP '2024-02-29 01:02:03'", "CAST(10000000000000000000 AS DOUBLE)"]
)
def test_a_value_is_written_as_over_columns(value: str) -> None:
    """DataFusion writes 2024-02-29T01:02:03 and 1e19. Only Spark computes these texts."""
    assert not isinstance(first_column(f"CAST({value} AS VARCHAR)"), Constant)


@pytest.mark.parametrize("text", ["1 + 1", "2 * 0.5", "DATE '2024-01-31' - INTERVAL '90' DAY"])
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
    ],
)
def test_a_cast_that_rounds_stays_below_a_comparison(text: str, values: list[bool]) -> None:
    """DataFusion compares the value before the cast."""
    prices = pa.array(map(Decimal, ("1.00", "1.25", "0.75")), pa.decimal128(10, 2))
    assert evaluate(first_column(text), [pa.array([1, 2, 3]), prices], 3).to_pylist() == values


def test_a_cast_that_does_not_round_is_removed() -> None:
    """DataFusion's simplification is used for other queries."""
    comparison = first_column("CAST(p AS DECIMAL(12, 3)) = 1.5 + 0.0")
    assert not any(isinstance(e, Conversion) for e in subexpressions(comparison))


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
