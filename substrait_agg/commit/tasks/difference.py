"""Compare the rows that two states of an operator show, in one hash range.

Both states have the groups of the range, so equal rows of a group are in the same range. This code
runs on executors and does not use Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import OperatorState, Runs
from substrait_agg.commit.tasks.change_writer import ChangeWriter
from substrait_agg.commit.tasks.consolidate import Consolidated, consolidate
from substrait_agg.operator.common.names import GROUP, WEIGHT
from substrait_agg.state.keys.rows import take, whole
from substrait_agg.state.tree import tree_of

ROWS_AT_ONCE = 1 << 19
"""About how many rows of both states a task has in memory."""


@dataclass(frozen=True, slots=True)
class DifferencePlan:
    """The plan of a task that compares two states of an operator.

    Attributes:
        checkpoint: folder of the checkpoint.
        operator: id of the operator.
        version: the version being made.
        low: least sort hash of the range.
        high: greatest sort hash of the range.
        before: the state in the previous version.
        after: the state in the version being made.
        columns: per column of the change file its operator column and its name.
        final: whether the changes are those of a view.
    """

    checkpoint: str
    operator: int
    version: int
    low: int
    high: int
    before: OperatorState
    after: OperatorState
    columns: tuple[tuple[str, str], ...]
    final: bool

    @property
    def rows(self) -> int:
        """Number of rows in the files of both states."""
        return sum(run.rows for state in (self.before, self.after) for run in state[GROUP])


def difference(plan: DifferencePlan) -> Consolidated:
    """Write the changes from the rows of one state to those of another.

    Raises:
        OSError: a file cannot be read or written.
        StateRefused: STATE_DAMAGED.
    """
    retracted = inserted = 0
    state = FolderFiles(f"{plan.checkpoint}/state")
    with ExitStack() as stack:
        writer = ChangeWriter(
            FolderFiles(f"{plan.checkpoint}/changes"), plan.operator, plan.version, plan.columns, stack,
            final=plan.final,
        )  # fmt: skip
        for low, high in _slices(plan):
            sides = ((plan.before[GROUP], -1), (plan.after[GROUP], 1))
            parts = [
                p for runs, sign in sides for p in _iter_shown(state, runs, low, high, sign, plan)
            ]
            if not parts:
                continue
            rows = consolidate(pa.concat_tables(parts))
            retractions = int(pc.sum(pc.less(rows.column(WEIGHT), 0)).as_py() or 0)
            retracted, inserted = retracted + retractions, inserted + rows.num_rows - retractions
            writer.write(rows)
        files = writer.close()
    return Consolidated(files, retracted, inserted)


def _slices(plan: DifferencePlan) -> Iterator[tuple[int, int]]:
    """Yield hash ranges that divide the range of a task, with about `ROWS_AT_ONCE` rows each."""
    count = -(-max(plan.rows, 1) // ROWS_AT_ONCE)
    width = plan.high - plan.low + 1
    cuts = [plan.low + width * i // count for i in range(count + 1)]
    yield from ((low, high - 1) for low, high in pairwise(cuts) if high > low)


def _iter_shown(
    storage: FolderFiles, runs: Runs, low: int, high: int, sign: int, plan: DifferencePlan
) -> Iterator[pa.Table]:
    """Yield the rows that a state shows, with their weights times `sign`."""
    if not runs:
        return
    names = list(dict.fromkeys(source for source, _ in plan.columns))
    for part in tree_of(storage, runs).scan(low, high):
        weights = part.column("shown").to_numpy()
        some = np.flatnonzero(weights > 0)
        columns = take([whole(part, name) for name in names], some)
        yield pa.table([*columns, pa.array(sign * weights[some])], [*names, WEIGHT])
