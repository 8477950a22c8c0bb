"""Kinds of queries that random ones have found, over the same tables: every version equals DuckDB."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.random_queries.checking import case_over, maintained, of_duckdb
from tests.random_queries.dialects import Text, say
from tests.random_queries.tables import SCHEMAS
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
    "structs with and without nulls meet": say(
        "SELECT {} AS c FROM u b INTERSECT SELECT {} FROM u b",
        say("named_struct('p', b.id, 'q', 'a')", duck="struct_pack(p := b.id, q := 'a')"), STRUCT,
    ),
    "copies of structs with and without nulls are subtracted": say(
        "SELECT {} AS c FROM u b EXCEPT ALL SELECT {} FROM u b",
        say("named_struct('p', b.id, 'q', 'a')", duck="struct_pack(p := b.id, q := 'a')"), STRUCT,
    ),
    "a case has structs with and without nulls": say(
        "SELECT id, CASE WHEN k > 1 THEN {} ELSE {} END AS c FROM u b",
        say("named_struct('p', b.id, 'q', 'a')", duck="struct_pack(p := b.id, q := 'a')"), STRUCT,
    ),
    "lists are compared in the condition of an outer join": say("SELECT a.id, b.id AS other FROM v a LEFT JOIN v b ON a.id > b.id AND (a.a = b.a OR a.w {} b.w)", SAME),
    "a list is compared with a constant in the condition of an outer join": say(
        "SELECT a.id, b.id AS other FROM v a LEFT JOIN v b ON a.id > b.id AND (a.w {} {} OR b.k > 2)",
        SAME, say("array('a')", duck="['a']"),
    ),
    "structs are compared in the condition of an outer join": say("SELECT a.id, b.id AS other FROM v a FULL JOIN v b ON a.k = b.k AND NOT a.r {} b.r", SAME),
    "count_if is zero without rows": say("SELECT id, (SELECT count_if(w.ok) FROM w WHERE w.until = t.at) AS c FROM t", duck="SELECT id, (SELECT count(*) FROM w WHERE w.until = t.at AND w.ok) AS c FROM t"),
    "a null list has a type": say("SELECT id, size(CASE WHEN k > 1 THEN CAST(NULL AS ARRAY<STRING>) END) AS c FROM u", duck="SELECT id, NULL AS c FROM u"),
    "a distinct constant is counted": say("SELECT k, count(DISTINCT 1) AS a, count(DISTINCT 'x') FILTER (WHERE n > 1) AS b FROM u GROUP BY k"),
    "a text of Spark reads a measure of a BETWEEN": say(
        "SELECT k, sort_array(collect_list(CASE WHEN n BETWEEN k AND id THEN n END)) AS c FROM u GROUP BY k",
        duck="SELECT k, list_sort(coalesce(list(n) FILTER (WHERE n BETWEEN k AND id), [])) AS c FROM u GROUP BY k",
    ),
}  # fmt: skip


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_every_version_equals_duckdb(query: Text, tmp_path: Path) -> None:
    case = case_over(0, query)
    views = maintained(plan_query(query.spark, SCHEMAS), case, tmp_path)
    for version, view in enumerate(views):
        assert view == of_duckdb(query.duck, case.tables(version)), case.describe("", version)
