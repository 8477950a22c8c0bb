"""A table that several operators read is one source with the columns of all of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.bind.plan.views import bound_views
from substrait_agg.flow.passes.lower import lower
from substrait_agg.spark.inputs.inputs import table_origins, whole_origins

pytestmark = pytest.mark.usefixtures("spark")

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.int64()), ("a", pa.string()), ("b", pa.string())])
VIEWS = {
    "pipeline": [
        "SELECT k, count(a) AS n FROM t GROUP BY k",
        "SELECT b, max(k) AS m FROM t GROUP BY b",
    ],
    "self join": ["SELECT l.a, r.b FROM t AS l JOIN t AS r ON l.k = r.p"],
    "union": [
        "SELECT k, count(*) AS n FROM (SELECT k FROM t UNION ALL SELECT p FROM t) GROUP BY k"
    ],
}
WANTED = {"pipeline": {"k", "a", "b"}, "self join": set(SCHEMA.names), "union": {"k", "p"}}


@pytest.mark.parametrize("case", VIEWS)
def test_a_table_with_several_readers_is_one_source(case: str) -> None:
    """Of two views, of a self join, and of a union."""
    plans = {f"v{i}": sa.sql(text, {"t": SCHEMA}).bind() for i, text in enumerate(VIEWS[case])}
    flow = lower(bound_views(plans))
    assert len(list(table_origins(flow))) == 2
    whole = whole_origins(flow, {})
    assert {table: set(origin.names) for table, origin in whole.items()} == {("t",): WANTED[case]}
