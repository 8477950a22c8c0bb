"""Checkpoints whose trees share runs: tools show each tree, and checkpoints of earlier builds continue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.flow.graph import measures
from tests.checkpoint.test_verify_deep import damage
from tests.local.run import run

pytestmark = pytest.mark.usefixtures("spark")

BATCHES = (
    [("ada", 1, 5, 1), ("ada", 1, 50, 1), ("ada", 2, 5, 1), ("bo", 1, 5, 1), ("bo", None, 9, 1)],
    [("ada", 1, 5, -1), ("bo", 3, 70, 1), ("cy", 4, 80, 1)],
    [("ada", 2, 5, -1), ("ada", 1, 60, 1), ("cy", 4, 80, -1)],
)
"""Rows of (who, item, price, weight)."""
COUNTS: dict[str, Callable[[int], bool]] = {
    "items": lambda price: True,
    "cheap": lambda price: price < 10,
    "dear": lambda price: price >= 10,
}
QUERY = """
SELECT who, count(DISTINCT item) AS items, count(DISTINCT item) FILTER (WHERE price < 10) AS cheap,
  count(DISTINCT item) FILTER (WHERE price >= 10) AS dear FROM sales GROUP BY who
"""
SUM = QUERY.replace(" FROM", ", sum(DISTINCT item) FILTER (WHERE price < 10) AS total FROM")
LISTED = QUERY.replace(" FROM", ", max(item) FILTER (WHERE price < 10) AS last FROM")
FEWER = (
    "SELECT who, count(DISTINCT item) FILTER (WHERE price < 10) AS cheap FROM sales GROUP BY who"
)


def rows_after(batches: int) -> list[dict[str, Any]]:
    """The view of `QUERY` after some batches, by recomputation."""
    rows: list[tuple[str, int | None, int]] = []
    for who, item, price, weight in (r for batch in BATCHES[:batches] for r in batch):
        if weight > 0:
            rows.append((who, item, price))
        else:
            rows.remove((who, item, price))
    return [
        {"who": who}
        | {
            name: len({i for w, i, price in rows if w == who and i is not None and keep(price)})
            for name, keep in COUNTS.items()
        }
        for who in sorted({who for who, *_ in rows})
    ]


def maintained(folder: Path, batches: int, query: str = QUERY, **options: Any) -> Path:
    """Continue a checkpoint up to a batch; return it."""
    place = folder / "sales"
    place.mkdir(exist_ok=True)
    for number, rows in enumerate(BATCHES[:batches]):
        columns = [list(column) for column in zip(*rows, strict=True)]
        table = pa.table(dict(zip(["who", "item", "price", "w"], columns, strict=True)))
        pq.write_table(table, place / f"{number}.parquet")
    sources = {"sales": f"parquet:{place}?weight=w&batch-files=1"}
    run(sa.sql(query, sources), sources, checkpoint=folder / "ckpt", **options).wait()
    return folder / "ckpt"


def view(folder: Path) -> list[dict[str, Any]]:
    return sorted(sa.open_view(folder).to_arrow().to_pylist(), key=lambda row: row["who"])


def findings(folder: Path) -> list[str]:
    """The faults of a deep verification with the rows of the table."""
    sources = {"sales": f"parquet:{folder.parent / 'sales'}?weight=w&batch-files=1"}
    found = sa.open_state(folder).verify(deep=True, sources=sources).findings
    return [f.message for f in found if f.level == "error"]


def trees(folder: Path) -> set[str]:
    return set(sa.open_state(folder).at().operators[0].trees)


def apart() -> Any:
    """Give every tree runs of its own, as earlier builds did."""
    return patch.object(measures, "with_filters", lambda shared, _arguments: shared)


def test_every_tree_is_shown(tmp_path: Path) -> None:
    """The list has the runs; any tree can be shown, also of one group."""
    state = sa.open_state(folder := maintained(tmp_path, 3))
    assert view(folder) == rows_after(3)
    assert trees(folder) == {"group", "tree0"}
    (_, line) = state.ls().trees
    assert line.what.endswith("; also tree1, tree2")
    entries = {name: state.show(name)[name].to_pylist() for name in ("tree0", "tree1", "tree2")}
    shown = [[tuple(row.values()) for row in rows] for rows in entries.values()]
    assert sorted(shown[0]) == [("ada", 1, 2), ("bo", 1, 1), ("bo", 3, 1)]
    assert sorted(shown[1]) == [("bo", 1, 1)]
    assert sorted(shown[2]) == [("ada", 1, 2), ("bo", 3, 1)]
    of_bo = state.show(key="bo")
    assert list(of_bo) == ["group", "tree0", "tree1", "tree2"]
    assert [table.num_rows for table in of_bo.values()] == [1, 2, 1, 1]
    assert state.show("tree1", key="ada")["tree1"].num_rows == 0


@pytest.mark.parametrize(
    ("column", "change"),
    [("weight", lambda w: -w), ("weight1", lambda w: w - 1), ("weight2", lambda w: 0 if w else 1)],
)
def test_damage_of_any_weight_is_found(
    column: str, change: Callable[[int], int], tmp_path: Path
) -> None:
    folder = maintained(tmp_path, 1)
    assert not findings(folder)
    damage(folder, 0, "tree0", column, change)
    assert any(message.startswith("tree0 of operator 0") for message in findings(folder))
    assert any(f.code == "COUNTS_DIFFER" for f in sa.open_state(folder).verify().findings)


@pytest.mark.parametrize("query", [SUM, LISTED, FEWER], ids=["more", "read otherwise", "fewer"])
@pytest.mark.parametrize("before", ["shared", "apart"])
def test_another_plan_continues(query: str, before: str, tmp_path: Path) -> None:
    """Trees that share runs, or will, are written again where others share them then."""
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    if before == "apart":
        with apart():
            maintained(tmp_path, 2)
    else:
        maintained(tmp_path, 2)
    folder = maintained(tmp_path, 3, query, evolve=True)
    assert view(folder) == view(other := maintained(fresh, 3, query))
    assert trees(folder) == trees(other)
    assert sa.open_state(folder).verify().ok


def test_idle_groups_take_all_weights_with_them(tmp_path: Path) -> None:
    place = tmp_path / "sales"
    place.mkdir()
    for number, (who, at) in enumerate((("ada", 0), ("bo", 100))):
        table = pa.table(
            {
                "who": [who],
                "item": [1],
                "price": [5],
                "at": pa.array([at * 10**6], pa.timestamp("us")),
            }
        )
        pq.write_table(table, place / f"{number}.parquet")
    sources = {"sales": f"parquet:{place}?batch-files=1"}
    plan = sa.sql(QUERY, sources)
    run(
        plan, sources, checkpoint=tmp_path / "ckpt",
        watermark={"sales.at": "max-diff:1s"}, ttl="10s",
    ).wait()  # fmt: skip
    state = sa.open_state(tmp_path / "ckpt")
    assert {row["who"] for row in view(tmp_path / "ckpt")} == {"bo"}
    assert state.show("tree1")["tree1"].num_rows == 1
    assert state.verify().ok
