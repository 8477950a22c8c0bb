"""Event time where it is easily got wrong: what comes and goes in one version, filters that let nothing through, idle runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import substrait_agg as sa
from substrait_agg.commit.store import Checkpoint
from substrait_agg.flow import lower
from substrait_agg.operator.policy import EVERY_BATCH
from substrait_agg.operator.watermarks import Ttl
from substrait_agg.spark.batches import FIRST_BATCH, Batches
from substrait_agg.spark.document import plan_document
from substrait_agg.spark.event_state import BatchTimes, EventOptions
from substrait_agg.spark.timing import timed_flow
from tests.e2e import plans
from tests.e2e.event_model import SECOND, Change, Table
from tests.windowed import COUNT, SUM, Windows, aggregate, column, interval

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from substrait_agg.metrics import Progress

pytestmark = pytest.mark.spark


def by_team() -> str:
    """Count and sum per team."""
    windows = Windows()
    return windows.plan(aggregate(windows.read(), [column(0)], (COUNT, SUM)), "team", "c", "s")


def per_minute(condition: Any) -> str:
    """Count per team and minute of the rows for which a condition holds."""
    windows = Windows()
    source = plans.filtered(windows.read(), condition)
    keys = [column(0), windows.call("tumble_end", interval(60))]
    return windows.plan(aggregate(source, keys, (COUNT,)), "team", "w", "c")


def files(folder: Path, *batches: list[Change]) -> dict[str, str]:
    return {"goals": Table("goals", batches).write(folder)}


def test_a_group_that_comes_and_is_forgotten_in_one_version_is_no_change(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A first batch over old files brings groups that the watermark of the same batch lets go of. They are not
    retracted before they were ever emitted, and a group that was there is retracted as it was."""
    sources = files(
        tmp_path,
        [(("a", 1, 1), 1), (("b", 3_000, 2), 1)],
        [(("b", 2_990, 7), 1), (("c", 3_001, 3), 1), (("d", 9_000, 4), 1)],
    )
    events = tmp_path / "events.json"
    sa.run(
        by_team(), sources, checkpoint=tmp_path / "checkpoint", spark=spark, partitions=2,
        watermark={"goals.t": "max-diff:1s"}, ttl="100s", outputs=[f"debezium-json={events}"],
    ).wait()  # fmt: skip
    changes = sa.open_view(tmp_path / "checkpoint").changes()
    assert [tuple(row.values()) for row in changes.to_pylist()] == [
        ("b", 1, 2, 1, 1), ("b", 1, 2, 2, -1), ("d", 1, 4, 2, 1),
    ]  # fmt: skip
    told = [json.loads(line) for line in events.read_text().splitlines()]
    assert [event.get("payload", event)["op"] for event in told] == ["c", "d", "c"]


@pytest.mark.parametrize("rule", ["max-diff:5s", "percentile:0:3:1"])
def test_a_filter_that_is_never_true_does_not_hold_the_watermark(
    rule: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark does not even read the rows then; the watermark is that of all rows all the same."""
    sources = files(tmp_path, [(("a", 1, 1), 1), (("a", 100, 1), 1)], [(("a", 2, 1), 1)])
    seen: list[Progress] = []
    sa.run(
        per_minute(plans.literal("boolean", False)), sources, checkpoint=tmp_path / "checkpoint",
        spark=spark, watermark={"goals.t": rule}, progress=seen.append,
    ).wait()  # fmt: skip
    reached = (95 if rule == "max-diff:5s" else 100) * SECOND
    assert [p.watermark for p in seen[:3]] == [None, reached, reached]
    assert sa.open_view(tmp_path / "checkpoint").to_arrow().num_rows == 0


def test_an_idle_run_makes_no_versions(tmp_path: Path) -> None:
    """By the clock the bound of a time to live moves on and on; only where it passes a group is there something to commit."""
    instant = [0]
    options = EventOptions(ttl=Ttl(800))
    flow = timed_flow(lower(sa.load(by_team()).bound()), {}, options, EVERY_BATCH)
    store = Checkpoint(tmp_path)
    store.create(plan_document(flow, options))
    batches = Batches(flow, store, 2, lambda _: None, events=options, clock=lambda: instant[0])
    none: Any = None  # nothing of this needs Spark
    batches.run(none, {}, None, FIRST_BATCH)
    batches.run(none, {}, "query", 0, BatchTimes(0))
    made = store.versions()
    for instant[0] in range(0, 10_000, 100):
        batches.advance(none)
    assert store.versions() == made
