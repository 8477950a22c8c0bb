"""Constants have the values that a run computes, not those with which DataFusion replaces them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.bind.bound import BoundProject, Constant, Expr
from substrait_agg.errors import RunFailed
from substrait_agg.evaluation.expressions import evaluate

TABLE = "CREATE TABLE t (k BIGINT, x DOUBLE, p DECIMAL(10, 2));"


def bound_constant(text: str) -> Expr:
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
        evaluate(bound_constant(text), [], 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("CAST(0.05 AS DECIMAL(10, 2)) / CAST(3 AS DECIMAL(10, 0))", Decimal("0.016667")),
        ("CAST(-0.0 AS DOUBLE) IN (CAST(0.0 AS DOUBLE))", True),
        ("CASE WHEN k > 0 THEN 1 ELSE 9223372036854775807 + 1 END", 1),
    ],
)
def test_a_value_is_that_of_the_run(text: str, value: Any) -> None:
    assert evaluate(bound_constant(text), [pa.array([1])], 1)[0].as_py() == value


def test_a_timestamp_is_written_as_over_columns() -> None:
    """DataFusion puts a T before the time. Only Spark reads a timestamp from a text."""
    written = bound_constant("CAST(TIMESTAMP '2024-02-29 01:02:03' AS VARCHAR)")
    assert not isinstance(written, Constant)


@pytest.mark.parametrize("text", ["1 + 1", "2 * 0.5", "DATE '2024-01-31' - INTERVAL '90' DAY"])
def test_other_constants_are_computed_once(text: str) -> None:
    assert isinstance(bound_constant(text), Constant)
