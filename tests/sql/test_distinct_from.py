"""IS [NOT] DISTINCT FROM has the rows of DuckDB beside AND, OR and IS."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.sql.results import kept, of_duckdb

pytestmark = pytest.mark.usefixtures("spark")

BOOLEANS = (True, False, None)
ROWS = pa.table(
    {
        "a": pa.array([i % 3 for i in range(27)], pa.int64()),
        **{
            name: pa.array([BOOLEANS[row // 3**place % 3] for row in range(27)])
            for place, name in enumerate("pqr")
        },
    }
)
CONDITIONS = [
    "p IS DISTINCT FROM q AND r",
    "p IS NOT DISTINCT FROM q AND r",
    "r AND p IS NOT DISTINCT FROM q OR r",
    "NOT p IS DISTINCT FROM q OR r AND p",
    "(a BETWEEN 0 AND 1) IS DISTINCT FROM q AND r",
    "r AND (a NOT BETWEEN 0 AND 1) IS DISTINCT FROM q AND p",
    "p IS DISTINCT FROM (a BETWEEN 0 AND 1) AND r",
    "(p IS DISTINCT FROM q) IS DISTINCT FROM r AND q",
    "(p IS NOT TRUE) IS DISTINCT FROM q AND r",
    "(p IS DISTINCT FROM q) IS NULL",
    "CASE WHEN p IS DISTINCT FROM q AND r THEN p ELSE r END IS DISTINCT FROM p AND q",
    "p IS DISTINCT FROM CASE WHEN q AND r THEN p END AND r",
    "(p IS DISTINCT FROM q AND r) IS NOT DISTINCT FROM p",
    "(a IN (1, 2)) IS DISTINCT FROM (q) AND coalesce(r, p IS DISTINCT FROM q OR r)",
    "a % 2 IS DISTINCT FROM a - 1 AND r",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_has_the_rows_of_duckdb(condition: str, tmp_path: Path) -> None:
    query = f"SELECT a, p, q, r FROM t WHERE {condition} ORDER BY a"
    assert kept(query, [{"t": ROWS}], tmp_path) == of_duckdb(query, {"t": ROWS})


def test_a_condition_of_a_join_and_an_output_column(tmp_path: Path) -> None:
    query = (
        "SELECT DISTINCT x.p IS DISTINCT FROM y.q AND y.r AS v, count(*) FILTER (WHERE x.p IS DISTINCT FROM y.q OR y.r) AS n "
        "FROM t x LEFT JOIN t y ON x.p IS NOT DISTINCT FROM y.q AND x.a = y.a AND 'a' IS DISTINCT FROM 'b' AND x.r "
        "WHERE x.q IS DISTINCT FROM y.p GROUP BY 1 HAVING count(*) IS DISTINCT FROM 2 AND true"
    )
    assert kept(query, [{"t": ROWS}], tmp_path) == of_duckdb(query, {"t": ROWS})
