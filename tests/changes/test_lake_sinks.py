"""Outputs to Delta and Iceberg write each version exactly once, also after a kill."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier
from unittest.mock import patch

import pytest

from substrait_agg.changes import Delivery, parse_output
from substrait_agg.changes.outputs.outputs import check_outputs, reach_version
from substrait_agg.changes.records import Record
from substrait_agg.errors import RunFailed, StateRefused, UsageError
from tests.changes.lakes import (
    ChangingView,
    DeltaLake,
    IcebergLake,
    Lake,
    before_a_write,
    begin,
    deliver,
    killed_before_the_record,
)


@pytest.fixture(params=["changes", "view", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    name = request.param
    return IcebergLake(tmp_path) if name == "iceberg" else DeltaLake(tmp_path, name)


KEYS = [((0,), False), ((0, 1), False), ((0, 1), True), ((), False)]
"""Columns that are the key, and whether a row can be there several times."""


@pytest.mark.parametrize(("keys", "repeats"), KEYS)
@pytest.mark.parametrize("seed", range(3))
def test_the_table_has_every_version_once(
    lake: Lake, keys: tuple[int, ...], seed: int, *, repeats: bool
) -> None:
    """Each version with changes is one commit. Some runs are killed before they record a version."""
    rng = random.Random(f"{lake.output.rpartition('=')[2]} {keys} {repeats} {seed}")
    view = ChangingView(rng, keys, repeats=repeats)
    for _ in range(lake.size):
        view.commit()
        if rng.random() < 0.3:
            delivery = begin(lake)
            with killed_before_the_record():
                delivery.deliver(view)
        if rng.random() < 0.7:
            deliver(lake, view)
            assert lake.rows() == view.states[-1]
    deliver(lake, view)
    changed = [v for v in view.versions() if not v or view.states[v] != view.states[v - 1]]
    assert [version for version, _ in lake.commits()] == changed
    for number, (version, commit) in enumerate(lake.commits(), 1):
        assert lake.rows(commit) == view.states[version]
        assert isinstance(lake, IcebergLake) or commit == number


def test_versions_without_changes_write_nothing(lake: Lake) -> None:
    view = ChangingView(random.Random(1))
    for _ in range(3):
        view.commit(empty=True)
    deliver(lake, view)
    assert [version for version, _ in lake.commits()] == [0]
    spec, checkpoint = parse_output(lake.output), lake.folder / "checkpoint"
    assert reach_version(spec, checkpoint, lambda target: pytest.fail(str(target)))[1] == 2


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("keys", [(0,), ()])
def test_two_writers_of_one_version(lake: Lake, keys: tuple[int, ...], *, exists: bool) -> None:
    """One run writes the version. The other run fails, and its next attempt finds the version."""
    view = ChangingView(random.Random(3), keys)
    if exists:
        view.commit()
        deliver(lake, view)
    view.states.append(Counter({(1, "one"): 1}))
    one, two = begin(lake), begin(lake)
    with before_a_write(one, lambda: two.deliver(view), "OUTPUT_VERSION_CONFLICT"):
        one.deliver(view)
    one.deliver(view)
    assert [version for version, _ in lake.commits()] == view.versions()
    assert lake.rows() == view.states[-1]


def test_many_writers_of_the_first_version(lake: Lake) -> None:
    """Four runs start at once. One of them creates the table, and one writes the version."""
    view = ChangingView(random.Random(7))
    view.states = [Counter({(1, "a"): 1, (None, "b"): 1})]
    barrier, changes = Barrier(4), view.changes(until=0)

    def run(delivery: Delivery) -> None:
        barrier.wait(30)
        with suppress(RunFailed):
            delivery.cursors[0].sink.deliver(changes, 0)

    runs = [begin(lake) for _ in range(4)]
    with patch.object(Record, "write"), ThreadPoolExecutor(4) as pool:
        for run_ in [pool.submit(run, delivery) for delivery in runs]:
            run_.result(60)
    deliver(lake, view)
    assert [version for version, _ in lake.commits()] == [0]
    assert lake.rows() == view.states[0]


def test_a_version_of_the_same_number_after_a_rollback_is_refused(lake: Lake) -> None:
    """The table has version 1 from before the rollback; the checkpoint has another version 1."""
    view = ChangingView(random.Random(4))
    view.states = [Counter({(1, "a"): 1}), Counter({(1, "b"): 1})]
    delivery = begin(lake)
    delivery.cursors[0].catch_up(view, stopping=lambda: True)
    with killed_before_the_record():
        delivery.deliver(view)
    view.states[1], view.run = Counter({(1, "c"): 1}), "b"
    with pytest.raises(StateRefused) as refused:
        deliver(lake, view)
    assert refused.value.code == "OUTPUT_AHEAD"


def test_a_table_of_another_checkpoint_or_view_is_refused(lake: Lake) -> None:
    """The output does not change a table with rows that it did not write."""
    view = ChangingView(random.Random(5))
    view.states = [Counter({(1, "a"): 1})]
    deliver(lake, view)
    with pytest.raises(UsageError) as refused:
        check_outputs([lake.output], lake.folder / "another")
    assert refused.value.code == "OUTPUT_EXISTS"
    with pytest.raises(UsageError) as refused:
        begin(lake, "other")
    assert refused.value.code == "OUTPUT_EXISTS"


@pytest.mark.parametrize(
    "text",
    [
        "delta", "delta=", "delta=-", "delta=t?mode=all", "delta=t?x=geheim",
        "iceberg", "iceberg=", "iceberg=-", "iceberg=t", "iceberg=a.", "iceberg=a.b?x=geheim",
    ],
)  # fmt: skip
def test_a_target_that_cannot_be_parsed_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_output(text)
    assert refused.value.code == "OPTION_INVALID"
    assert "geheim" not in refused.value.message


@pytest.mark.parametrize(
    "text",
    [
        "delta=s3://key:geheim@bucket/t?mode=view",
        "iceberg=shop.t?uri=postgresql://key:geheim@host/t&warehouse=w",
    ],
)
def test_passwords_are_not_shown(text: str) -> None:
    spec = parse_output(f"totals={text}")
    assert spec.view == "totals"
    assert "geheim" not in f"{spec} {spec!r}"
