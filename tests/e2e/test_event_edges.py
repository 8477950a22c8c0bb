"""Edge cases of event time: rows that come and go in one version, filters that drop all rows, idle runs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import UsageError
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.common.watermarks import Ttl
from substrait_agg.runtime.batch.microbatch import MicroBatches
from substrait_agg.runtime.batch.settings import BatchSettings
from substrait_agg.runtime.event_state import BatchTimes, EventOptions
from substrait_agg.spark.inputs.event_time_setup import read_forget
from substrait_agg.spark.query.document import plan_document
from tests.crash.scenario import local_executor
from tests.e2e import plans
from tests.e2e.event_model import SECOND, Change, Table, instant
from tests.e2e.files import write_in_order
from tests.e2e.running import starting
from tests.local.run import run
from tests.windowed import COUNT, SUM, Windows, aggregate, column, interval

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from substrait_agg.metrics import Progress


def by_team() -> str:
    """Count and sum per team."""
    windows = Windows()
    return windows.plan(aggregate(windows.read(), [column(0)], (COUNT, SUM)), "team", "c", "s")


def per_minute(condition: Any) -> str:
    """Count the rows for which a condition is true, per team and minute."""
    windows = Windows()
    source = plans.filtered(windows.read(), condition)
    keys = [column(0), windows.call("tumble_end", interval(60))]
    return windows.plan(aggregate(source, keys, (COUNT,)), "team", "w", "c")


def files(folder: Path, *batches: list[Change]) -> dict[str, str]:
    return {"goals": Table("goals", batches).write(folder)}


def test_a_group_that_comes_and_is_forgotten_in_one_version_is_no_change(tmp_path: Path) -> None:
    """A group that one batch creates and evicts is no change.

    The first batch reads old files, and its watermark evicts their groups. They are not retracted,
    because they were never emitted; a stored group is retracted with the row that was emitted.
    """
    sources = files(
        tmp_path,
        [(("a", 1, 1), 1), (("b", 3_000, 2), 1)],
        [(("b", 2_990, 7), 1), (("c", 3_001, 3), 1), (("d", 9_000, 4), 1)],
    )
    events = tmp_path / "events.json"
    run(
        by_team(), sources, checkpoint=tmp_path / "checkpoint", partitions=2,
        watermark={"goals.t": "max-diff:1s"}, ttl="100s", outputs=[f"debezium-json={events}"],
    ).wait()  # fmt: skip
    changes = sa.open_view(tmp_path / "checkpoint").changes()
    assert [tuple(row.values()) for row in changes.to_pylist()] == [
        ("b", 1, 2, 1, 1), ("b", 1, 2, 2, -1), ("d", 1, 4, 2, 1),
    ]  # fmt: skip
    told = [json.loads(line) for line in events.read_text().splitlines()]
    assert [event.get("payload", event)["op"] for event in told] == ["c", "d", "c"]


@pytest.mark.parametrize("rule", ["max-diff:5s", "percentile:0:3:1"])
def test_a_filter_that_is_never_true_does_not_hold_the_watermark(rule: str, tmp_path: Path) -> None:
    """The watermark follows all rows, although Spark does not read them for a filter that is always
    false.
    """
    sources = files(tmp_path, [(("a", 1, 1), 1), (("a", 100, 1), 1)], [(("a", 2, 1), 1)])
    seen: list[Progress] = []
    starting(None)(
        per_minute(plans.literal("boolean", False)), sources, checkpoint=tmp_path / "checkpoint",
        watermark={"goals.t": rule}, progress=seen.append,
    ).wait()  # fmt: skip
    reached = (95 if rule == "max-diff:5s" else 100) * SECOND
    assert [p.watermark for p in seen[:3]] == [None, reached, reached]
    assert sa.open_view(tmp_path / "checkpoint").to_arrow().num_rows == 0


def test_rows_above_a_group_that_waits_are_not_closed(tmp_path: Path) -> None:
    """Rows above a pending group are not closed, because the group can still change."""
    windows = Windows()
    counted = aggregate(
        windows.read(), [column(0), windows.call("tumble_end", interval(10))], (COUNT,)
    )
    sources = files(
        tmp_path,
        [(("a", 1, 1), 1), (("a", 2, 1), 1), (("b", 1, 1), 1)],
        [(("a", 3, 1), 1)],
        [(("b", 100, 1), 1)],
        [(("b", 200, 1), 1)],
    )
    run(
        windows.plan(plans.filtered(counted, plans.literal("boolean", True)), "team", "w", "c"),
        sources, checkpoint=tmp_path / "checkpoint", emit="count:2",
        watermark={"goals.t": "max-diff:0s"},
    ).wait()  # fmt: skip
    view = sa.open_view(tmp_path / "checkpoint")
    shown = Counter(tuple(row.values()) for row in view.to_arrow().to_pylist())
    at = [instant(second) for second in (10, 110, 210)]
    assert shown == Counter([("a", at[0], 3), *(("b", end, 1) for end in at)])


def test_a_table_that_is_read_once_has_no_watermark(spark: SparkSession, tmp_path: Path) -> None:
    """A watermark on a static table is refused: it would never advance."""
    frame = spark.createDataFrame([("a", None, 1)], "team string, t timestamp_ntz, n bigint")
    with pytest.raises(UsageError) as refused:
        sa.run(
            by_team(), {"goals": frame}, checkpoint=tmp_path / "checkpoint", spark=spark,
            watermark={"goals.t": "max-diff:1s"},
        )  # fmt: skip
    assert (refused.value.code, refused.value.path) == ("OPTION_CONFLICT", "watermark")
    assert not (tmp_path / "checkpoint").exists()


def test_rows_that_replace_one_another_keep_their_groups_by_their_times(tmp_path: Path) -> None:
    """Groups over upserts are evicted by event time, although the plan does not read that column."""
    columns = {"team": pa.string(), "t": pa.timestamp("us"), "n": pa.int64()}
    for number, values in enumerate(
        ([("a", 1, 1), ("b", 5, 2)], [("b", 60, 2), ("c", 70, 3)], [("d", 130, 4)])
    ):
        rows = [(team, t * SECOND, n) for team, t, n in values]
        table = pa.table(
            [
                pa.array(c, type_)
                for c, type_ in zip(zip(*rows, strict=True), columns.values(), strict=True)
            ],
            list(columns),
        )
        write_in_order(tmp_path / "goals", [table], number)
    run(
        by_team(), {"goals": f"parquet:{tmp_path / 'goals'}?key=n&batch-files=1"}, ttl="100s",
        checkpoint=tmp_path / "checkpoint", watermark={"goals.t": "max-diff:0s"},
    ).wait()  # fmt: skip
    shown = sa.open_view(tmp_path / "checkpoint").to_arrow().to_pylist()
    assert sorted(row["team"] for row in shown) == ["b", "c", "d"]


def test_an_idle_run_makes_no_versions(tmp_path: Path) -> None:
    """An idle run with a TTL commits a version only if a group has to be evicted."""
    instant = [0]
    options = EventOptions(ttl=Ttl(800))
    flow = lower(sa.load(by_team()).bind(), forget=read_forget(options))
    store = Checkpoint(tmp_path)
    store.create(plan_document(flow, options))
    settings = BatchSettings(
        flow, store, local_executor(), 2, events=options, clock=lambda: instant[0]
    )
    batches = MicroBatches(settings, lambda _: None)
    batches.run({})
    batches.run({}, BatchTimes(0))
    made = store.versions()
    for instant[0] in range(0, 10_000, 100):
        batches.advance()
    assert store.versions() == made
