"""Checkpoints that continue with several plans in turn, and two runs with different plans at the
same time.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import CommitConflict, StateRefused
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.flow.passes.lower import lower
from substrait_agg.recompute import evolve
from substrait_agg.spark.query.document import plan_document
from tests.crash import scenario
from tests.crash.scenario import World, quick_batches, run
from tests.crash.settings import evolving
from tests.e2e import plans
from tests.evolution.test_checkpoint import faults, rows, shown


def plan(*measures: str) -> Flow:
    """Measures over x by (k, g): all kinds have states of the same columns."""
    b = plans.Builder()
    table = plans.read("t", {"k": "i64", "g": "i64", "x": "i64", "y": "fp64"})
    x = plans.column(2), "i64"
    made = [b.measure(name, x, output="i64") for name in ("min", *measures)]
    whole = plans.aggregate(table, [plans.column(0), plans.column(1)], made)
    text = b.plan(whole, "k", "g", "least", *(f"m{i}" for i, _ in enumerate(measures)))
    return lower(sa.load(text.encode()).bind(), {("t",): "changelog"})


LEAST = plan()
SUM = plan("sum", "count")
COUNT = plan("count", "sum")
GREATEST = plan("max")


def world_of(folder: Path) -> World:
    """A world whose lowest operator reads one value of a row."""
    setting = evolving()
    batches = tuple(rows.drop_columns(["x1"]) for rows in setting.batches)
    return World(folder, replace(setting, flow=LEAST, batches=batches))


def goes_on(world: World, flow: Flow, until: int, name: str = "") -> None:
    """Run with a plan, after a run with any plan."""
    scenario._run(world, flow, until, name or flow.fingerprint, None)


@pytest.fixture(autouse=True)
def _quick_batches() -> Any:
    with quick_batches(), patch.object(scenario, "KEPT", 20):
        yield


def checkpoint_of(world: World) -> Path:
    return Path(str(world.checkpoint))


def test_one_plan_after_the_other_and_back_to_the_first(tmp_path: Path) -> None:
    """The view is that of a run that has had the last plan all along, and outputs add up over all of them."""
    world = world_of(tmp_path / "evolving")
    for until, flow in enumerate((LEAST, SUM, COUNT, GREATEST, LEAST), start=1):
        goes_on(world, flow, until, f"run {until}")
        view = sa.open_view(checkpoint_of(world))
        whole = World(tmp_path / f"whole {until}", replace(world.setting, flow=flow, other=None))
        run(whole, until)
        assert shown(view) == shown(sa.open_view(checkpoint_of(whole)))
        assert rows(view.changes()) == shown(view)
    lines = (world.folder / "out.jsonl").read_text().splitlines()
    assert not faults(checkpoint_of(world)), lines
    # A second evolution at once, without a batch between, and back behind both.
    newest = view.version
    goes_on(world, SUM, 5, "no batch")
    goes_on(world, COUNT, 5, "no batch either")
    assert sa.open_view(checkpoint_of(world)).version == newest + 2
    state = sa.open_state(checkpoint_of(world))
    state.rollback(newest, force=True)
    assert shown(sa.open_view(checkpoint_of(world))) == shown(view)
    goes_on(world, GREATEST, 5, "a third")
    assert not faults(checkpoint_of(world))


def test_going_back_keeps_the_document_of_the_plan_before(tmp_path: Path) -> None:
    """Where its versions were vacuumed, the version that took its view back still needs its columns."""
    world = world_of(tmp_path)
    for until, flow in enumerate((LEAST, SUM, GREATEST, COUNT), start=1):
        goes_on(world, flow, until, f"run {until}")
    folder = checkpoint_of(world)
    begun = [e.version for e in sa.open_view(folder).evolutions()]
    state = sa.open_state(folder)
    newest = sa.open_view(folder).version
    state.vacuum(keep=newest - begun[1] + 1, changes=True)
    assert sa.open_view(folder).versions()[0] == begun[1]
    state.rollback(begun[2] - 1, force=True)
    view = sa.open_view(folder)
    assert view.retractions(begun[1]) is not None
    assert [e.version for e in view.evolutions()] == [begun[1]]
    assert not faults(folder)
    goes_on(world, COUNT, 5, "again")


@pytest.mark.parametrize("mine", [SUM, COUNT])
def test_a_run_that_comes_second_does_not_go_on_with_the_state_of_another_plan(
    tmp_path: Path, mine: Flow
) -> None:
    """A run does not use the state of another plan if a second run evolves the checkpoint between
    its check and its claim.

    This holds for a run with the old plan and for one with a third plan.
    """
    world, claim = world_of(tmp_path), Checkpoint.claim
    before: list[bool] = []
    goes_on(world, LEAST, 1)
    goes_on(world, SUM, 2)
    other = COUNT if mine is SUM else GREATEST

    def late(store: Checkpoint) -> None:
        if not before:
            before.append(True)
            goes_on(world, other, 3, "the other")
        claim(store)

    with patch.object(Checkpoint, "claim", late):
        if mine is SUM:
            with pytest.raises(CommitConflict) as lost:
                goes_on(world, mine, 4, "late")
            assert lost.value.code == "COMMIT_CONFLICT"
        else:
            goes_on(world, mine, 4, "late")
    goes_on(world, mine, 5, "again")
    whole = World(tmp_path / "whole", replace(world.setting, flow=mine, other=None))
    run(whole, 5)
    view = sa.open_view(checkpoint_of(world))
    assert shown(view) == shown(sa.open_view(checkpoint_of(whole)))
    assert rows(view.changes()) == shown(view)


def test_a_version_that_comes_between_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    """An evolution ends in a conflict if another one commits after its check, and the checkpoint
    stays valid.
    """
    world = world_of(tmp_path)
    goes_on(world, LEAST, 1)
    goes_on(world, SUM, 2)
    store = Checkpoint(world.checkpoint)
    check, wanted = Checkpoint.check, plan_document(GREATEST, world.setting.events)

    def slow(store: Checkpoint, *args: Any, **options: Any) -> Any:
        found = check(store, *args, **options)
        with patch.object(Checkpoint, "check", check):
            goes_on(world, COUNT, 3, "the other")
        return found

    with patch.object(Checkpoint, "check", slow), pytest.raises(CommitConflict):
        evolve.evolve_to(wanted, scenario.local_executor(), GREATEST, store, scenario.PARTITIONS)
    assert store.document().plan == COUNT.fingerprint
    assert not faults(checkpoint_of(world))


def test_another_document_of_the_first_plan_is_no_way_back_to_it(tmp_path: Path) -> None:
    """The stored state would not match its document."""
    world = world_of(tmp_path)
    goes_on(world, LEAST, 1)
    goes_on(world, SUM, 2)
    store, first = Checkpoint(world.checkpoint), plan_document(LEAST, world.setting.events)
    store.add(first)
    with pytest.raises(StateRefused) as refused:
        store.add(replace(first, keys=first.keys + 1))
    assert refused.value.code == "STATE_DAMAGED"
