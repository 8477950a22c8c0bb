"""A checkpoint that refuses another plan says which operator, key, measure or column differs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from tests.local.run import run
from tests.spark_plans import plan_query

pytestmark = pytest.mark.usefixtures("spark")

pytestmark = pytest.mark.usefixtures("spark")

TABLES = {name: pa.schema({"k": pa.int64(), "x": pa.int64()}) for name in ("t", "u")}
JOIN = "SELECT t.k, sum(u.x) AS s FROM t {} JOIN u ON t.k = u.k GROUP BY t.k"
SETS = "SELECT k, x FROM t {} SELECT k, x FROM u"

DIFFERENT = {
    "a measure": ("SELECT sum(x) AS s FROM t", "SELECT sum(k) AS s FROM t", "measure sum(k)"),
    "a join": (JOIN.format(""), JOIN.format("LEFT"), "operator 0 kind was inner and is left"),
    "a set operation": (SETS.format("INTERSECT"), SETS.format("EXCEPT"), "operator 0 operation was intersection_multiset and is minus_primary"),
    "an operator": (SETS.format("UNION ALL"), SETS.format("UNION"), "operator 0 was Distinct and is Aggregate"),
}  # fmt: skip
"""What differs, a plan, another plan, and a part of the message."""


@pytest.mark.parametrize("what", DIFFERENT)
def test_the_difference_is_named(what: str, tmp_path: Path) -> None:
    before, now, told = DIFFERENT[what]
    for name, columns in TABLES.items():
        (tmp_path / name).mkdir()
        pq.write_table(pa.Table.from_pylist([{"k": 1, "x": 2}], columns), tmp_path / name / "a.parquet")  # fmt: skip

    def start(query: str) -> None:
        read = [name for name in TABLES if f" {name} " in f"{query} "]
        sources = {name: f"parquet:{tmp_path / name}" for name in read}
        run(plan_query(query, TABLES), sources, checkpoint=tmp_path / "ckpt")

    start(before)
    with pytest.raises(sa.StateRefused) as refused:
        start(now)
    assert refused.value.code == "PLAN_DIFFERS"
    assert told in refused.value.message
