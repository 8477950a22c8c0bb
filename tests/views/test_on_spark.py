"""Several views in one run on Spark, killed and continued."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import substrait_agg as sa
from tests.views import brokerage
from tests.views.brokerage import PIPELINE, Brokerage, write
from tests.views.plans import ALL, BATCHES, expected, rows_of, sources, write_batches


def test_views_on_spark_equal_their_queries(spark: SparkSession, tmp_path: Path) -> None:
    write_batches(tmp_path, BATCHES[:2])
    given = sources(tmp_path)
    for first in (2, None):
        started = sa.run(
            ALL, given, checkpoint=tmp_path / "ckpt", spark=spark, outputs=["none"], partitions=2
        )
        started.wait()
        if first is not None:
            write_batches(tmp_path, BATCHES[first:], first)
    assert {view.view for view in started.progress.views} == ALL.keys()
    for name in ALL:
        view = sa.open_view(tmp_path / "ckpt", name)
        assert view.version == len(BATCHES)
        for version in range(1, len(BATCHES) + 1):
            assert rows_of(view.to_arrow(version)) == expected(BATCHES[:version])[name]
    assert sa.open_state(tmp_path / "ckpt").verify().ok


def test_a_folder_of_sql_runs_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    world = Brokerage(1)
    for number in range(2):
        write(tmp_path, number, world.batch(40))
    given = brokerage.sources(tmp_path)
    plans = sa.sql_views(PIPELINE, given)
    sa.run(
        plans, given, checkpoint=tmp_path / "ckpt", spark=spark, outputs=["none"], partitions=2
    ).wait()
    want = brokerage.expected(world.rows)
    for name in plans.keys() - plans.temporary:
        found = rows_of(sa.open_view(tmp_path / "ckpt", name).to_arrow())
        assert found == want[name], name
