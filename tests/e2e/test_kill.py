"""A run that is killed with kill -9 and started again has the same view and changes as an
uninterrupted run.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import substrait_agg as sa
from tests.e2e.conftest import Finished
from tests.e2e.killing import Command, newest
from tests.e2e.lineitem import BATCHES, Stream
from tests.e2e.rows import bag, changes_by_version, running_sums
from tests.e2e.tpch import PRODUCERS

pytestmark = pytest.mark.spark

Undisturbed = Callable[[str, str], Finished]


def command(name: str, query: str, stream: Stream, folder: Path) -> Command:
    arguments = (
        str(PRODUCERS[name].plan(query)),
        "--source",
        f"lineitem=parquet:{stream.folder}?op=op&batch-files=1",
        "--output",
        f"changes-parquet={folder / 'out'}",
        "--output",
        f"stream-json={folder / 'out.jsonl'}",
        "--output",
        f"debezium-json={folder / 'events.jsonl'}",
        "--no-progress",
        "--master",
        "local[2]",
    )
    return Command(arguments, folder / "checkpoint", folder / "log")


def check_same(folder: Path, whole: Finished) -> None:
    views = [sa.open_view(place / "checkpoint") for place in (folder, whole.folder)]
    for view in views:
        assert view.versions() == list(range(BATCHES + 1))
        running_sums(view.changes(), view.versions())
    assert bag(views[0].to_arrow()) == bag(views[1].to_arrow())
    assert changes_by_version(views[0].changes()) == changes_by_version(views[1].changes())
    lines, files, events = [], [], []
    for place in (folder, whole.folder):
        lines.append(sorted((place / "out.jsonl").read_text().splitlines()))
        files.append(sorted(path.name for path in (place / "out").iterdir()))
        events.append(
            [_untimed(line) for line in (place / "events.jsonl").read_text().splitlines()]
        )
    assert lines[0] == lines[1]
    assert files[0] == files[1]
    assert sorted(events[0]) == sorted(events[1])
    assert any(line.endswith('"u"]') for line in events[0])


def _untimed(line: str) -> str:
    """A change event without the time of its commit."""
    event = json.loads(line)
    parts = event["before"], event["after"], event["source"]["sequence"], event["op"]
    return json.dumps(parts, sort_keys=True)


@pytest.mark.soak
def test_two_kills_leave_no_trace(
    lineitem: Stream, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """After kills in the first and in a later batch, view, changes and both outputs are the same."""
    rng = random.Random(7)
    killed = command("datafusion-55", "q01", lineitem, tmp_path)
    for versions in (1, 6):
        assert killed.kill_after(versions, rng.uniform(0, 0.8)) < BATCHES
    killed.finish()
    check_same(tmp_path, undisturbed("datafusion-55", "q01"))
    wanted = PRODUCERS["datafusion-55"].expected("q01", lineitem.alive[-1])
    assert bag(sa.open_view(killed.checkpoint).to_arrow()) == wanted


@pytest.mark.soak
@pytest.mark.parametrize("query", ["q01", "q06"])
@pytest.mark.parametrize("name", PRODUCERS)
def test_a_kill_between_any_two_versions(
    lineitem: Stream, undisturbed: Undisturbed, tmp_path: Path, name: str, query: str
) -> None:
    """Killed after every single version, at a random moment of the batch that follows."""
    rng = random.Random(11)
    killed = command(name, query, lineitem, tmp_path)
    while newest(killed.checkpoint) < BATCHES - 2:
        killed.kill_after(1, rng.uniform(0, 0.5))
    killed.finish()
    check_same(tmp_path, undisturbed(name, query))
