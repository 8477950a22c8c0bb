"""Joins without a key over a small static side: every row is paired with all static rows, and a
larger static side is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.errors import RunFailed
from substrait_agg.operator.join import step
from tests.local.run import run

pytestmark = pytest.mark.usefixtures("spark")

RANGES = {"name": ["low", "mid", "high"], "least": [0, 10, 20], "most": [9, 19, 99]}
BATCHES = (
    {"id": [1, 2, 3], "amount": [5, 15, 500], "w": [1, 1, 1]},
    {"id": [1, 4, 3], "amount": [5, 10, 500], "w": [-1, 1, 1]},
)
INNER = "SELECT o.id, r.name FROM orders o JOIN ranges r ON o.amount BETWEEN r.least AND r.most"
LEFT = INNER.replace("JOIN", "LEFT JOIN")
COUNTS = "SELECT r.name, count(*) AS n FROM orders o JOIN ranges r ON o.amount >= r.least GROUP BY r.name"
VALUES = (
    "SELECT o.id, v.name FROM orders o JOIN (VALUES (0, 'low'), (12, 'high')) AS v(least, name) "
    "ON o.amount >= v.least"
)
Row = tuple[Any, ...]
WANTED: dict[str, tuple[list[Row], list[Row]]] = {
    INNER: ([(1, "low"), (2, "mid")], [(2, "mid"), (4, "mid")]),
    LEFT: (
        [(1, "low"), (2, "mid"), (3, None)],
        [(2, "mid"), (3, None), (3, None), (4, "mid")],
    ),
    COUNTS: ([("high", 1), ("low", 3), ("mid", 2)], [("high", 2), ("low", 4), ("mid", 4)]),
    VALUES: (
        [(1, "low"), (2, "high"), (2, "low"), (3, "high"), (3, "low")],
        [(2, "high"), (2, "low"), *[(3, "high")] * 2, *[(3, "low")] * 2, (4, "low")],
    ),
}


def sources_of(query: str, folder: Path, batches: int, *, static: bool = True) -> dict[str, str]:
    for name in ("orders", "ranges"):
        (folder / name).mkdir(exist_ok=True)
    pq.write_table(pa.table(RANGES), folder / "ranges" / "0.parquet")
    for number, rows in enumerate(BATCHES[:batches]):
        if not (file := folder / "orders" / f"{number}.parquet").exists():
            pq.write_table(pa.table(rows), file)
    found = {"orders": f"parquet:{folder / 'orders'}?weight=w&batch-files=1"}
    if "ranges" in query:
        found["ranges"] = f"parquet:{folder / 'ranges'}{'?static=true' if static else ''}"
    return found


@pytest.mark.parametrize("query", WANTED)
def test_every_row_meets_all_static_rows(query: str, tmp_path: Path) -> None:
    """A retracted row is paired with the same static rows as at its insertion, in every batch."""
    for batches, wanted in enumerate(WANTED[query], start=1):
        sources = sources_of(query, tmp_path, batches)
        run(sa.sql(query, sources), sources, checkpoint=tmp_path / "ckpt").wait()
        view = sa.open_view(tmp_path / "ckpt").to_arrow().to_pylist()
        rows = sorted((tuple(row.values()) for row in view), key=repr)
        assert rows == sorted(wanted, key=repr)
    assert not sa.open_state(tmp_path / "ckpt").verify(deep=True, sources=sources).findings


def test_a_table_that_changes_is_compared_by_the_range(tmp_path: Path) -> None:
    """Without static=true the rows of both sides are stored, in the order of the range."""
    sources = sources_of(INNER, tmp_path, 1, static=False)
    plan = sa.sql(INNER, sources)
    assert sa.validate(plan).ok
    shown = sa.explain(plan)
    assert "compare the changed rows of input 0 with the intervals around them of input 1" in shown
    assert "compare the changed rows of input 1 with the rows in range of input 0" in shown
    for batches, wanted in enumerate(WANTED[INNER], start=1):
        sources = sources_of(INNER, tmp_path, batches, static=False)
        run(plan, sources, checkpoint=tmp_path / "ckpt").wait()
        view = sa.open_view(tmp_path / "ckpt").to_arrow().to_pylist()
        assert sorted(tuple(row.values()) for row in view) == sorted(wanted)


def test_more_static_rows_than_the_limit_are_refused(tmp_path: Path) -> None:
    query = INNER.replace("o.amount BETWEEN r.least AND r.most", "o.amount <> r.least")
    sources = sources_of(query, tmp_path, 1)
    with patch.object(step, "NESTED_LOOP_ROWS", 2), pytest.raises(RunFailed) as failed:
        run(sa.sql(query, sources), sources, checkpoint=tmp_path / "ckpt").wait()
    assert failed.value.code == "NESTED_LOOP_TOO_LARGE"
    assert "3 different rows, more than 2" in str(failed.value)
