"""Static tables on Spark: files and DataFrames, their cost in later batches, and the effect of
changes.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import substrait_agg as sa
from substrait_agg.errors import StateRefused
from substrait_agg.runtime.job import JobResult, OperatorJob
from tests.e2e.event_model import Rule, Table, drawn
from tests.e2e.plans import COMPARISON, Builder, aggregate, column, joined, read
from tests.e2e.running import check_versions, maintain
from tests.executors import ON_SPARK, drivers, watched
from tests.joins import test_static_event_time as event_time
from tests.joins.test_static_sources import (
    CITIES,
    FEED,
    OTHER,
    ROWS,
    SALES,
    plan,
    wanted,
    write_cities,
)
from tests.windowed import Windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "id long, name string"


def test_a_stream_joined_with_static_files(spark: SparkSession, tmp_path: Path) -> None:
    """The difference of a changed table is taken in where the rows of both sides are stored."""
    write_cities(tmp_path / "cities", ROWS)
    sources = {
        "sales": FEED.write(tmp_path),
        "cities": f"{tmp_path / 'cities'}/*.parquet?static=true",
    }
    checkpoint = tmp_path / "checkpoint"
    views = maintain(spark, plan("outer"), sources, checkpoint, partitions=4)
    check_versions(checkpoint, views, [wanted("outer", FEED.after(v), ROWS) for v in range(4)])
    write_cities(tmp_path / "cities", OTHER)
    with pytest.raises(StateRefused) as raised:
        maintain(spark, plan("outer"), sources, checkpoint)
    assert raised.value.code == "STATIC_TABLE_CHANGED"
    with drivers(ON_SPARK):
        views = maintain(spark, plan("outer"), sources, checkpoint, accept_source_change=True)
    assert views == {4: wanted("outer", FEED.after(3), OTHER)}
    assert sa.open_state(checkpoint).verify().ok


def enriched() -> str:
    """The sum of amounts by the name of the city, which an aggregate of the cities gives."""
    b = Builder()
    names = aggregate(
        read("cities", CITIES), [column(0), column(1)], [b.measure("count", output="i64!")]
    )
    on = b.call("equal:any_any", COMPARISON, column(0), column(2), output="bool")
    pairs = joined("inner", read("sales", SALES), names, on)
    total = b.measure("sum", (column(1), "i64"), output="i64")
    return b.plan(aggregate(pairs, [column(3)], [total]), "name", "amount")


def test_a_stream_joined_with_a_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    """The DataFrame is read in the first version, and compared when a run continues."""
    cities = spark.createDataFrame(ROWS, SCHEMA)
    sources: dict[str, Any] = {"sales": FEED.write(tmp_path), "cities": cities}
    checkpoint = tmp_path / "checkpoint"
    tasks: Counter[tuple[int, int]] = Counter()

    def watch(_executor: Any, job: OperatorJob, result: JobResult) -> None:
        tasks[job.node.id, job.version] += len(result.tasks)

    with watched(watch):
        views = maintain(spark, enriched(), sources, checkpoint)
    assert [tasks[0, version] > 0 for version in sorted(views)] == [True, False, False, False]
    for version, view in views.items():
        sums: Counter[Any] = Counter()
        for (_, amount, _, name), n in wanted("inner", FEED.after(version), ROWS).items():
            sums[name] += amount * n
        assert view == Counter(dict.fromkeys(sums.items(), 1))
    state = sa.open_state(checkpoint)
    assert set(state.at().operators[1].trees) == {"rows1"}
    assert state.verify().ok
    # The same rows in another order are the same table.
    sources["cities"] = spark.createDataFrame(ROWS[::-1], SCHEMA).repartition(3)
    assert maintain(spark, enriched(), sources, checkpoint) == {}
    for rows in (OTHER, [*ROWS, ROWS[0]], [(None, "x") for _ in ROWS]):
        sources["cities"] = spark.createDataFrame(rows, SCHEMA)
        with pytest.raises(StateRefused) as raised:
            maintain(spark, enriched(), sources, checkpoint)
        assert raised.value.code == "STATIC_TABLE_CHANGED"


def test_late_rows_are_found_behind_a_lookup_join(spark: SparkSession, tmp_path: Path) -> None:
    """Groups above the join close as those over the table do."""
    table = Table("goals", drawn(3, batches=4), Rule(behind=10))
    given = event_time.sources(tmp_path, table)
    watermark = {"goals.t": "max-diff:10s"}
    goals = {"goals": given["goals"]}
    wanted = maintain(
        None, event_time.without_teams(Windows()), goals, tmp_path / "plain", watermark=watermark
    )
    checkpoint = tmp_path / "checkpoint"
    plan = event_time.with_teams(Windows(), "left")
    assert maintain(spark, plan, given, checkpoint, watermark=watermark) == wanted
    states = [sa.open_state(folder) for folder in (tmp_path / "plain", checkpoint)]
    closed = [
        state.show(operator=number, tree="closed", limit=None)["closed"].num_rows
        for number, state in enumerate(states)
    ]
    assert closed[0] == closed[1] > 0
    assert sum(states[1].at(version).counters["late"] for version in wanted)
