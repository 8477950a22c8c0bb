"""Readers, outputs and tools on a checkpoint that continued with another plan. The runs are those of the crash matrix."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.changes import Delivery, Sink
from substrait_agg.changes.delivery.evolved import check_outputs_go_on
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import RunFailed, StateRefused
from substrait_agg.spark.query.document import plan_document
from tests.crash import scenario
from tests.crash.scenario import FIRST, World, deliver, quick_batches, run
from tests.crash.settings import BATCHES, evolving

OTHER: Any = evolving().other
BEGUN = FIRST + 1
"""The version with which the other plan began."""


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A world after an evolution; it may be copied."""
    world = World(tmp_path_factory.mktemp("evolved"), evolving())
    with quick_batches(), patch.object(scenario, "KEPT", 20):
        run(world, FIRST, "first")
        run(world, BATCHES, "second")
        checkpoint = Path(str(world.checkpoint))
        yield checkpoint


@pytest.fixture
def copied(evolved: Path, tmp_path: Path) -> Path:
    """A copy of its checkpoint, without records of outputs."""
    copy = Path(shutil.copytree(evolved, tmp_path / "checkpoint"))
    shutil.rmtree(copy / "outputs")
    return copy


def rows(table: pa.Table) -> Counter[str]:
    """The rows of changes with their weights, versions left out."""
    found: Counter[str] = Counter()
    for row in table.drop_columns(["__version"]).to_pylist():
        found[repr({k: v for k, v in row.items() if k != "__weight"})] += row["__weight"]
    return found


def shown(view: Any, version: int | None = None) -> Counter[str]:
    return Counter(repr(row) for row in view.to_arrow(version).to_pylist())


def test_changes_begin_with_the_plan_in_force(evolved: Path) -> None:
    """They add up to the view; those of the old plan can be read separately, and add up to the retracted view."""
    view = sa.open_view(evolved)
    assert view.names == ("k", "total", "middle", "groups")
    assert rows(view.changes()) == shown(view)
    assert min(view.changes().column("__version").to_pylist()) == BEGUN
    assert rows(view.changes(until=BEGUN)) == shown(view, BEGUN)
    before = view.changes(until=BEGUN - 1)
    assert before.column_names[:-2] == ["k", "groups", "total", "greatest", "middle"]
    back = view.retractions(BEGUN)
    assert back is not None
    assert back.column_names == before.column_names
    assert set(back.column("__version").to_pylist()) == {BEGUN}
    assert rows(back) == Counter({row: -weight for row, weight in rows(before).items() if weight})
    assert view.retractions(BEGUN + 1) is None


@pytest.mark.parametrize("since", [-1, 0, BEGUN - 1])
def test_a_range_of_two_plans_is_refused(evolved: Path, since: int) -> None:
    """Also right before the evolution: a reader with that version would count its rows twice."""
    with pytest.raises(StateRefused) as refused:
        sa.open_view(evolved).changes(since=since)
    assert refused.value.code == "CHANGES_OF_TWO_PLANS"
    assert f"up to version {BEGUN - 1}" in (refused.value.help or "")


def test_an_output_that_has_had_nothing(copied: Path, tmp_path: Path) -> None:
    """A new output begins with the whole view in the new columns; change lines begin with the first
    version and add up.
    """
    store = Checkpoint(copied)
    outputs = [f"changes-parquet={tmp_path / 'out'}", f"stream-json={tmp_path / 'lines'}"]
    delivery = Delivery(outputs, checkpoint=copied)
    deliver(store, delivery)
    delivery.close()
    view = sa.open_view(copied)
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        f"changes-{v:020d}.parquet"
        for v in range(BEGUN, view.version + 1)
        if view.changes(None if v == BEGUN else v - 1, v).num_rows
    }
    files = pa.concat_tables([pq.read_table(p) for p in (tmp_path / "out").iterdir()])
    assert rows(files) == shown(view)
    # Behind the plan that they began with, there is nothing of them.
    sa.open_state(copied).rollback(BEGUN - 1, force=True)
    assert not list((tmp_path / "out").iterdir())
    again = Delivery(outputs, checkpoint=copied)
    assert [post.version for post in again.cursors] == [-1, BEGUN - 1]
    again.close()


def faults(checkpoint: Path) -> set[str]:
    """The faults that verification finds; the Spark logs are artificial."""
    found = sa.open_state(checkpoint).verify().errors
    return {finding.code for finding in found if not finding.path.startswith("spark")}


class ProgramSink(Sink):
    """A sink of the embedding program that has had the versions of the plan before."""

    takes_changes = keeps_position = True
    position = BEGUN - 1

    def __init__(self, *, changes_columns: bool) -> None:
        self.changes_columns = changes_columns
        self.given: list[tuple[int, int]] = []

    def deliver(self, changes: Any, version: int) -> None:
        self.given.append((version, sum(changes.column("__weight").to_pylist())))


def test_a_sink_of_ones_own_says_whether_it_takes_other_columns(copied: Path) -> None:
    """A sink that accepts other columns receives both tables; another one fails with a remedy, and receives nothing."""
    store, taking = Checkpoint(copied), ProgramSink(changes_columns=True)
    deliver(store, Delivery([taking], checkpoint=copied))
    groups = len(sa.open_view(copied).to_arrow(BEGUN))
    assert taking.given[:2] == [(BEGUN, -groups), (BEGUN, groups)]
    refusing = ProgramSink(changes_columns=False)
    with pytest.raises(RunFailed) as failed:
        deliver(store, Delivery([refusing], checkpoint=copied))
    assert "OUTPUT_OF_OTHER_PLAN" in str(failed.value)
    assert not refusing.given


def test_files_that_have_had_the_columns_before_are_refused(copied: Path, tmp_path: Path) -> None:
    """Before a run begins, whether the evolution is to come or has been."""
    output = f"changes-parquet={tmp_path / 'out'}"
    delivery = Delivery([output], checkpoint=copied)
    delivery.cursors[0].sink.deliver(sa.open_view(copied).changes(until=1), 1)
    with pytest.raises(StateRefused) as refused:
        check_outputs_go_on([output], copied, sa.open_view(copied).evolutions(), lambda _: Sink())
    assert refused.value.code == "OUTPUT_OF_OTHER_PLAN"
    check_outputs_go_on([output], copied, (), lambda _: Sink())


def test_back_to_the_plan_before(copied: Path) -> None:
    """After a rollback to the old plan its view and changes exist, and the new plan is refused with
    the advice to evolve.
    """
    old, new = plan_document(evolving().flow), plan_document(OTHER)
    store = Checkpoint(copied)
    assert store.document() == new
    with pytest.raises(StateRefused) as refused:
        store.check(old)
    assert refused.value.code == "PLAN_DIFFERS"
    state = sa.open_state(copied)
    assert not faults(copied)
    state.rollback(BEGUN - 1)
    assert store.document() == old
    view = sa.open_view(copied)
    assert rows(view.changes()) == shown(view)
    assert not faults(copied)
    with pytest.raises(StateRefused) as refused:
        store.check(new)
    assert "--evolve" in (refused.value.help or "")
    assert store.check(new, evolve=True) is not None
    assert not list(copied.glob("plan-*"))


def test_every_version_is_shown_as_its_plan_has_it(evolved: Path) -> None:
    """`state show` names the numbers of the version's own plan."""
    state = sa.open_state(evolved)
    names = [state.show(version=v, operator=1)["group"].column_names for v in (BEGUN - 1, BEGUN)]
    assert "max(max(x))" in names[0]
    assert "max(max(x))" not in names[1]
    assert state.ls().plan == OTHER.fingerprint


def test_verify_finds_a_document_that_is_gone_and_a_view_not_taken_back(copied: Path) -> None:
    """A version of an unknown plan, and an evolution with wrong retractions."""
    store = Checkpoint(copied)
    snapshot = store.snapshot(BEGUN)
    path = copied / "snapshots" / f"{BEGUN:020d}.json"
    whole = path.read_bytes()
    path.write_bytes(replace(snapshot, retractions=()).to_bytes(store.identity))
    assert faults(copied)
    path.write_bytes(whole)
    assert not faults(copied)
    next(copied.glob("plan-*")).unlink()
    assert faults(copied)
    for read in (
        lambda: sa.open_view(copied).to_arrow(),
        lambda: store.check(plan_document(evolving().flow)),
    ):
        with pytest.raises(StateRefused) as refused:
            read()
        assert refused.value.code == "STATE_DAMAGED"
