"""Checkpoints that an earlier build wrote are read, verified, continued and evolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import substrait_agg as sa
from substrait_agg.commit.documents.state_schema import state_schemas
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import StateRefused
from substrait_agg.flow.passes.lower import lower
from substrait_agg.flow.passes.upserts import UpsertDeclaration
from substrait_agg.tools.checks.findings import Finding
from tests.checkpoint.stored import (
    GOALS,
    GOALS_FIRST,
    OLDER,
    SETTINGS,
    goals_batches,
    goals_plan,
    local_world,
    run_goals,
    unpacked,
)
from tests.crash.scenario import FIRST, World, check_left, quick_batches, run
from tests.e2e.rows import bag, changes_by_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def findings(folder: Path) -> list[Finding]:
    """What verification finds."""
    return list(sa.open_state(str(folder)).verify().findings)


@pytest.mark.parametrize("name", [*SETTINGS, GOALS])
def test_its_files_are_what_they_were(name: str, tmp_path: Path) -> None:
    """Verification finds nothing, every version is read, and rows of every tree are shown."""
    folder = unpacked(name, tmp_path)
    assert not findings(folder)
    view = sa.open_view(str(folder))
    assert view.versions() == list(range(FIRST + 1))
    assert view.to_arrow().num_rows
    state = sa.open_state(str(folder))
    for tree in state.ls().trees:
        shown = state.show(operator=tree.operator, tree=tree.tree, limit=None)
        assert sum(table.num_rows for table in shown.values()) or not tree.rows


def contents(folder: Path) -> dict[Path, bytes]:
    """The content of every file except locks."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {path: path.read_bytes() for path in files}


def test_an_older_format_is_refused(tmp_path: Path) -> None:
    """Every use says so, and changes nothing."""
    folder = unpacked(OLDER, tmp_path)
    before = contents(folder)
    world = World(tmp_path, SETTINGS["timed"](), delivers=False)
    uses: tuple[Callable[[], object], ...] = (
        lambda: run(world),
        lambda: sa.open_view(str(folder)).to_arrow(),
        lambda: sa.open_view(str(folder)).changes(),
        sa.open_state(str(folder)).ls,
        lambda: sa.open_state(str(folder)).rollback(1),
        sa.open_state(str(folder)).vacuum,
    )
    for use in uses:
        with pytest.raises(StateRefused) as refused:
            use()
        assert refused.value.code == "STATE_FORMAT_UNKNOWN"
    found = findings(folder)
    assert {f.code for f in found if f.level == "error"} == {"STATE_FORMAT_UNKNOWN"}
    assert contents(folder) == before


@pytest.mark.parametrize("name", SETTINGS)
def test_it_is_continued(name: str, tmp_path: Path) -> None:
    """A run that continues it ends like an uninterrupted one; in one setting it continues with another plan."""
    setting = SETTINGS[name]()
    stored, whole = (local_world(tmp_path / place, setting) for place in ("stored", "whole"))
    unpacked(name, stored.folder)
    with quick_batches():
        for world in (stored, whole):
            run(world)
        check_left(stored)
    views = [sa.open_view(str(world.checkpoint)) for world in (stored, whole)]
    assert bag(views[0].to_arrow()) == bag(views[1].to_arrow())
    assert changes_by_version(views[0].changes()) == changes_by_version(views[1].changes())
    assert not findings(Path(str(stored.checkpoint)))


@pytest.mark.parametrize("name", SETTINGS)
def test_what_its_operators_keep_is_described_as_before(name: str, tmp_path: Path) -> None:
    """The state schema of each operator is unchanged, field by field, so that other plans can be
    compared with it.
    """
    document = Checkpoint(unpacked(name, tmp_path)).document()
    flow = replace(SETTINGS[name](), other=None).flow
    assert state_schemas(flow) == document.state_schemas


def test_upserts_and_sessions_are_described_as_before(tmp_path: Path) -> None:
    """The same for the flow that ran on Spark."""
    document = Checkpoint(unpacked(GOALS, tmp_path)).document()
    plan = sa.load(goals_plan().encode()).bind()
    assert (
        state_schemas(lower(plan, upserts={(GOALS,): UpsertDeclaration(("n",))}))
        == document.state_schemas
    )


def test_it_is_continued_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Upserts, sessions and whole rows: the view is that of one run over all rows."""
    stored, whole = tmp_path / "stored", tmp_path / "whole"
    whole.mkdir()
    unpacked(GOALS, stored)
    run_goals(spark, stored, goals_batches()[GOALS_FIRST:])
    run_goals(spark, whole, goals_batches())
    views = [sa.open_view(str(place / "checkpoint")) for place in (stored, whole)]
    assert bag(views[0].to_arrow()) == bag(views[1].to_arrow())
    assert views[0].schema.types == views[1].schema.types
    assert views[0].versions() == views[1].versions()
    assert not findings(stored / "checkpoint")
