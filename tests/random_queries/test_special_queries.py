"""Kinds of queries that random ones have found, over the same tables: every version equals DuckDB."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.random_queries.checking import VERSIONS, Case, maintained, of_duckdb
from tests.random_queries.dialects import Text, say
from tests.random_queries.tables import SCHEMAS, versions
from tests.spark_plans import plan_query

pytestmark = pytest.mark.usefixtures("spark")

STRUCT = say("named_struct('p', b.k, 'q', b.s)", duck="struct_pack(p := b.k, q := b.s)")
SAME = say("<=>", duck="IS NOT DISTINCT FROM")
QUERIES = {
    "lists are keys": say("SELECT a.id, b.id AS other FROM v a FULL JOIN v b ON a.w = b.w AND a.a = b.a"),
    "lists with nulls are keys": say("SELECT a.id, b.id AS other FROM v a LEFT JOIN v b ON a.a {} b.a", SAME),
    "a struct of columns is a key": say("SELECT a.id, b.n FROM v a LEFT JOIN u b ON a.r {} {}", SAME, STRUCT),
    "lists exist": say("SELECT x.id FROM v x WHERE NOT EXISTS (SELECT 1 FROM v y WHERE y.w = x.w AND y.id > x.id)"),
    "a lateral join keeps rows without elements": say(
        "SELECT a.id, e.x FROM v a LEFT JOIN LATERAL explode(a.w) AS e(x) ON true",
        duck="SELECT a.id, e.x FROM v a LEFT JOIN LATERAL (SELECT unnest(a.w) AS x) e ON true",
    ),
    "lists are compared": say("SELECT id, w = w AS a, a {} a AS b, NOT w <> w AS c FROM v", SAME),
    "a distinct constant is counted": say("SELECT k, count(DISTINCT 1) AS a, count(DISTINCT 'x') FILTER (WHERE n > 1) AS b FROM u GROUP BY k"),
}  # fmt: skip


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_every_version_equals_duckdb(query: Text, tmp_path: Path) -> None:
    case = Case(0, query, *versions(0, VERSIONS))
    views = maintained(plan_query(query.spark, SCHEMAS), case, tmp_path)
    for version, view in enumerate(views):
        assert view == of_duckdb(query.duck, case.tables(version)), case.describe("", version)
