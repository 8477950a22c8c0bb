"""The state of every operator of a checkpoint, counted row by row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from substrait_agg.commit.documents.snapshot import OperatorState, Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.operator.common.names import CLOSED, GROUP, PENDING
from substrait_agg.state.run import RunFile, open_run
from substrait_agg.state.storage import Storage


@dataclass(frozen=True)
class StoredOperator:
    """The live rows of an operator: groups, entries of each ordered tree (weights other than 0), waiting and closed groups."""

    groups: int
    entries: tuple[int, ...]
    pending: int
    closed: int


def snapshot(checkpoint: Path) -> Snapshot:
    """The newest version."""
    last = Checkpoint(checkpoint).newest_snapshot()
    assert last is not None
    return last


def stored_operators(checkpoint: Path) -> list[StoredOperator]:
    """Return the state of the newest version per operator."""
    storage = Checkpoint(checkpoint).state
    return [_of(storage, state) for state in snapshot(checkpoint).operators]


def _of(storage: Storage, state: OperatorState) -> StoredOperator:
    return StoredOperator(
        _alive(storage, state[GROUP]),
        tuple(
            _entries(storage, state[name])
            for name in sorted(state.trees)
            if name.startswith("tree")
        ),
        _alive(storage, state[PENDING]),
        _alive(storage, state[CLOSED]),
    )


def _rows(storage: Storage, runs: tuple[RunFile, ...]) -> list[dict[str, object]]:
    """The rows of all runs, newest run first."""
    parts = [open_run(storage, run).rows_between(run.low, run.high) for run in runs]
    return [row for part in parts for row in part.to_pylist()]


def _alive(storage: Storage, runs: tuple[RunFile, ...]) -> int:
    """Keys whose newest row is not dead."""
    seen: dict[str, bool] = {}
    for row in _rows(storage, runs):
        key = repr([(n, v) for n, v in row.items() if n.startswith("k") or n == "hash"])
        seen.setdefault(key, bool(row["dead"]))
    return sum(not dead for dead in seen.values())


def _entries(storage: Storage, runs: tuple[RunFile, ...]) -> int:
    """Entries whose weights over all runs do not add up to 0."""
    sums: dict[str, int] = {}
    for row in _rows(storage, runs):
        key = repr([(n, v) for n, v in row.items() if n not in ("weight", "cum")])
        sums[key] = sums.get(key, 0) + int(str(row["weight"]))
    return sum(total != 0 for total in sums.values())
