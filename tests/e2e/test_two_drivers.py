"""Two drivers on one checkpoint: one continues, the other stops with a conflict and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import CommitConflict
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.passes.lower import lower
from substrait_agg.runtime.batch.microbatch import MicroBatches
from substrait_agg.runtime.batch.settings import BatchSettings
from substrait_agg.spark.query.document import plan_document
from tests.crash.scenario import local_executor

PLAN = Path(__file__).parents[2] / "plans" / "bench" / "count_sum_avg.bin"


def driver(flow: Flow, folder: Path | str) -> MicroBatches[pa.Table]:
    """A driver that has just been started."""
    store = Checkpoint(folder)
    store.create(plan_document(flow))
    return MicroBatches(BatchSettings(flow, store, local_executor(), 2), lambda _: None)


def rows(*values: tuple[int, int, float]) -> dict[int, pa.Table]:
    """Prepared rows of the one operator: its key, and the columns that it sums."""
    columns = zip(*values, strict=True)
    return {0: pa.table({n: pa.array(c) for n, c in zip(("k0", "x0", "x1"), columns, strict=True)})}


def test_the_loser_stops_and_the_winner_goes_on(tmp_path: Path) -> None:
    """Two drivers compute the same version; the one that publishes first continues, also against a
    suspended driver.
    """
    flow = lower(sa.load(PLAN).bind())
    first, second = driver(flow, tmp_path), driver(flow, tmp_path)
    first.run({})
    with pytest.raises(CommitConflict):
        second.run({})
    sleeper = driver(flow, tmp_path)
    first.run(rows((1, 10, 0.5), (2, 20, 0.25)))
    first.run(rows((1, 30, 1.5)))
    with pytest.raises(CommitConflict):
        sleeper.run(rows((1, 999, 9.0)))
    first.run(rows((3, 1, 1.0)))
    view = sa.open_view(tmp_path)
    assert view.versions() == [0, 1, 2, 3]
    shown = sorted(view.to_arrow().to_pylist(), key=lambda row: row["k"])
    assert [tuple(row.values()) for row in shown] == [
        (1, 2, 40, 1.0), (2, 1, 20, 0.25), (3, 1, 1, 1.0),
    ]  # fmt: skip
