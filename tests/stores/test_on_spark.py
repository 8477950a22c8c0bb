"""Runs with a checkpoint in an object store behave like those on a folder, also after a kill and on
another machine.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import substrait_agg as sa
from substrait_agg.errors import CommitConflict, StateRefused
from substrait_agg.flow.passes.lower import lower
from substrait_agg_cli.main import main
from tests.e2e.feeds import Change, Feed, check
from tests.e2e.killing import Command
from tests.e2e.plans import Builder, aggregate, column, read
from tests.e2e.rows import Bag, bag, changes_by_version, running_sums
from tests.e2e.test_two_drivers import PLAN, driver
from tests.e2e.test_two_drivers import rows as some_rows
from tests.kills.stream import make_stream
from tests.stores.emulator import Emulator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BATCHES = 14
COLUMNS = {"a": "string", "b": "i32", "x": "i64"}


def feed(batches: int, seed: int = 3) -> Feed:
    """Rows that come, and go in a later batch."""
    rng, alive = random.Random(seed), list[tuple[Any, ...]]()
    made: list[list[Change]] = []
    for _ in range(batches):
        gone = [alive.pop(rng.randrange(len(alive))) for _ in range(len(alive) // 2)]
        new = [
            (rng.choice(["p", "q", None]), rng.randint(0, 2), rng.randint(-9, 9)) for _ in range(6)
        ]
        alive += new
        made.append([(row, -1) for row in gone] + [(row, 1) for row in new])
    return Feed("t", COLUMNS, "op", made)


def chained() -> str:
    """SELECT a, count(*), sum(s), max(m) FROM (SELECT a, b, sum(x) s, max(x) m FROM t GROUP BY a, b) GROUP BY a."""
    b = Builder()
    x = (column(2), "i64")
    inner = [b.measure("sum", x, output="i64"), b.measure("max", x, output="i64")]
    below = aggregate(read("t", COLUMNS), [column(0), column(1)], inner)
    outer = [
        b.measure("count", output="i64!"),
        b.measure("sum", x, output="i64"),
        b.measure("max", (column(3), "i64"), output="i64"),
    ]
    return b.plan(aggregate(below, [column(0)], outer), "a", "n", "s", "m")


def computed(rows: Bag) -> Bag:
    """The same by hand."""
    groups: dict[Any, dict[Any, list[int]]] = {}
    for (a, b, x), weight in rows.items():
        groups.setdefault(a, {}).setdefault(b, []).extend([x] * weight)
    return Counter(
        (a, len(parts), sum(map(sum, parts.values())), max(map(max, parts.values())))
        for a, parts in groups.items()
    )


def test_every_version_of_chained_aggregates(
    spark_and_s3: SparkSession, s3: Emulator, tmp_path: Path
) -> None:
    """Rows that come and go, over several batches; the tools report them correctly."""
    bucket = s3.bucket("chained-aggregates")
    where = f"{bucket}/checkpoint"
    check(spark_and_s3, tmp_path, chained(), [feed(11)], computed, bucket)
    state = sa.open_state(where)
    assert state.verify().to_json()["findings"] == []
    assert state.ls().total == 12
    assert state.show()["group"].num_rows == sa.open_view(where).to_arrow().num_rows
    shown = CliRunner().invoke(main, ["view", where, "--format", "csv"])
    assert shown.exit_code == 0, shown.output
    assert len(shown.output.splitlines()) == 1 + sa.open_view(where).to_arrow().num_rows
    assert not any("draft" in key or "probe" in key for key in s3.keys("chained-aggregates"))


def run_of(folder: Path, where: str, sources: str, machine: str) -> Command:
    """The command on a machine without any earlier files."""
    plan = folder / "plan.json"
    plan.write_text(chained())
    cache = folder / machine
    cache.mkdir(mode=0o700)
    arguments = (str(plan), "--source", f"t={sources}", "--output", "none", "--no-progress")
    spark = ("--master", "local[2]", "--keep-versions", "3")
    return Command((*arguments, *spark), where, folder / "log", {"SUBSTRAIT_AGG_CACHE": str(cache)})


@pytest.mark.soak
def test_kills_and_other_machines_leave_no_trace(s3: Emulator, tmp_path: Path) -> None:
    """Killed with all child processes, then continued on a machine without local files: every version is correct."""
    where = f"{s3.bucket('killed-runs')}/deep/down"
    changes = feed(BATCHES)
    sources = changes.write(tmp_path)
    rng = random.Random(4)
    for number, versions in enumerate((2, 7)):
        killed = run_of(tmp_path, where, sources, f"machine-{number}")
        assert killed.kill_after(versions, rng.uniform(0, 0.6)) < BATCHES
    run_of(tmp_path, where, sources, "the last machine").finish()
    view = sa.open_view(where)
    assert view.versions() == list(range(BATCHES + 1))
    sums = running_sums(view.changes(), view.versions())
    for version in view.versions():
        assert sums[version] == computed(changes.after(version)), version
    assert bag(view.to_arrow()) == sums[BATCHES]
    state = sa.open_state(where)
    assert not [f for f in state.verify().findings if f.level == "error"]
    assert state.ls().state_from >= BATCHES - 12
    # Nothing of the killed runs stays on their machines but what the next one there removes.
    assert not list((tmp_path / "the last machine" / "runs").iterdir())


@pytest.mark.soak
def test_joins_that_are_killed_continue_on_other_machines(s3: Emulator, tmp_path: Path) -> None:
    """An outer and an inner join between two aggregates: every version is that of DuckDB, and all state is exact."""
    where = f"{s3.bucket('killed-joins')}/checkpoint"
    stream = make_stream(tmp_path / "stream", 5, 8)
    words = [word for source in stream.sources for word in ("--source", source)]
    rng = random.Random(6)

    def command(machine: str) -> Command:
        cache = tmp_path / machine
        cache.mkdir(mode=0o700)
        arguments = (
            str(stream.plan),
            *words,
            "--output",
            "none",
            "--no-progress",
            "--master",
            "local[2]",
        )
        return Command(arguments, where, tmp_path / "log", {"SUBSTRAIT_AGG_CACHE": str(cache)})

    for number, versions in enumerate((1, 3)):
        command(f"machine-{number}").kill_after(versions, rng.uniform(0, 0.6))
    command("the last machine").finish()
    view = sa.open_view(where)
    assert view.versions() == list(range(stream.last + 1))
    found = changes_by_version(view.changes())
    assert found == {v: stream.changes(v) for v in view.versions() if stream.changes(v)}
    verdict = sa.open_state(where).verify()
    assert verdict.ok, verdict.errors


def test_of_two_drivers_one_goes_on(s3: Emulator) -> None:
    """Two drivers on separate machines compute the same version: the first to publish commits it,
    the other one fails.
    """
    where = f"{s3.bucket('two-drivers')}/checkpoint"
    flow = lower(sa.load(PLAN).bind())
    first, second = driver(flow, where), driver(flow, where)
    first.run({})
    with pytest.raises(CommitConflict) as conflict:
        second.run({})
    assert conflict.value.code == "COMMIT_CONFLICT"
    sleeper = driver(flow, where)
    first.run(some_rows((1, 10, 0.5)))
    first.run(some_rows((1, 30, 1.5)))
    with pytest.raises(CommitConflict):
        sleeper.run(some_rows((1, 999, 9.0)))
    assert sa.open_view(where).versions() == [0, 1, 2]
    assert bag(sa.open_view(where).to_arrow()) == {(1, 2, 40, 1.0): 1}


@pytest.mark.soak
def test_back_to_a_version_and_on_again(
    spark_and_s3: SparkSession, s3: Emulator, tmp_path: Path
) -> None:
    """A rollback without locks needs a confirmation, and repeated input gives the same versions."""
    where = f"{s3.bucket('back-again')}/checkpoint"
    changes = feed(6)
    sources = {"t": changes.write(tmp_path)}
    sa.run(chained(), sources, checkpoint=where, spark=spark_and_s3).wait()
    before = changes_by_version(sa.open_view(where).changes())
    state = sa.open_state(where)
    with pytest.raises(StateRefused) as refused:
        state.rollback(3)
    assert refused.value.code == "CHECKPOINT_NOT_LOCKED"
    assert "--no-run" in refused.value.help
    assert state.rollback(3, no_run=True).newest == 6
    assert state.verify().ok
    sa.run(chained(), sources, checkpoint=where, spark=spark_and_s3).wait()
    assert changes_by_version(sa.open_view(where).changes()) == before
    assert state.vacuum(keep=1, no_run=True).state_from == 6
    assert state.verify().ok
