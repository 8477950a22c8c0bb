"""An operator with two input ports and its own trees, run by the generic task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.commit.tasks.task import run_task
from substrait_agg.commit.tasks.task_plan import TaskPlan, TaskResult
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.names import PORT, WEIGHT
from substrait_agg.operator.common.protocol import OperatorResult, StatefulOperator, StateReader
from substrait_agg.operator.upsert.spec import UpsertSpec
from substrait_agg.state.entries import TreeLayout
from substrait_agg.state.run import HASH_MAX
from substrait_agg.state.tree import KeyedLayout
from substrait_agg.tools.checks.trees import trees_of

STORED = pa.schema({"hash": pa.uint64(), "dead": pa.bool_(), "k0": pa.int64(), "n": pa.int64()})
CHANGES = pa.schema({"k0": pa.int64(), WEIGHT: pa.int64()})
NAMES = ("left", "right")


@dataclass(frozen=True, slots=True)
class SeenKeys(StatefulOperator):
    """Stores the keys of each side, and emits keys that both sides have, once."""

    spec: UpsertSpec

    @property
    def ports(self) -> int:
        return 2

    def state_schema(self, *, final: bool = True) -> Mapping[str, KeyedLayout | TreeLayout]:
        return {name: KeyedLayout(STORED, 1) for name in NAMES}

    def rows_at_once(self, state: StateReader) -> int:
        return 1000

    def receive(
        self, batch: pa.RecordBatch, *, raw: bool, emission: Emission
    ) -> tuple[pa.RecordBatch, int]:
        return batch, batch.num_rows

    def apply(
        self, ports: Sequence[pa.Table], state: StateReader, emission: Emission
    ) -> OperatorResult:
        before, now, added = [], [], {}
        for name, rows in zip(NAMES, ports, strict=True):
            keys = sorted(set(rows.column("k0").to_pylist()))
            stored = {
                key
                for part in state.open_keyed(name).scan()
                for key in part.column("k0").to_pylist()
            }
            new = [key for key in keys if key not in stored]
            columns = [
                pa.array(new, pa.uint64()),
                pa.array([False] * len(new)),
                new,
                [1] * len(new),
            ]
            added[name] = pa.table(columns, schema=STORED)
            before.append(stored)
            now.append(stored | set(new))
        come = sorted((now[0] & now[1]) - (before[0] & before[1]))
        return OperatorResult(added, pa.table([come, [1] * len(come)], schema=CHANGES))


def batch(folder: Path, version: int, state: OperatorState, *rows: tuple[int, int]) -> TaskResult:
    """Run a batch of rows (port, key); the hash of a key is the key."""
    keys, ports = (np.array(column) for column in zip(*((k, p) for p, k in rows), strict=True))
    given = pa.RecordBatch.from_pydict(
        {
            "__m": np.zeros(len(keys), np.int32),
            "__x": keys.astype(np.int32),
            "k0": keys,
            PORT: ports.astype(np.int8),
        }
    )
    plan = TaskPlan(
        checkpoint=str(folder), node=0, operator=SeenKeys(UpsertSpec((pa.int64(),), ())), low=0, high=HASH_MAX,
        state=state, version=version, columns=(("k0", "c0"),), final=True, unaggregated=True,
    )  # fmt: skip
    return run_task(plan, [given])


def test_rows_come_by_port_and_trees_have_names(tmp_path: Path) -> None:
    """Keys of one side from an earlier batch are found when the other side brings them."""
    for name in ("state", "changes"):
        (tmp_path / name).mkdir()
    first = batch(tmp_path, 1, OperatorState(), (0, 1), (0, 2), (1, 3))
    assert not first.changes
    second = batch(tmp_path, 2, first.state, (1, 1), (1, 9), (0, 3))
    (file,) = second.changes
    assert pq.read_table(tmp_path / "changes" / file.name).column("c0").to_pylist() == [1, 3]
    assert [tree.name for tree in trees_of(0, second.state)] == ["left", "right"]
    assert sum(run.rows for run in second.state["left"]) == 3
    names = {path.name.partition("-")[0] for path in (tmp_path / "state").iterdir()}
    assert names == set(NAMES)
