"""Functions of the standard in place of Spark's: the same values, on Arrow and on Spark."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from substrait_agg.bind.bound import BoundProject
from substrait_agg.evaluation.expressions import evaluate, supports
from substrait_agg.spark.catalyst.sql import PLANNING_CONF

pytestmark = pytest.mark.spark

ROWS = """
SELECT * FROM VALUES
  ('  north ', 7, TIMESTAMP '2024-02-29 23:59:58', TIMESTAMP_NTZ '1969-12-31 01:02:03', DATE '2024-12-30'),
  ('aXbXc', -7, TIMESTAMP '1900-01-01 00:00:00', TIMESTAMP_NTZ '2024-03-31 12:34:56', DATE '2021-01-03'),
  ('', 0, TIMESTAMP '2024-06-15 12:00:00', TIMESTAMP_NTZ '2024-06-15 00:00:00', DATE '1970-01-01'),
  (NULL, NULL, NULL, NULL, NULL),
  ('é\t ', 2147483647, TIMESTAMP '2038-01-19 03:14:08', TIMESTAMP_NTZ '2038-01-19 03:14:08', DATE '9999-12-31')
AS t(s, n, z, l, d)
"""


@pytest.mark.parametrize(
    "expression",
    [
        "trim(s)", "ltrim(s)", "rtrim(s)", "replace(s, 'X', '--')", "octet_length(s)", "bit_length(s)",
        "hour(z)", "minute(z)", "hour(l)", "minute(l)", "year(d)", "quarter(d)", "weekofyear(d)",
        "dayofyear(d)", "n div 2", "n div -3", "s LIKE '%X%'", "n BETWEEN -1 AND 7", "n + 1L",
        "CASE WHEN n > 0 THEN s ELSE 'x' END", "n / 2", "CAST(n AS STRING)",
    ],
)  # fmt: skip
def test_a_function_has_the_values_of_spark(expression: str, spark: SparkSession) -> None:
    session = spark.newSession()
    for name, value in PLANNING_CONF.items():
        session.conf.set(name, value)
    rows = session.sql(ROWS)
    wanted = [row[0] for row in rows.selectExpr(expression).collect()]
    table = rows.toArrow()
    plan = sa.sql(f"SELECT {expression} AS x FROM t", {"t": table.schema}, spark=spark)
    assert "spark_sql" not in json.dumps(json.loads(plan.content)["extensions"])
    root = plan.bind().root
    assert isinstance(root, BoundProject)
    (computed,) = root.expressions
    assert supports(computed)
    columns = [table.column(name).combine_chunks() for name in plan_columns(plan)]
    assert plain(evaluate(computed, columns, table.num_rows)) == wanted


def plan_columns(plan: Any) -> list[str]:
    read = plan.bind().root.input
    return list(read.names)


def plain(values: pa.Array) -> list[Any]:
    found: list[Any] = values.to_pylist()
    return found
