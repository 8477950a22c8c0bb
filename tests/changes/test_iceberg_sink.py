"""Outputs that append to Iceberg tables: each version once, also after a kill or beside another run."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from substrait_agg.changes import Delivery, parse_output
from substrait_agg.changes.outputs.outputs import check_outputs, reached
from substrait_agg.changes.records import Record
from substrait_agg.errors import InputRefused, RunFailed, StateRefused, UsageError
from tests.changes.test_delta_sink import (
    ChangingView,
    Row,
    deliver,
    killed_before_the_record,
)
from tests.connect.iceberg_tables import catalog, expire, options

NAME = "shop.totals"


def output(folder: Path) -> str:
    """Return the output of a table in a folder, and create its catalogue."""
    catalog(folder)
    return f"iceberg={NAME}?" + "&".join(f"{k}={v}" for k, v in options(folder).items())


def table(folder: Path) -> Table:
    return catalog(folder).load_table(NAME)


def rows_in(folder: Path, snapshot: int | None = None) -> Counter[Row]:
    """Return the sum of the changes in a table."""
    rows = table(folder).scan(snapshot_id=snapshot).to_arrow()
    sums: Counter[Row] = Counter()
    for row in rows.to_pylist():
        sums[row["k"], row["v"]] += row["__weight"]
    return Counter({row: n for row, n in sums.items() if n})


def labels(folder: Path, view: str = "") -> list[tuple[int, int]]:
    """Return the version of each snapshot of a table, and the snapshot."""
    found = []
    for snapshot in table(folder).snapshots():
        assert snapshot.summary
        labels = snapshot.summary.additional_properties
        assert labels["substrait-agg.checkpoint"]
        assert labels["substrait-agg.view"] == view
        found.append((int(labels["substrait-agg.version"]), snapshot.snapshot_id))
    return found


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_table_has_every_version_once(tmp_path: Path, *, keyed: bool, seed: int) -> None:
    """Versions with changes, one snapshot each; some runs are killed before they note a version."""
    rng = random.Random(f"{keyed} {seed}")
    view, to = ChangingView(rng, keyed), output(tmp_path)
    for _ in range(15):
        view.commit()
        if rng.random() < 0.3:
            delivery = Delivery([to], checkpoint=tmp_path / "checkpoint")
            with killed_before_the_record():
                delivery.deliver(view)
        if rng.random() < 0.7:
            deliver(tmp_path, view, to)
            assert rows_in(tmp_path) == view.states[-1]
    deliver(tmp_path, view, to)
    changed = [v for v in view.versions() if not v or view.states[v] != view.states[v - 1]]
    assert [version for version, _ in labels(tmp_path)] == changed
    for version, snapshot in labels(tmp_path):
        assert rows_in(tmp_path, snapshot) == view.states[version]


def test_snapshots_may_expire_before_a_version_is_noted(tmp_path: Path) -> None:
    view, to = ChangingView(random.Random(2)), output(tmp_path)
    view.states = [Counter({(1, "a"): 1}), Counter({(1, "b"): 1})]
    deliver(tmp_path, view, to)
    view.states.append(Counter({(1, "c"): 1}))
    with killed_before_the_record():
        Delivery([to], checkpoint=tmp_path / "checkpoint").deliver(view)
    table(tmp_path).append(table(tmp_path).scan().to_arrow().slice(0, 0))
    expire(table(tmp_path), keep=[])
    deliver(tmp_path, view, to)
    assert rows_in(tmp_path) == view.states[-1]


def test_versions_without_changes_write_nothing(tmp_path: Path) -> None:
    view, to = ChangingView(random.Random(1)), output(tmp_path)
    for _ in range(3):
        view.commit(empty=True)
    deliver(tmp_path, view, to)
    assert [version for version, _ in labels(tmp_path)] == [0]
    spec = parse_output(to)
    assert reached(spec, tmp_path / "checkpoint", lambda target: pytest.fail(str(target)))[1] == 2


@pytest.mark.parametrize("exists", [True, False])
def test_two_writers_of_one_version(tmp_path: Path, *, exists: bool) -> None:
    """One of them writes it, and the other one is told; its next attempt finds the version."""
    view, to = ChangingView(random.Random(3)), output(tmp_path)
    if exists:
        view.commit()
        deliver(tmp_path, view, to)
    view.states.append(Counter({(1, "one"): 1}))
    one, two = (Delivery([to], checkpoint=tmp_path / "checkpoint") for _ in range(2))
    sink = one.cursors[0].sink
    write = sink._append  # type: ignore[attr-defined]

    def write_second(*arguments: Any) -> None:
        two.deliver(view)
        write(*arguments)

    with patch.object(sink, "_append", write_second), pytest.raises(RunFailed) as refused:
        one.deliver(view)
    assert refused.value.code == "OUTPUT_VERSION_CONFLICT"
    one.deliver(view)
    assert [version for version, _ in labels(tmp_path)] == view.versions()
    assert rows_in(tmp_path) == view.states[-1]


def test_many_writers_of_the_first_version(tmp_path: Path) -> None:
    """The table is created once, and the version is written once."""
    view, to = ChangingView(random.Random(7)), output(tmp_path)
    view.states = [Counter({(1, "a"): 1, (None, "b"): 1})]
    barrier, changes = Barrier(4), view.changes(until=0)

    def run(delivery: Delivery) -> None:
        barrier.wait(30)
        with suppress(RunFailed):
            delivery.cursors[0].sink.deliver(changes, 0)

    runs = [Delivery([to], checkpoint=tmp_path / "checkpoint") for _ in range(4)]
    with patch.object(Record, "write"), ThreadPoolExecutor(4) as pool:
        for run_ in [pool.submit(run, delivery) for delivery in runs]:
            run_.result(60)
    deliver(tmp_path, view, to)
    assert [version for version, _ in labels(tmp_path)] == [0]
    assert rows_in(tmp_path) == view.states[0]


def test_a_commit_of_another_program_is_not_lost(tmp_path: Path) -> None:
    """The version fails, and is written by the next attempt."""
    view, to = ChangingView(random.Random(8)), output(tmp_path)
    view.states = [Counter({(1, "a"): 1})]
    delivery = Delivery([to], checkpoint=tmp_path / "checkpoint")
    delivery.deliver(view)
    view.states.append(Counter({(1, "b"): 1}))
    sink = delivery.cursors[0].sink
    write = sink._append  # type: ignore[attr-defined]

    def write_second(*arguments: Any) -> None:
        table(tmp_path).append(table(tmp_path).scan().to_arrow().slice(0, 0))
        write(*arguments)

    with patch.object(sink, "_append", write_second), pytest.raises(RunFailed) as refused:
        delivery.deliver(view)
    assert refused.value.code == "OUTPUT_NOT_WRITTEN"
    delivery.deliver(view)
    assert rows_in(tmp_path) == view.states[-1]
    assert "commit.retry.num-retries" not in table(tmp_path).properties


def test_a_rolled_back_version_is_not_taken_for_the_new_one(tmp_path: Path) -> None:
    view, to = ChangingView(random.Random(4)), output(tmp_path)
    view.states = [Counter({(1, "a"): 1}), Counter({(1, "b"): 1})]
    delivery = Delivery([to], checkpoint=tmp_path / "checkpoint")
    delivery.cursors[0].catch_up(view, stopping=lambda: True)
    with killed_before_the_record():
        delivery.deliver(view)
    view.states[1], view.run = Counter({(1, "c"): 1}), "b"
    with pytest.raises(StateRefused) as refused:
        deliver(tmp_path, view, to)
    assert refused.value.code == "OUTPUT_AHEAD"


def test_rows_of_others_are_kept(tmp_path: Path) -> None:
    """A table with rows of someone else, or of another view, is refused."""
    view, to = ChangingView(random.Random(5)), output(tmp_path)
    view.states = [Counter({(1, "a"): 1})]
    deliver(tmp_path, view, to)
    with pytest.raises(UsageError) as refused:
        check_outputs([to], tmp_path / "another")
    assert refused.value.code == "OUTPUT_EXISTS"
    with pytest.raises(UsageError) as refused:
        Delivery([to], checkpoint=tmp_path / "checkpoint", view="other")
    assert refused.value.code == "OUTPUT_EXISTS"


def test_a_view_with_a_name(tmp_path: Path) -> None:
    view, to = ChangingView(random.Random(6)), output(tmp_path)
    view.states = [Counter({(1, "a"): 1})]
    Delivery([to], checkpoint=tmp_path / "checkpoint", view="big").deliver(view)
    assert [version for version, _ in labels(tmp_path, "big")] == [0]


def test_types(tmp_path: Path) -> None:
    """Times of plans have microseconds; what Iceberg does not have is refused."""
    delivery = Delivery([output(tmp_path)], checkpoint=tmp_path / "checkpoint")
    sink = delivery.cursors[0].sink
    ends = [("__version", pa.int64()), ("__weight", pa.int64())]
    for type_ in (pa.duration("us"), pa.list_(pa.timestamp("ns")), pa.list_(pa.time64("ns"))):
        with pytest.raises(UsageError) as refused:
            sink.deliver(pa.schema([("x", type_), *ends]).empty_table(), 0)
        assert refused.value.code == "OUTPUT_TYPE_REFUSED"
    types = [
        pa.int8(), pa.int16(), pa.float32(), pa.decimal128(38, 2), pa.date32(), pa.time64("ns"),
        pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.binary(), pa.bool_(),
        pa.list_(pa.string()), pa.struct([("x", pa.int64())]), pa.map_(pa.string(), pa.int64()),
    ]  # fmt: skip
    columns = [(f"c{i}", type_) for i, type_ in enumerate(types)]
    rows = pa.Table.from_pylist([{"__version": 0, "__weight": 1}], pa.schema([*columns, *ends]))
    sink.deliver(rows, 0)
    assert table(tmp_path).scan().to_arrow().to_pylist() == rows.to_pylist()


def test_a_catalogue_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputRefused) as refused:
        check_outputs([f"iceberg=a.b?uri=sqlite:///{tmp_path}/no.db"], tmp_path / "checkpoint")
    assert refused.value.code == "SOURCE_NOT_REACHABLE"
    with pytest.raises(UsageError) as wrong:
        check_outputs(["iceberg=a.b?catalog=nothing"], tmp_path / "checkpoint")
    assert wrong.value.code == "SPEC_OPTION_BAD"


@pytest.mark.parametrize(
    "text", ["iceberg", "iceberg=", "iceberg=-", "iceberg=t", "iceberg=a.", "iceberg=a.b?x=geheim"]
)
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_output(text)
    assert refused.value.code == "OPTION_INVALID"
    assert "geheim" not in refused.value.message


def test_passwords_are_not_shown() -> None:
    spec = parse_output("totals=iceberg=shop.t?uri=postgresql://key:geheim@host/t&warehouse=w")
    assert spec.view == "totals"
    assert "geheim" not in f"{spec} {spec!r}"
