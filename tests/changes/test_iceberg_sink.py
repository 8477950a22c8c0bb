"""Outputs that append to Iceberg tables: what only they have."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from substrait_agg.changes.outputs.outputs import check_outputs
from substrait_agg.errors import InputRefused, UsageError
from tests.changes.lakes import (
    ENDS,
    ChangingView,
    IcebergLake,
    before_a_write,
    begin,
    deliver,
    killed_before_the_record,
)
from tests.connect.iceberg_tables import expire


def test_snapshots_may_expire_before_a_version_is_noted(tmp_path: Path) -> None:
    view, lake = ChangingView(random.Random(2)), IcebergLake(tmp_path)
    view.states = [Counter({(1, "a"): 1}), Counter({(1, "b"): 1})]
    deliver(lake, view)
    view.states.append(Counter({(1, "c"): 1}))
    with killed_before_the_record():
        begin(lake).deliver(view)
    lake.table.append(lake.table.scan().to_arrow().slice(0, 0))
    expire(lake.table, keep=[])
    deliver(lake, view)
    assert lake.rows() == view.states[-1]


def test_a_commit_of_another_program_is_not_lost(tmp_path: Path) -> None:
    """The version fails, and is written by the next attempt."""
    view, lake = ChangingView(random.Random(8)), IcebergLake(tmp_path)
    view.states = [Counter({(1, "a"): 1})]
    delivery = begin(lake)
    delivery.deliver(view)
    view.states.append(Counter({(1, "b"): 1}))

    def append_nothing() -> None:
        lake.table.append(lake.table.scan().to_arrow().slice(0, 0))

    with before_a_write(delivery, append_nothing, "OUTPUT_NOT_WRITTEN"):
        delivery.deliver(view)
    delivery.deliver(view)
    assert lake.rows() == view.states[-1]
    assert "commit.retry.num-retries" not in lake.table.properties


def test_a_view_with_a_name(tmp_path: Path) -> None:
    view, lake = ChangingView(random.Random(6)), IcebergLake(tmp_path)
    view.states = [Counter({(1, "a"): 1})]
    begin(lake, "big").deliver(view)
    assert [version for version, _ in lake.commits("big")] == [0]


def test_types(tmp_path: Path) -> None:
    """Times of plans have microseconds; what Iceberg does not have is refused."""
    lake = IcebergLake(tmp_path)
    sink = begin(lake).cursors[0].sink
    for type_ in (pa.duration("us"), pa.list_(pa.timestamp("ns")), pa.list_(pa.time64("ns"))):
        with pytest.raises(UsageError) as refused:
            sink.deliver(pa.schema([("x", type_), *ENDS]).empty_table(), 0)
        assert refused.value.code == "OUTPUT_TYPE_REFUSED"
    types = [
        pa.int8(), pa.int16(), pa.float32(), pa.decimal128(38, 2), pa.date32(), pa.time64("ns"),
        pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.binary(), pa.bool_(),
        pa.list_(pa.string()), pa.struct([("x", pa.int64())]), pa.map_(pa.string(), pa.int64()),
        pa.list_(pa.struct([("x", pa.int64())])), pa.map_(pa.string(), pa.struct([("x", pa.int64())])),
    ]  # fmt: skip
    columns = [(f"c{i}", type_) for i, type_ in enumerate(types)]
    rows = pa.Table.from_pylist([{"__version": 0, "__weight": 1}], pa.schema([*columns, *ENDS]))
    sink.deliver(rows, 0)
    assert lake.table.scan().to_arrow().to_pylist() == rows.to_pylist()


def test_a_catalogue_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputRefused) as refused:
        check_outputs([f"iceberg=a.b?uri=sqlite:///{tmp_path}/no.db"], tmp_path / "checkpoint")
    assert refused.value.code == "SOURCE_NOT_REACHABLE"
    with pytest.raises(UsageError) as wrong:
        check_outputs(["iceberg=a.b?catalog=nothing"], tmp_path / "checkpoint")
    assert wrong.value.code == "SPEC_OPTION_BAD"
