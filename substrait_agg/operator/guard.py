"""Retractions that come before their insertion: where they are not carried, a tree of whole rows tells them.

An entry of that tree with a weight below zero is a row that was retracted more often than inserted. ``refuse`` fails the batch.
``quarantine`` lets through only what changes the weights above zero: the rest waits in the tree, and when the insertion comes,
the two cancel there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.errors import RunFailed
from substrait_agg.operator.groups import Chains, RowGroups, Touched
from substrait_agg.operator.names import WEIGHT
from substrait_agg.operator.spec import OperatorSpec
from substrait_agg.operator.split import split_rows
from substrait_agg.operator.trees import Delta, OpenTree, tree_delta
from substrait_agg.state.rows import Indices, take

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Admitted:
    """The rows of a slice that count.

    Attributes:
        rows: delta rows as described in `operator.delta`.
        of_row: the group of each.
        groups: the same, the other way round.
        delta: what the slice changes in the tree of whole rows, where there is one.
        kept_aside: how many rows more than before wait for their insertion.
    """

    rows: pa.Table
    of_row: Indices
    groups: RowGroups
    delta: Delta | None = None
    kept_aside: int = 0


def admit(
    spec: OperatorSpec, slice_: pa.Table, groups: Touched, chains: Chains, open_tree: OpenTree
) -> Admitted:
    """Which rows of a slice count, by the operator's policy for early retractions.

    Raises:
        RunFailed: EARLY_RETRACTION under ``refuse``.
    """
    if spec.guard < 0:
        return Admitted(slice_, groups.of_row, groups.rows)
    guard = spec.trees[spec.guard]
    delta = tree_delta(spec.guard, guard, slice_, groups.of_row, groups.hashes, chains, open_tree)
    weights = delta.entries.weights
    if spec.early == "refuse":
        _refuse(spec, delta, groups)
    else:
        weights = np.maximum(delta.new, 0) - np.maximum(delta.old, 0)
    moved = np.flatnonzero(weights)
    of_row = delta.groups[moved]
    columns = dict(
        zip((f"x{a}" for a in guard.arguments), take(delta.entries.payload, moved), strict=True)
    )
    batch = pa.RecordBatch.from_pydict({**columns, WEIGHT: weights[moved]})
    rows = pa.Table.from_batches([split_rows(batch, spec)])
    waiting = _below(delta.new) - _below(delta.old)
    return Admitted(rows, of_row, RowGroups.of(of_row, groups.count), delta, waiting)


def _below(weights: Int64s) -> int:
    return -int(np.minimum(weights, 0).sum())


def _refuse(spec: OperatorSpec, delta: Delta, groups: Touched) -> None:
    early = np.flatnonzero((delta.new < 0) & (delta.entries.weights < 0))
    if not len(early):
        return
    first = early[:1]
    key = [str(k[0].as_py()) for k in take(groups.keys, delta.groups[first])]
    row = [str(v[0].as_py()) for v in take(delta.entries.payload, first)]
    raise RunFailed(
        "EARLY_RETRACTION",
        f"{len(early)} rows are retracted more often than they were inserted, the first with the key"
        f" ({', '.join(key) or 'none'}) and the values ({', '.join(row)})",
        help="correct the source, or run with --early-retraction carry or quarantine (a new --checkpoint)",
    )
