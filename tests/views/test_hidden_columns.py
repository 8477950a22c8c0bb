"""Views in the order of a value that they do not show."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import substrait_agg as sa
from substrait_agg.changes.outputs.sinks import Sink
from substrait_agg_cli.main import main
from tests.local.run import run

pytestmark = pytest.mark.usefixtures("spark")

TABLE = "CREATE TABLE t (region string, amount bigint); "
OF_REGIONS = "FROM (SELECT region, sum(amount) AS s FROM t GROUP BY region) q"
BATCHES: tuple[list[tuple[str, int | None]], ...] = (
    [("a", 5), ("bb", 3), ("ccc", 9), ("a", 1)],
    [("bb", 20)],
    [("ccc", 30), ("dddd", None), ("bb", 1)],
)
"""The rows of each file. After all of them the sums are a 6, bb 24, ccc 39, dddd null."""

ORDERS: dict[str, list[dict[str, Any]]] = {
    f"SELECT region {OF_REGIONS} ORDER BY s DESC NULLS FIRST": [
        {"region": region} for region in ("dddd", "ccc", "bb", "a")
    ],
    f"SELECT region, s {OF_REGIONS} ORDER BY 0 - s NULLS LAST": [
        {"region": "ccc", "s": 39},
        {"region": "bb", "s": 24},
        {"region": "a", "s": 6},
        {"region": "dddd", "s": None},
    ],
    f"SELECT s {OF_REGIONS} ORDER BY region DESC": [{"s": s} for s in (None, 39, 24, 6)],
    f"SELECT s IS NULL AS n {OF_REGIONS} ORDER BY s * 2 DESC NULLS LAST": [
        {"n": n} for n in (False, False, False, True)
    ],
    "SELECT region FROM t ORDER BY amount NULLS LAST, region": [
        {"region": region} for region in ("a", "bb", "bb", "a", "ccc", "bb", "ccc", "dddd")
    ],
}  # fmt: skip
"""Query -> the rows of its view after all batches."""


class ViewKeeper(Sink):
    """Keeps the view that it gets."""

    takes_view = True

    def __init__(self) -> None:
        self.view: Any = None

    def finish(self, view: pa.Table, version: int) -> None:
        """Keep the view."""
        self.view = view


def write(folder: Path) -> str:
    folder.mkdir()
    for number, rows in enumerate(BATCHES):
        regions, amounts = [r for r, _ in rows], [a for _, a in rows]
        table = pa.table({"region": regions, "amount": pa.array(amounts, pa.int64())})
        pq.write_table(table, folder / f"{number}.parquet")
    return f"parquet:{folder}?batch-files=1"


@pytest.mark.parametrize("query", ORDERS)
def test_the_view_has_the_order_and_nobody_sees_the_key(query: str, tmp_path: Path) -> None:
    source, checkpoint, seen = write(tmp_path / "t"), tmp_path / "ckpt", ViewKeeper()
    changed: list[pa.Table] = []

    def keep(changes: pa.Table, _version: int) -> None:
        changed.append(changes)

    plan = sa.sql(TABLE + query)
    options: dict[str, Any] = {"outputs": [seen], "on_changes": keep}
    run(plan, {"t": source}, checkpoint=checkpoint, **options).wait()
    view, expected = sa.open_view(checkpoint), ORDERS[query]
    names = list(expected[0])
    assert view.to_arrow().to_pylist() == expected
    assert view.schema.names == view.to_reader().schema.names == names
    assert seen.view.to_pylist() == expected
    sums: Counter[tuple[Any, ...]] = Counter()
    for changes in changed:
        assert changes.column_names == [*names, "__version", "__weight"]
        rows = [tuple(row.values()) for row in changes.to_pylist()]
        assert len({row[:-1] for row in rows}) == len(rows), "equal rows are consolidated"
        for *values, _, weight in rows:
            sums[tuple(values)] += weight
    assert sums == Counter(tuple(row.values()) for row in expected)
    assert sa.open_state(checkpoint).verify().ok


def test_the_command_shows_the_order(tmp_path: Path) -> None:
    source, checkpoint = write(tmp_path / "t"), tmp_path / "ckpt"
    plan = sa.sql(f"{TABLE}SELECT region {OF_REGIONS} ORDER BY s NULLS LAST")
    run(plan, {"t": source}, checkpoint=checkpoint, outputs=["none"]).wait()
    shown = CliRunner().invoke(main, ["view", str(checkpoint), "--format", "csv"])
    assert shown.output.splitlines() == ["region", "a", "bb", "ccc", "dddd"]


def test_a_view_over_a_view_with_a_hidden_column(tmp_path: Path) -> None:
    source, checkpoint = write(tmp_path / "t"), tmp_path / "ckpt"
    views = sa.sql_views(
        f"{TABLE}CREATE VIEW regions AS SELECT region {OF_REGIONS} ORDER BY s NULLS LAST; "
        "CREATE VIEW n AS SELECT count(*) AS n, max(region) AS last FROM regions"
    )
    run(views, {"t": source}, checkpoint=checkpoint, outputs=["none"]).wait()
    assert sa.open_view(checkpoint, "n").to_arrow().to_pylist() == [{"n": 4, "last": "dddd"}]
    in_order = sa.open_view(checkpoint, "regions").to_arrow().to_pylist()
    assert [row["region"] for row in in_order] == ["a", "bb", "ccc", "dddd"]


def test_the_explanation_says_that_the_key_is_not_shown() -> None:
    text = sa.explain(sa.sql(f"{TABLE}SELECT region {OF_REGIONS} ORDER BY s NULLS LAST"))
    assert "order by sum(amount) ascending, nulls last, which the view does not show" in text
