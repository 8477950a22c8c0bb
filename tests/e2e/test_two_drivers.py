"""Two drivers on one checkpoint: one goes on, the other stops with a conflict and harms nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import CommitConflict, StateRefused
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.passes.lower import lower
from substrait_agg.spark.inputs.linear_steps import apply_steps, prepare
from substrait_agg.spark.query.document import plan_document
from substrait_agg.spark.query.microbatch import FIRST_BATCH, MicroBatches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLAN = Path(__file__).parents[2] / "plans" / "bench" / "count_sum_avg.bin"
QUERY = "the streaming query"


def driver(flow: Flow, folder: Path | str) -> MicroBatches:
    """A driver that has just been started."""
    store = Checkpoint(folder)
    store.create(plan_document(flow))
    return MicroBatches(flow, store, 2, lambda _: None)


def rows(spark: SparkSession, flow: Flow, *values: tuple[int, int, float]) -> dict[int, DataFrame]:
    """Prepared rows of the one operator."""
    (node,) = flow.operators
    frame = spark.createDataFrame(list(values), "c0 bigint, c1 bigint, c2 double")
    return {0: prepare(apply_steps(frame, node.branches[0].steps), node)}


@pytest.mark.spark
def test_the_loser_stops_and_the_winner_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """Both compute the same version; the one that publishes first has it, also against a driver that slept."""
    flow = lower(sa.load(PLAN).bound())
    first, second = driver(flow, tmp_path), driver(flow, tmp_path)
    first.run(spark, {}, None, FIRST_BATCH)
    with pytest.raises(CommitConflict):
        second.run(spark, {}, None, FIRST_BATCH)
    sleeper = driver(flow, tmp_path)
    first.run(spark, rows(spark, flow, (1, 10, 0.5), (2, 20, 0.25)), QUERY, 0)
    first.run(spark, rows(spark, flow, (1, 30, 1.5)), QUERY, 1)
    with pytest.raises(CommitConflict):
        sleeper.run(spark, rows(spark, flow, (1, 999, 9.0)), QUERY, 0)
    first.run(spark, rows(spark, flow, (3, 1, 1.0)), QUERY, 2)
    view = sa.open_view(tmp_path)
    assert view.versions() == [0, 1, 2, 3]
    shown = sorted(view.to_arrow().to_pylist(), key=lambda row: row["k"])
    assert [tuple(row.values()) for row in shown] == [
        (1, 2, 40, 1.0), (2, 1, 20, 0.25), (3, 1, 1, 1.0),
    ]  # fmt: skip


@pytest.mark.spark
def test_replayed_batches_are_known_and_skipped_ones_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark repeats what it has not noted as done; it never runs ahead of what is committed."""
    flow = lower(sa.load(PLAN).bound())
    batches = driver(flow, tmp_path)
    batches.run(spark, {}, None, FIRST_BATCH)
    assert not batches.seen(QUERY, 0)
    batches.run(spark, rows(spark, flow, (1, 10, 0.5)), QUERY, 0)
    assert batches.seen(QUERY, 0)
    assert not batches.seen(QUERY, 1)
    restarted = driver(flow, tmp_path)
    assert restarted.seen(QUERY, 0)
    with pytest.raises(StateRefused) as refused:
        restarted.seen(QUERY, 2)
    assert refused.value.code == "OFFSETS_DIFFER"
