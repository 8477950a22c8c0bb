"""A run that is killed with kill -9 and started again ends as one that never was: its view and all its changes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import substrait_agg as sa
from substrait_agg.commit import View
from tests.e2e.killing import Command, newest
from tests.e2e.lineitem import BATCHES, Stream
from tests.e2e.rows import bag, changes_by_version, running_sums
from tests.e2e.tpch import PRODUCERS, Producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STEPS = (1, 4, 6)


def _command(producer: Producer, query: str, stream: Stream, folder: Path) -> Command:
    arguments = (
        str(producer.plan(query)),
        "--source",
        f"lineitem=parquet:{stream.folder}?op=op&batch-files=1",
        "--output",
        f"changes-parquet={folder / 'out'}",
        "--output",
        f"stream-json={folder / 'out.jsonl'}",
        "--no-progress",
        "--master",
        "local[2]",
    )
    return Command(arguments, folder / "checkpoint", folder / "log")


def _undisturbed(
    spark: SparkSession, producer: Producer, query: str, stream: Stream, folder: Path
) -> View:
    source = f"parquet:{stream.folder}?op=op&batch-files=1"
    checkpoint = folder / "undisturbed"
    outputs = [f"changes-parquet={folder / 'whole'}", f"stream-json={folder / 'whole.jsonl'}"]
    sa.run(
        producer.plan(query),
        {"lineitem": source},
        checkpoint=checkpoint,
        spark=spark,
        outputs=outputs,
    ).wait()
    return sa.open_view(checkpoint)


def _check_same(killed: View, whole: View, folder: Path) -> None:
    assert killed.versions() == whole.versions() == list(range(BATCHES + 1))
    assert bag(killed.to_arrow()) == bag(whole.to_arrow())
    assert changes_by_version(killed.changes()) == changes_by_version(whole.changes())
    running_sums(killed.changes(), killed.versions())
    for name in ("out", "whole"):
        assert len(list((folder / name).iterdir())) == BATCHES
    lines = [sorted((folder / n).read_text().splitlines()) for n in ("out.jsonl", "whole.jsonl")]
    assert lines[0] == lines[1]


def _kills(rng: random.Random) -> Iterator[tuple[int, float]]:
    for step in STEPS:
        yield step, rng.uniform(0, 0.8)


def test_three_kills_leave_no_trace(spark: SparkSession, lineitem: Stream, tmp_path: Path) -> None:
    """Killed in the first batch, among the rest, again; view, changes per version and both outputs are the same."""
    producer = PRODUCERS["datafusion-55"]
    whole = _undisturbed(spark, producer, "q01", lineitem, tmp_path)
    command = _command(producer, "q01", lineitem, tmp_path)
    for step, delay in _kills(random.Random(7)):
        assert command.kill_after(step, delay) < BATCHES
    command.finish()
    _check_same(sa.open_view(command.checkpoint), whole, tmp_path)
    wanted = producer.expected("q01", lineitem.alive[-1])
    assert bag(sa.open_view(command.checkpoint).to_arrow()) == wanted


@pytest.mark.soak
@pytest.mark.parametrize("query", ["q01", "q06"])
@pytest.mark.parametrize("name", PRODUCERS)
def test_a_kill_between_any_two_versions(
    spark: SparkSession, lineitem: Stream, tmp_path: Path, name: str, query: str
) -> None:
    """Killed after every single version, at a random moment of the batch that follows."""
    producer, rng = PRODUCERS[name], random.Random(11)
    whole = _undisturbed(spark, producer, query, lineitem, tmp_path)
    command = _command(producer, query, lineitem, tmp_path)
    while newest(command.checkpoint) < BATCHES - 1:
        command.kill_after(1, rng.uniform(0, 0.5))
    command.finish()
    _check_same(sa.open_view(command.checkpoint), whole, tmp_path)
