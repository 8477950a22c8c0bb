"""How often the rows of a small batch are read, for every kind of source."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from tests.e2e.feeds import Change, Feed
from tests.e2e.plans import COMPARISON, Builder, column, joined, projected, read
from tests.e2e.rows import Bag, bag
from tests.e2e.running import check_versions
from tests.executors import drivers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEFT = {"k": "i64", "a": "string"}
RIGHT = {"k": "i64", "b": "string"}
LEFT_CHANGES: list[list[Change]] = [[((1, "p"), 1), ((2, "q"), 1)], [((2, "q"), -1)], [((2, "r"), 1)]]  # fmt: skip
RIGHT_CHANGES: list[list[Change]] = [[((1, "x"), 1), ((2, "y"), 1)], [((2, "z"), 1)]]
WANTED: list[Bag] = [
    Counter(),
    Counter({("p", "x", "x"): 1, ("q", "y", "y"): 1}),
    Counter({("p", "x", "x"): 1}),
    Counter({("p", "x", "x"): 1, **{("r", a, b): 1 for a in "yz" for b in "yz"}}),
]


def plan() -> str:
    """The left table joined with the right one, twice."""
    b = Builder()
    on = [
        b.call("equal:any_any", COMPARISON, column(0), column(at), output="bool") for at in (2, 4)
    ]
    once = joined("inner", read("l", LEFT), read("r", RIGHT), on[0])
    twice = joined("inner", once, read("r", RIGHT), on[1])
    return b.plan(projected(twice, 6, column(1), column(3), column(5)), "a", "b", "c")


def as_json(feed: Feed, folder: Path) -> str:
    """Write a feed as JSON files."""
    spec = feed.write(folder)
    for path in sorted((folder / feed.table).iterdir()):
        rows = pq.read_table(path).to_pylist()
        lines = path.with_suffix(".json")
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
        shutil.copystat(path, lines)  # Spark orders files by the time of their last change
        path.unlink()
    return spec.replace("parquet:", "json:")


@pytest.mark.parametrize(
    ("how", "jobs"), [("files", 0), ("no reader", 3), ("two formats", 2), ("large", 0)]
)
def test_a_batch_is_read_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, jobs: int
) -> None:
    """By the driver from Parquet files, by one job, or on Spark where the batch is large.

    The last batch of the two formats has Parquet files only.
    """
    from substrait_agg.spark.execution.driver import Driver

    collected: list[bool] = []

    class NotingDriver(Driver):
        def collect_table(self, frame: DataFrame) -> Any:
            collected.append(True)
            return super().collect_table(frame)

    if how == "no reader":
        monkeypatch.setattr("substrait_agg.spark.sources.open.parquet_reader", lambda *_: None)
    left, right = Feed("l", LEFT, "op", LEFT_CHANGES), Feed("r", RIGHT, "op", RIGHT_CHANGES)
    written = as_json(right, tmp_path) if how == "two formats" else right.write(tmp_path)
    sources = {"l": left.write(tmp_path), "r": written}
    checkpoint, views = tmp_path / "checkpoint", {}

    def keep(progress: Any) -> None:
        views[progress.version] = bag(sa.open_view(checkpoint).to_arrow(progress.version))

    with drivers(NotingDriver(batch_bytes=0 if how == "large" else 1 << 18)):
        options: dict[str, Any] = {"checkpoint": checkpoint, "spark": spark, "partitions": 2}
        sa.run(plan().encode(), sources, progress=keep, **options).wait()
    check_versions(checkpoint, views, WANTED)
    assert len(collected) == jobs
