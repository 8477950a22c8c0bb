"""LIMIT and OFFSET take their rows by an ORDER BY over columns that are not selected, as Spark does."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from tests.spark_plans import plan_query
from tests.sql.results import changed, chosen, of_spark, ordered, started

TABLES = {
    "t": pa.table({"id": [1, 2, 3, 4], "k": [0, 1, 2, None], "v": ["c", "a", "f", "b"]}),
    "u": pa.table(
        {
            "id": range(1, 10),
            "k": [0, 0, 0, 1, 1, 1, 2, 2, None],
            "v": ["c", "b", "a", "f", "d", "e", "b", "a", "a"],
            "n": [3, 2, 1, 3, None, 1, 2, 2, 0],
        }
    ),
}
VERSIONS = {
    "t": ((0, 1, 2), (0, 1, 2, 3), (0, 2)),
    "u": (range(9), (1, 2, 4, 5, 7), (0, 2, 3, 7, 8)),
}
"""Name of a table -> numbers of its rows at each version."""

LATERAL = "SELECT t.id, l.v FROM t, LATERAL ({}) l"
FIRST = "SELECT v FROM u WHERE u.k = t.k ORDER BY id LIMIT 1"
QUERIES = {
    "lateral": LATERAL.format(FIRST),
    "lateral of the table": LATERAL.format("SELECT v FROM u WHERE u.k = t.k ORDER BY u.id DESC LIMIT 2"),
    "left lateral": f"SELECT t.id, l.v FROM t LEFT JOIN LATERAL ({FIRST}) l",
    "lateral by two keys": LATERAL.format("SELECT v FROM u WHERE u.k = t.k ORDER BY n DESC, id LIMIT 1"),
    "offset": LATERAL.format("SELECT v FROM u WHERE u.k = t.k ORDER BY id OFFSET 1"),
    "limit and offset": LATERAL.format("SELECT v FROM u WHERE u.k = t.k ORDER BY id LIMIT 1 OFFSET 1"),
    "range": LATERAL.format("SELECT v FROM u WHERE u.k <= t.k ORDER BY id LIMIT 1"),
    "computed": LATERAL.format("SELECT v || t.id AS v FROM u WHERE u.k = t.k ORDER BY id LIMIT 1"),
    "order of a subquery": LATERAL.format("SELECT v FROM (SELECT v, id FROM u WHERE u.k = t.k ORDER BY id) LIMIT 1"),
    "group": LATERAL.format("SELECT v FROM u WHERE u.k = t.k GROUP BY v ORDER BY max(id) LIMIT 1"),
    "distinct": LATERAL.format("SELECT DISTINCT v FROM (SELECT v FROM u WHERE u.k = t.k ORDER BY id LIMIT 2)"),
    "union": LATERAL.format(f"({FIRST}) UNION ALL ({FIRST} OFFSET 1)"),
    "scalar": f"SELECT t.id, ({FIRST}) AS s FROM t",
    "scalar with offset": f"SELECT t.id, ({FIRST} OFFSET 1) AS s FROM t",
    "scalar of aggregate": "SELECT t.id, (SELECT max(v) FROM (SELECT v FROM u WHERE u.k = t.k ORDER BY id LIMIT 2 OFFSET 1)) AS m FROM t",
    "scalar in a filter": f"SELECT t.id FROM t WHERE v = ({FIRST})",
    "in": f"SELECT t.id FROM t WHERE v IN ({FIRST})",
    "not in": f"SELECT t.id FROM t WHERE v NOT IN ({FIRST})",
    "exists": "SELECT t.id FROM t WHERE EXISTS (SELECT v FROM u WHERE u.k = t.k ORDER BY id OFFSET 1)",
    "not correlated": "SELECT t.id FROM t WHERE v IN (SELECT v FROM u ORDER BY id LIMIT 2)",
    "cte": "WITH x AS (SELECT v, id FROM u ORDER BY id) SELECT v FROM x LIMIT 3",
    "set operation": "(SELECT v FROM u ORDER BY id LIMIT 3) EXCEPT ALL (SELECT v FROM t ORDER BY id DESC LIMIT 2)",
}  # fmt: skip

LOST = {
    "filter of columns": LATERAL.format(
        "SELECT v FROM (SELECT v, n FROM u WHERE u.k = t.k ORDER BY id) WHERE n > 1 LIMIT 1"
    ),
    "list": "SELECT e FROM (SELECT array(v, 'z') AS l FROM u ORDER BY id) LATERAL VIEW explode(l) AS e LIMIT 3",
    "join": "SELECT x.v FROM (SELECT v, k FROM u ORDER BY id) x JOIN t ON x.k = t.k LIMIT 2",
    "union": "SELECT v FROM ((SELECT v FROM u ORDER BY id) UNION ALL (SELECT v FROM t)) LIMIT 2",
}


@pytest.mark.parametrize("name", QUERIES)
def test_rows_are_those_of_the_order(name: str, spark: SparkSession, tmp_path: Path) -> None:
    run = started(QUERIES[name], {n: table.schema for n, table in TABLES.items()}, tmp_path)
    before: dict[str, Collection[int]] = dict.fromkeys(TABLES, ())
    for version in range(3):
        after: dict[str, Collection[int]] = {n: VERSIONS[n][version] for n in TABLES}
        run.batch({n: changed(table, before[n], after[n]) for n, table in TABLES.items()})
        before = after
        kept = {n: chosen(table, {*after[n]}) for n, table in TABLES.items()}
        assert ordered(list(run.view.elements())) == of_spark(spark, QUERIES[name], kept)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", LOST)
def test_an_order_that_is_lost_below_limit_is_refused(name: str) -> None:
    with pytest.raises(sa.SqlRefused) as refused:
        plan_query(LOST[name], {n: table.schema for n, table in TABLES.items()})
    assert refused.value.code == "SQL_NOT_MAINTAINED"
    assert "ORDER BY" in refused.value.help
