"""Full batches on Spark: the rows and changes of incremental batches on the local executor, also after a restart."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from tests.e2e.running import starting
from tests.executors import ON_SPARK, drivers
from tests.local.run import run
from tests.refresh.test_rebuild import QUERIES, chosen_at_random, rows_of, tables_of
from tests.refresh.test_rebuild import changes_of as changed
from tests.views.brokerage import TABLES, Brokerage, sources, write


@pytest.mark.parametrize(("query", "batches"), [("aggregate", 12), ("joins", 4)])
def test_full_and_automatic_batches(
    spark: SparkSession, tmp_path: Path, query: str, batches: int
) -> None:
    """The run starts again half way. Spark has compacted its log of files in the tenth batch."""
    world = Brokerage(1)
    plan = sa.sql(QUERIES[query], {name: TABLES[name] for name in TABLES if name in QUERIES[query]})
    given = {name: spec for name, spec in sources(tmp_path).items() if name in QUERIES[query]}
    policies = ("incremental", "full", "auto")
    for number in range(batches):
        write(tmp_path, number, world.batch(40))
        if number + 1 not in (batches // 2, batches):
            continue
        for policy in policies:
            start = starting(None if policy == "incremental" else spark)
            with chosen_at_random(Random(number)):
                start(
                    plan, given, checkpoint=tmp_path / policy, outputs=["none"], refresh=policy
                ).wait()
    for policy in policies[1:]:
        assert changed(tmp_path / policy) == changed(tmp_path / "incremental"), policy
        assert sa.open_state(tmp_path / policy).verify().ok
    last = Checkpoint(tmp_path / "full").newest_snapshot()
    assert last is not None
    assert last.version == batches
    assert last.refresh.operators == tuple(range(len(last.operators)))


def test_a_full_batch_in_spark_jobs(spark: SparkSession, tmp_path: Path) -> None:
    given = {"trades": tables_of(tmp_path, 2, batches=3, rows=200)["trades"]}
    plan = sa.sql(QUERIES["stacked"], {"trades": TABLES["trades"]})
    for policy, session in (("incremental", None), ("full", spark)):
        with drivers(ON_SPARK):
            starting(session)(
                plan, given, checkpoint=tmp_path / policy, outputs=["none"], refresh=policy
            ).wait()
    assert changed(tmp_path / "full") == changed(tmp_path / "incremental")


@pytest.mark.parametrize("jobs", [False, True])
def test_a_join_that_evolves_to_more_columns(
    spark: SparkSession, tmp_path: Path, jobs: bool
) -> None:
    """An evolved join reads the files in Spark's log again, and the run continues with the next
    file.
    """
    given = tables_of(tmp_path, 4, batches=3)
    names = ("trades", "accounts")
    files = {name: sorted((tmp_path / name).iterdir())[-1] for name in names}
    plans = [
        sa.sql(
            f"SELECT a.broker, {measures} FROM trades t LEFT JOIN accounts a ON t.account_id = a.account_id "
            "GROUP BY a.broker",
            {name: TABLES[name] for name in names},
        )
        for measures in ("count(*) n", "count(*) n, sum(t.quantity) s, max(a.closed) c")
    ]
    used = {name: given[name] for name in names}
    for file in files.values():
        file.rename(tmp_path / file.parent.name.join(("later ", ".parquet")))
    with drivers(ON_SPARK) if jobs else nullcontext():
        sa.run(plans[0], used, checkpoint=tmp_path / "c", spark=spark, outputs=["none"]).wait()
        for file in files.values():
            (tmp_path / file.parent.name.join(("later ", ".parquet"))).rename(file)
        sa.run(
            plans[1], used, checkpoint=tmp_path / "c", spark=spark, outputs=["none"], evolve=True
        ).wait()
    run(plans[1], used, checkpoint=tmp_path / "whole", outputs=["none"]).wait()
    assert rows_of(tmp_path / "c")[3:] == rows_of(tmp_path / "whole")[2:]
    # With the tables, from the files in the log of Spark, all of it is computed again.
    assert not sa.open_state(tmp_path / "c").verify(deep=True, sources=used).findings
