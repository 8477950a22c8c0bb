"""Equal subqueries of one plan become one operator."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from tests.local.run import run

pytestmark = pytest.mark.usefixtures("spark")

TOTALS = "SELECT customer, sum(amount) AS s FROM orders GROUP BY customer"
BEST = f"""
SELECT a.customer, a.s FROM ({TOTALS}) AS a WHERE a.s = (SELECT max(b.s) FROM ({TOTALS}) AS b)
"""
SELF_JOIN = (
    f"SELECT a.customer, b.s FROM ({TOTALS}) AS a JOIN ({TOTALS}) AS b ON a.customer = b.customer"
)
BATCHES = (
    {"customer": ["ada", "bo", "bo"], "amount": [3, 1, 1], "w": [1, 1, 1]},
    {"customer": ["ada", "bo", "cy"], "amount": [3, 5, 6], "w": [-1, 1, 1]},
)
WANTED = [{("ada", 3)}, {("bo", 7)}]


def sources_of(folder: Path) -> dict[str, str]:
    return {"orders": f"parquet:{folder / 'orders'}?weight=w&batch-files=1"}


def maintained(query: str, folder: Path, batches: int) -> set[tuple[str, int]]:
    """Return the view after the first batches."""
    (folder / "orders").mkdir(exist_ok=True)
    for number, rows in enumerate(BATCHES[:batches]):
        if not (file := folder / "orders" / f"{number}.parquet").exists():
            pq.write_table(pa.table(rows), file)
    sources = sources_of(folder)
    run(sa.sql(query, sources), sources, checkpoint=folder / "ckpt").wait()
    view = sa.open_view(folder / "ckpt").to_arrow().to_pylist()
    return {tuple(row.values()) for row in view}


def operators(folder: Path) -> int:
    return len(sa.open_state(folder / "ckpt").at().operators)


def test_an_equal_aggregate_is_computed_once(tmp_path: Path) -> None:
    for batches in (1, 2):
        assert maintained(BEST, tmp_path, batches) == WANTED[batches - 1]
    state = sa.open_state(tmp_path / "ckpt")
    assert not state.verify(deep=True, sources=sources_of(tmp_path)).findings
    assert operators(tmp_path) == 4  # one more if each subquery had sums of its own


def test_both_sides_of_a_join_read_one_operator(tmp_path: Path) -> None:
    """A change of the operator comes in through both ports in one batch."""
    for batches, wanted in ((1, {("ada", 3), ("bo", 2)}), (2, {("bo", 7), ("cy", 6)})):
        assert maintained(SELF_JOIN, tmp_path, batches) == wanted
    state = sa.open_state(tmp_path / "ckpt")
    assert not state.verify(deep=True, sources=sources_of(tmp_path)).findings
