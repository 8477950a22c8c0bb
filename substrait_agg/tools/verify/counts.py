"""Check that the trees of a version agree with each other and with its counters."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.commit.documents.snapshot import OperatorState, Snapshot
from substrait_agg.commit.documents.state_schema import NumberColumns, OperatorColumns
from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS, DIGIT_BITS, MET
from substrait_agg.operator.common.names import GROUP, PENDING, entries_tree
from substrait_agg.operator.numeric.delta import unpack_fixed
from substrait_agg.state.entries import TreeLayout
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.run import open_run
from substrait_agg.state.storage import Storage
from substrait_agg.state.tree import tree_of
from substrait_agg.tools.checks.findings import Findings

Int64s = npt.NDArray[np.int64]


def check_operator(
    storage: Storage,
    state: OperatorState,
    shape: OperatorColumns | None,
    path: str,
    found: Findings,
) -> int:
    """Compare the trees of an operator. Return the number of pending groups.

    Args:
        storage: where the runs are. Each of them is undamaged.
        state: the runs.
        shape: the description of the accumulators, None if it is unknown.
        path: of the snapshot.
        found: takes the findings.
    """
    for number, tree in _tree_counters(shape):
        _check_entries(storage, state, tree, number, path, found)
    ends = (n.tree for n in (() if shape is None else shape.numbers) if n.kind == MET)
    for tree in ends:
        if state[entries_tree(tree)]:
            message = f"tree {tree} has entries, though its ends are all that is kept of it"
            found.fault("COUNTS_DIFFER", path, message)
    return _waiting(storage, state)


def _waiting(storage: Storage, state: OperatorState) -> int:
    """Return the number of pending groups.

    They may be missing in the group tree: a group that was inserted and deleted waits for an empty
    emission.
    """
    if not state[PENDING]:
        return 0
    return sum(part.num_rows for part in tree_of(storage, state[PENDING]).scan(columns=[]))


def _tree_counters(shape: OperatorColumns | None) -> list[tuple[tuple[int, NumberColumns], int]]:
    """Return the counters of entries with the position of their digits, and the tree of each."""
    counters, start = [], COUNT_DIGITS
    for number in () if shape is None else shape.numbers:
        if number.kind in ("live", "entries") and number.tree >= 0:
            counters.append(((start, number), number.tree))
        start += number.digits
    return counters


def _check_entries(
    storage: Storage,
    state: OperatorState,
    tree: int,
    counter: tuple[int, NumberColumns],
    path: str,
    found: Findings,
) -> None:
    """Check that every group has as many entries in a tree as its counter says."""
    start, number = counter
    counted = [_label([], [], [])]
    for part in tree_of(storage, state[GROUP]).scan() if state[GROUP] else ():
        digits = unpack_fixed(part.column("fixed").combine_chunks())[start : start + 2]
        totals = digits[0] + (digits[1] << DIGIT_BITS)
        some = totals != 0
        hashes, chains = (part.column(n).to_numpy()[some] for n in ("hash", "chain"))
        counted.append(_label(hashes, chains, totals[some]))
    there = [_label([], [], [])]
    runs = state[entries_tree(tree)]
    if runs:
        layout = TreeLayout.of_run(open_run(storage, runs[0]).schema)
        for part in OrderedTree(storage, runs, layout).scan():
            live = part.column("weight").to_numpy() > 0
            keep = live if number.kind == "live" else np.ones(len(live), np.bool_)
            hashes, chains = (part.column(n).to_numpy()[keep] for n in ("hash", "chain"))
            there.append(_label(hashes, chains, -np.ones(len(hashes), np.int64)))
    both = pa.concat_tables([*counted, *there])
    sums = both.group_by(["hash", "chain"]).aggregate([("count", "sum")])
    wrong = int(np.count_nonzero(sums.column("count_sum").to_numpy()))
    if wrong:
        message = f"{wrong} groups have another number of {number.what} than they count"
        found.fault("COUNTS_DIFFER", path, message)


def _label(hashes: object, chains: object, counts: object) -> pa.Table:
    columns = [
        pa.array(hashes, pa.uint64()),
        pa.array(chains, pa.uint16()),
        pa.array(counts, pa.int64()),
    ]
    return pa.table(columns, ["hash", "chain", "count"])


def check_levels(snapshot: Snapshot, levels: dict[str, int], path: str, found: Findings) -> None:
    """Compare the counters of a version that are totals with its state."""
    for name, level in levels.items():
        told = snapshot.counters.get(name, level)
        if told != level:
            message = f"its counter {name} says {told}, its state holds {level}"
            found.fault("COUNTS_DIFFER", path, message)
