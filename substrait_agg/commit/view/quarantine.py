"""Read early retractions from the state of an operator that keeps them in quarantine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.commit.documents.plan_document import EarlyRetractionSchema
from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS
from substrait_agg.functions.numbers.stored_digits import unpack_digits
from substrait_agg.operator.aggregate.groups import group_ordinals
from substrait_agg.operator.common.names import GROUP, WEIGHT, entries_tree
from substrait_agg.operator.measures.finalize import GroupState
from substrait_agg.required import require
from substrait_agg.state.entries import TreeLayout
from substrait_agg.state.keys.keys import Component
from substrait_agg.state.keys.rows import take
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.run import open_run
from substrait_agg.state.storage import Storage
from substrait_agg.state.tree import tree_of

OPERATOR = "__operator"


def waiting_rows(
    storage: Storage, guarded: EarlyRetractionSchema, schema: pa.Schema, state: OperatorState
) -> pa.Table:
    """Return the rows of an operator that were retracted more often than inserted.

    Args:
        storage: where the runs are.
        guarded: where the operator keeps them.
        schema: their columns, keys first.
        state: the runs of the operator.

    Returns:
        The columns of `schema` and ``__weight``, below zero.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    typed = schema.append(pa.field(WEIGHT, pa.int64()))
    find = _groups_below_zero if guarded.tree is None else _entries_below_zero
    parts = find(storage, guarded, state) if state[GROUP] else iter(())
    tables = [pa.Table.from_arrays(columns, schema=typed) for columns in parts]
    return pa.concat_tables([typed.empty_table(), *tables])


def _keys(guarded: EarlyRetractionSchema, rows: pa.Table) -> list[pa.Array]:
    return [rows.column(f"k{i}").combine_chunks() for i in range(guarded.keys)]


def _groups_below_zero(
    storage: Storage, guarded: EarlyRetractionSchema, state: OperatorState
) -> Iterator[list[pa.Array]]:
    first = 0 if guarded.ports == 1 else 1
    for rows in tree_of(storage, state[GROUP], guarded.keys).scan():
        if not rows.num_rows:
            continue
        digits = unpack_digits(rows, COUNT_DIGITS * (first + guarded.ports))
        for count in range(first, first + guarded.ports):
            weights = GroupState(digits[COUNT_DIGITS * count :], {}).weight()
            below = np.flatnonzero(weights < 0)
            yield [*take(_keys(guarded, rows), below), pa.array(weights[below])]


def _entries_below_zero(
    storage: Storage, guarded: EarlyRetractionSchema, state: OperatorState
) -> Iterator[list[pa.Array]]:
    """Yield the entries below zero of the tree of whole rows, with the keys of their groups.

    Only the group tree has the keys.
    """
    files = state[entries_tree(require(guarded.tree))]
    if not files:
        return
    names = open_run(storage, files[0]).schema
    values = [f for f in names if f.name.startswith("p") and f.name[1:].isdigit()]
    layout = TreeLayout(tuple(Component(f.type, nullable=True) for f in values))
    for entries in OrderedTree(storage, files, layout).scan():
        weights = entries.column("weight").to_numpy()
        below = entries.take(pa.array(np.flatnonzero(weights < 0)))
        if below.num_rows:
            keys = _keys_of(storage, guarded, state, below)
            payload = [below.column(f.name).combine_chunks() for f in values]
            yield [*keys, *payload, below.column("weight").combine_chunks()]


def _keys_of(
    storage: Storage, guarded: EarlyRetractionSchema, state: OperatorState, entries: pa.Table
) -> list[pa.Array]:
    """Return the key columns of the groups of entries in order of hash and collision id."""
    hashes, chains = (entries.column(name).to_numpy() for name in ("hash", "chain"))
    tree = tree_of(storage, state[GROUP], guarded.keys)
    group_hashes = np.unique(hashes)
    parts = [_of_hashes(rows, group_hashes) for rows in tree.scan(int(hashes[0]), int(hashes[-1]))]
    groups = pa.concat_tables(parts)
    order = np.lexsort((groups.column("chain").to_numpy(), groups.column("hash").to_numpy()))
    groups = groups.take(pa.array(order)).combine_chunks()
    at = group_ordinals(
        groups.column("hash").to_numpy(), groups.column("chain").to_numpy(), hashes, chains
    )
    return take(_keys(guarded, groups), at)


def _of_hashes(rows: pa.Table, hashes: npt.NDArray[np.uint64]) -> pa.Table:
    return rows.filter(pa.array(np.isin(rows.column("hash").to_numpy(), hashes)))


def side_by_side(tables: Mapping[int, pa.Table]) -> pa.Table:
    """Return the only table, or the rows of several tables under the columns of all.

    With several tables, the columns are named ``<operator>.<name>``.
    """
    if len(tables) == 1:
        return next(iter(tables.values()))
    parts = []
    for operator, table in tables.items():
        number = pa.array(np.full(table.num_rows, operator))
        names = [n if n == WEIGHT else f"{operator}.{n}" for n in table.column_names]
        parts.append(table.rename_columns(names).add_column(0, OPERATOR, number))
    together = pa.concat_tables(parts, promote_options="default")
    last = together.column_names.index(WEIGHT)
    weights = together.column(last)
    return together.remove_column(last).append_column(WEIGHT, weights)
