"""Runs over Delta tables, and back into Delta tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import substrait_agg as sa
from tests.e2e.rows import bag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERY = """
SELECT o.region, count(*) AS n, sum(l.amount) AS total
FROM lines l JOIN orders o ON l.order_id = o.id GROUP BY o.region
"""


def expected(lines: Path, orders: Path) -> Counter[tuple[object, ...]]:
    regions = {row["id"]: row["region"] for row in rows_of(orders)}
    totals: dict[str, list[int]] = {}
    for row in rows_of(lines):
        if row["order_id"] in regions:
            totals.setdefault(regions[row["order_id"]], []).append(row["amount"])
    return Counter((region, len(found), sum(found)) for region, found in totals.items())


def rows_of(table: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(table).to_pyarrow_table().to_pylist()
    return rows


@pytest.mark.parametrize("seed", range(2))
def test_a_join_of_delta_tables_kept_in_a_delta_table(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """The columns come from the tables. Appends, updates, deletions and compactions, runs that go on."""
    random = Random(seed)
    lines, orders, answer = (tmp_path / name for name in ("lines", "orders", "answer"))
    feed = {"delta.enableChangeDataFeed": "true"} if seed else None
    write_deltalake(
        orders, pa.table({"id": list(range(9)), "region": [f"r{i % 3}" for i in range(9)]})
    )
    write_deltalake(lines, drawn(random), configuration=feed)
    sources = {"lines": f"delta:{lines}", "orders": f"delta:{orders}"}
    for _ in range(4):
        run = sa.run(
            sa.sql(QUERY, sources), sources, checkpoint=tmp_path / "c", spark=spark,
            outputs=[f"delta={answer}?mode=view"],
        )  # fmt: skip
        run.wait()
        view = bag(sa.open_view(tmp_path / "c").to_arrow())
        assert view == expected(lines, orders)
        assert bag(DeltaTable(answer).to_pyarrow_table().select(["region", "n", "total"])) == view
        for _ in range(random.randrange(1, 4)):
            change(random, lines, orders)
    assert len(sa.open_view(tmp_path / "c").versions()) >= 4


def drawn(random: Random) -> pa.Table:
    count = random.randrange(1, 9)
    return pa.table(
        {
            "order_id": [random.randrange(12) for _ in range(count)],
            "amount": [random.randrange(100) for _ in range(count)],
        }
    )


def change(random: Random, lines: Path, orders: Path) -> None:
    match random.randrange(5):
        case 0:
            DeltaTable(lines).update(
                predicate=f"order_id < {random.randrange(9)}", updates={"amount": "amount + 1"}
            )
        case 1:
            DeltaTable(lines).delete(f"order_id = {random.randrange(9)}")
        case 2:
            DeltaTable(lines).optimize.compact()
        case 3:
            DeltaTable(orders).update(
                predicate=f"id = {random.randrange(9)}", updates={"region": "'r9'"}
            )
        case _:
            write_deltalake(lines, drawn(random), mode="append")
