"""Random faults and restarts: every output receives every version, in order, as often as it guarantees."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.dataset as ds
from hypothesis import given, settings
from hypothesis import strategies as st

from substrait_agg.changes import Delivery
from substrait_agg.changes.delivery import output_cursor
from substrait_agg.changes.delivery.output_worker import OutputWorkers
from substrait_agg.changes.records import Record
from substrait_agg.metrics import Progress
from tests.changes.test_output_worker import GrowingView
from tests.sampling import examples


@contextmanager
def faulty(rng: random.Random, rate: float) -> Iterator[None]:
    """Make some calls that make data durable fail, before or after their effect."""

    def sometimes(call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any, **options: Any) -> Any:
            if rng.random() < rate / 2:
                raise OSError("before")
            result = call(*arguments, **options)
            if rng.random() < rate / 2:
                raise OSError("after")
            return result

        return made

    with (
        patch.object(os, "fsync", sometimes(os.fsync)),
        patch.object(Record, "write", sometimes(Record.write)),
        patch.object(output_cursor, "FIRST_RETRY", 0.0005),
        patch.object(output_cursor, "LONGEST_RETRY", 0.001),
    ):
        yield


def one_run(
    folder: Path,
    view: GrowingView,
    commits: int,
    seen: list[int],
    faults: Callable[[], AbstractContextManager[None]] = nullcontext,
    *,
    whole: bool,
) -> bool:
    """Commit some versions in one run, which is interrupted or waits for its outputs; return
    whether all were delivered.
    """
    outputs = [f"stream-json={folder / 'out.jsonl'}", f"changes-parquet={folder / 'out'}"]
    delivery = Delivery(
        outputs,
        checkpoint=folder / "ck",
        since=view.newest if view.newest >= 0 else None,
        on_changes=lambda _changes, version: seen.append(version),
    )
    couriers = OutputWorkers([(delivery, lambda: view)], show=False)
    with faults():
        for _ in range(commits):
            view.newest += 1
            couriers.wake(Progress(version=view.newest))
            time.sleep(0.002)
        if not commits:
            couriers.wake(Progress(version=view.newest))
        couriers.end(with_view=whole, patience=None if whole else 0.0)
        for courier in couriers._workers:
            courier.thread.join()
    return not couriers.list_undelivered()


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=5),
    st.integers(0, 2**32),
)
def test_every_output_has_every_version(runs: list[tuple[int, bool]], seed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder, view, seen = Path(name), GrowingView(), list[int]()
        for commits, whole in runs:
            one_run(folder, view, commits, seen, lambda: faulty(rng, 0.4), whole=whole)
        assert one_run(folder, view, 1, seen, whole=True)
        versions = list(range(view.newest + 1))
        lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
        assert [line["version"] for line in lines] == versions
        files = ds.dataset(folder / "out", format="parquet").to_table()
        assert sorted(files.column("__version").to_pylist()) == versions
        assert list(dict.fromkeys(seen)) == versions, "in order, some of them more than once"
