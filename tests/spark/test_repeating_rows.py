"""Which views may have several rows with one key."""

from __future__ import annotations

import pytest

import substrait_agg as sa
from substrait_agg.flow.passes.lower import lower

pytestmark = pytest.mark.spark


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("query", "repeats"),
    [
        ("SELECT a, b FROM t WHERE b > 0", True),
        ("SELECT t.a, u.b FROM t JOIN t AS u ON t.a = u.a", True),
        ("SELECT a FROM t UNION ALL SELECT b FROM t", True),
        ("SELECT a FROM t EXCEPT ALL SELECT b FROM t", True),
        ("SELECT a, b FROM t ORDER BY b LIMIT 3", True),
        ("SELECT a, b, sum(b) OVER (PARTITION BY a) AS s FROM t", True),
        ("SELECT a, b FROM t ORDER BY b LIMIT 1", True),
        ("SELECT a, sum(b) AS s FROM t GROUP BY a", False),
        ("SELECT DISTINCT a, b FROM t", False),
        ("SELECT a FROM t INTERSECT SELECT b FROM t", False),
    ],
)
def test_views_with_repeated_rows(query: str, repeats: bool) -> None:
    plan = sa.sql("CREATE TABLE t (a BIGINT, b BIGINT); " + query)
    flow = lower(plan.bind())
    assert (flow.view_node(flow.views[0]).output_weight == "weighted") is repeats
