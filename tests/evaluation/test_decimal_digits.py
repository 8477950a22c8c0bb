"""Quotients, averages and medians of decimals have the digits that the plan declares."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.bind.bound import Call, Column
from substrait_agg.evaluation.expressions import evaluate
from substrait_agg.plan.types import decimal
from tests.local.run import run

REF = {"selection": {"directReference": {"structField": {"field": 0}}, "rootReference": {}}}


def of(precision: int, scale: int) -> dict[str, Any]:
    held = {"precision": precision, "scale": scale, "nullability": "NULLABILITY_NULLABLE"}
    return {"decimal": held}


def plan(function: str, digits: int) -> bytes:
    """The measure of a column of two digits, declared with `digits` digits."""
    schema = {
        "names": ["x"],
        "struct": {"types": [of(6, 2)], "nullability": "NULLABILITY_REQUIRED"},
    }
    measure = {
        "functionReference": 1,
        "arguments": [{"value": REF}],
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        "invocation": "AGGREGATION_INVOCATION_ALL",
        "outputType": of(38, digits),
    }
    read = {"baseSchema": schema, "namedTable": {"names": ["t"]}}
    aggregate = {"input": {"read": read}, "groupings": [{}], "measures": [{"measure": measure}]}
    urn = "extension:io.substrait:functions_arithmetic_decimal"
    declared = {"extensionUrnReference": 1, "functionAnchor": 1, "name": function}
    document = {
        "version": {"minorNumber": 106},
        "extensionUrns": [{"extensionUrnAnchor": 1, "urn": urn}],
        "extensions": [{"extensionFunction": declared}],
        "relations": [{"root": {"input": {"aggregate": aggregate}, "names": ["v"]}}],
    }
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("function", "digits", "value"),
    [
        ("median", 2, "88.06"),
        ("median", 3, "88.055"),
        ("median", 10, "88.0550000000"),
        ("avg", 2, "58.70"),
        ("avg", 10, "58.7033333333"),
    ],
)
def test_a_measure_has_the_digits_that_the_plan_declares(
    tmp_path: Path, function: str, digits: int, value: str
) -> None:
    values = ["88.05", "88.06"] if function == "median" else ["88.05", "88.06", "0.00"]
    (tmp_path / "in").mkdir()
    column = pa.array(map(Decimal, values), pa.decimal128(6, 2))
    pq.write_table(pa.table({"x": column}), tmp_path / "in" / "a.parquet")
    source = {"t": f"parquet:{tmp_path / 'in'}"}
    run(plan(function, digits), source, checkpoint=tmp_path / "c", outputs=["none"]).wait()
    assert sa.open_view(tmp_path / "c").to_arrow().to_pylist() == [{"v": Decimal(value)}]


@pytest.mark.parametrize(
    ("digits", "value"), [(4, "0.0004"), (6, "0.000450"), (12, "0.000449955004")]
)
def test_a_quotient_has_the_digits_that_the_plan_declares(digits: int, value: str) -> None:
    left, right = Column(decimal(3, 2), 0), Column(decimal(6, 2), 1)
    quotient = Call(decimal(38, digits), "divide", (left, right), (), ())
    columns = [
        pa.array([Decimal("0.45")], pa.decimal128(3, 2)),
        pa.array([Decimal("1000.10")], pa.decimal128(6, 2)),
    ]
    assert evaluate(quotient, columns, 1).to_pylist() == [Decimal(value)]
