"""NOT IN and IN with a subquery have SQL semantics, also with nulls, at every version."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.sampling import sample
from tests.spark_plans import plan_query
from tests.sql.results import kept, of_duckdb

pytestmark = pytest.mark.usefixtures("spark")

LEFT = pa.table({"a": [1, 2, None, 4], "b": ["x", "y", "x", None]}, pa.schema([("a", pa.int64()), ("b", pa.string())]))  # fmt: skip
RIGHT = {
    "empty": ([], []),
    "no null": ([2, 9], ["y", "x"]),
    "with null": ([2, None], ["x", "y"]),
    "only null": ([None], ["x"]),
    "repeated": ([1, 1, None, None], ["x", "y", "y", None]),
}
QUERIES = (
    "SELECT a, b FROM l WHERE a NOT IN (SELECT a FROM r)",
    "SELECT a, b FROM l WHERE a NOT IN (SELECT a FROM r WHERE r.b = l.b)",
    "SELECT a, b FROM l WHERE a + 1 NOT IN (SELECT a FROM r WHERE b = 'x') AND b = 'x'",
    "SELECT a, b FROM l WHERE NOT (a IN (SELECT a FROM r))",
    "SELECT a, b FROM l WHERE a NOT IN (SELECT a FROM r) AND (b = 'x' OR NOT b = 'it''s')",
    "SELECT a, b FROM l WHERE a NOT IN (SELECT a FROM r) AND b <> 'a\nb'",
    "SELECT a, b FROM l WHERE a IN (SELECT a FROM r)",
    "SELECT a, b FROM l WHERE a IN (SELECT a FROM r) OR b = 'y'",
    "SELECT a, b FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.a = l.a)",
    "SELECT a, b FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.a = l.a) OR b = 'y'",
    "SELECT a, b FROM l WHERE a NOT IN (SELECT a FROM r) OR b = 'y'",
    "SELECT a, b FROM l WHERE NOT (a IN (SELECT a FROM r) AND b = 'y')",
    "SELECT a, b FROM l WHERE a NOT IN (SELECT a FROM r WHERE r.b < l.b)",
    "SELECT a, b FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.a = l.a AND (b = 'x\ny' OR NOT (r.a IN (SELECT a FROM l))))",
)


def right(name: str) -> pa.Table:
    a, b = RIGHT[name]
    return pa.table({"a": pa.array(a, pa.int64()), "b": pa.array(b, pa.string())})


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("name", sample(RIGHT, "empty", "with null"))
def test_rows_equal_duckdb(query: str, name: str, tmp_path: Path) -> None:
    table, nothing = right(name), right("empty")
    expected = of_duckdb(query, {"l": LEFT, "r": table})
    for number, batches in enumerate(
        (
            [{"l": LEFT, "r": table}],
            [{"l": LEFT, "r": nothing}, {"l": LEFT.slice(0, 0), "r": table}],
            [{"l": LEFT.slice(0, 0), "r": table}, {"l": LEFT, "r": nothing}],
        )
    ):
        assert kept(query, batches, tmp_path / str(number)) == expected, number


CORRELATED = "FROM r WHERE r.b = l.b"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT a FROM l WHERE EXISTS (SELECT a {CORRELATED} GROUP BY ROLLUP (a))",
        f"SELECT l.a, q.n FROM l LEFT JOIN LATERAL (SELECT count(*) AS n {CORRELATED} GROUP BY ROLLUP (a)) q ON true",
    ],
)
def test_subqueries_that_spark_cannot_plan_are_refused(query: str) -> None:
    with pytest.raises(sa.SqlRefused, match="outer query column is not allowed") as refused:
        plan_query(query, {"l": LEFT.schema, "r": LEFT.schema})
    assert refused.value.code == "SQL_NOT_PLANNED"


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, b FROM l WHERE a IN (SELECT max(a) FROM r)",
        "SELECT a, b FROM l WHERE a IN (SELECT max(a) FROM r WHERE EXISTS (SELECT 1 FROM l x WHERE x.b = r.b))",
        f"SELECT a, b FROM l WHERE a = (SELECT max(a) {CORRELATED})",
        f"SELECT a, b FROM l WHERE (SELECT count(*) {CORRELATED}) = 0",
        f"SELECT a, b FROM l WHERE a IN (SELECT a FROM r) AND a >= (SELECT avg(a) {CORRELATED})",
        "SELECT a, b FROM l WHERE a IN (SELECT a FROM r WHERE r.a >= (SELECT avg(a) FROM l x WHERE x.b = r.b))",
        f"SELECT a, b FROM l WHERE EXISTS (SELECT a {CORRELATED} GROUP BY a HAVING count(*) > 1)",
        f"SELECT l.a, (SELECT max(a) {CORRELATED} HAVING count(*) > 1) AS m FROM l",
        f"SELECT l.a, q.n FROM l, LATERAL (SELECT count(*) AS n {CORRELATED}) q",
        f"SELECT a FROM l WHERE EXISTS (SELECT count(*) {CORRELATED})",
        f"SELECT a FROM l WHERE b = 'x' AND NOT EXISTS (SELECT max(a) {CORRELATED})",
        f"SELECT a FROM l WHERE EXISTS (SELECT 1 {CORRELATED} HAVING count(*) = 0)",
        f"SELECT a FROM l WHERE EXISTS (SELECT a {CORRELATED} OFFSET 1)",
        f"SELECT a FROM l WHERE a IN (SELECT count(*) {CORRELATED})",
        f"SELECT a FROM l WHERE a NOT IN (SELECT max(a) {CORRELATED})",
        f"SELECT a FROM l WHERE a IN (SELECT row_number() OVER (ORDER BY a NULLS FIRST) {CORRELATED})",
        f"SELECT a, coalesce(a IN (SELECT count(*) {CORRELATED}), false) AS m FROM l",
        "SELECT a FROM l WHERE a IN (SELECT a FROM r WHERE EXISTS (SELECT count(*) FROM l WHERE r.b = l.b AND b <> 'a\nb'))",
        f"SELECT l.a, (SELECT sum(n) FROM (SELECT b, count(*) OVER () AS n {CORRELATED}) q) AS s FROM l",
        f"SELECT l.a, q.n FROM l, LATERAL (SELECT count(*) AS n {CORRELATED} HAVING count(*) > 1) q",
        "SELECT a FROM l WHERE a = (SELECT min(a) + (SELECT 1) FROM r)",
    ],
)
def test_subqueries_with_aggregates_have_the_rows_of_duckdb(
    query: str, name: str, tmp_path: Path
) -> None:
    tables = {"l": LEFT, "r": right(name)}
    assert kept(query, [tables], tmp_path) == of_duckdb(query, tables)
