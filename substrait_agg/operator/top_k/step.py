"""One step of an operator that keeps rows in order: the changes of the rows that it emits.

The state is a tree of rows in order, with their weights. Ranks count rows by weight. Rows that were
retracted more often than inserted are in a second tree, so that the weights of the first tree are
above zero and ranks follow from its running sums. Such rows are in no rank, under ``carry`` and
under ``quarantine``; a later insertion cancels them.

A top-k operator emits the rows in a range of ranks. If rows are only inserted and the range has an
end, rows behind the end are not stored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.errors import RunFailed
from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS
from substrait_agg.functions.numbers import exact
from substrait_agg.operator.aggregate.early_retractions import (
    newly_below_zero,
    report_early_retractions,
)
from substrait_agg.operator.aggregate.groups import (
    BatchGroups,
    CollisionIds,
    Sums,
    collect_groups,
    group_ordinals,
    with_collision_ids,
)
from substrait_agg.operator.aggregate.operator import with_key_types
from substrait_agg.operator.aggregate.step import add
from substrait_agg.operator.aggregate.stored import StoredGroups, restore, stored_rows
from substrait_agg.operator.aggregate.trees import (
    GroupTrees,
    TreeDelta,
    add_entries,
    delta_of,
    slice_entries,
)
from substrait_agg.operator.common.emission import Emission
from substrait_agg.operator.common.names import GROUP, WEIGHT, entries_tree
from substrait_agg.operator.common.protocol import OperatorResult, StatefulOperator, StateReader
from substrait_agg.operator.top_k.spec import EARLY, LIVE, OrderedRowsSpec, TopKSpec
from substrait_agg.operator.top_k.window import (
    GREATEST_TOTAL,
    OrderedGroups,
    RowChanges,
    entries_behind,
    numbered_changes,
    sums_before,
    window_changes,
)
from substrait_agg.state.entries import Entries, TreeLayout, consolidate_sorted
from substrait_agg.state.keys.rows import Indices, as_mask, take
from substrait_agg.state.tree import KeyedLayout
from substrait_agg.state.weights import add_weights

Int64s = npt.NDArray[np.int64]


ChangesOf = Callable[[OrderedGroups], Sequence[RowChanges]]
"""Returns the changes of the rows that an operator emits."""


@dataclass(frozen=True, slots=True)
class OrderedRowsOperator(StatefulOperator):
    """An operator that keeps rows in order."""

    spec: OrderedRowsSpec

    def state_schema(self, *, final: bool = True) -> Mapping[str, KeyedLayout | TreeLayout]:
        """Return the layouts of the group tree, the tree of rows and that of early retractions."""
        return {
            GROUP: KeyedLayout(self.spec.layout.schema, len(self.spec.keys)),
            **{entries_tree(i): tree.layout for i, tree in enumerate(self.spec.trees)},
        }

    def receive(
        self, batch: pa.RecordBatch, *, raw: bool, emission: Emission
    ) -> tuple[pa.RecordBatch, int]:
        """Add a weight to every row; each row counts as one input row."""
        rows = with_key_types(batch, self.spec)
        if WEIGHT not in rows.schema.names:
            rows = rows.append_column(WEIGHT, pa.array(np.ones(rows.num_rows, np.int64)))
        return rows, batch.num_rows

    def apply(
        self, ports: Sequence[pa.Table], state: StateReader, emission: Emission
    ) -> OperatorResult:
        """Apply a slice; see `ordered_rows_step`."""
        (rows,) = ports
        return ordered_rows_step(self.spec, rows, state, self._changes)

    @abstractmethod
    def _changes(self, groups: OrderedGroups) -> Sequence[RowChanges]:
        """Return the changes of the emitted rows of the groups of a slice."""


@dataclass(frozen=True, slots=True)
class TopKOperator(OrderedRowsOperator):
    """The operator that emits the rows in a range of ranks."""

    spec: TopKSpec

    def _changes(self, groups: OrderedGroups) -> Sequence[RowChanges]:
        changes_of = numbered_changes if self.spec.numbered else window_changes
        return changes_of(groups, self.spec.ranks)


def ordered_rows_step(
    spec: OrderedRowsSpec, slice_: pa.Table, state: StateReader, changes_of: ChangesOf
) -> OperatorResult:
    """Add a slice to the ordered rows of its groups and return the changes of the emitted rows.

    Args:
        spec: the operator.
        slice_: ``hash``, ``k*``, ``x*`` (the sort keys, then the other columns) and ``__weight``.
        state: the operator's state before this batch.
        changes_of: computes the changes.

    Raises:
        RunFailed: WEIGHT_OVERFLOW, TOTAL_OVERFLOW or EARLY_RETRACTION.
    """
    slice_ = slice_.combine_chunks()
    groups = collect_groups(spec, slice_)
    tree = state.open_keyed(GROUP)
    lookup = tree.lookup(groups.hashes, groups.keys)
    groups, lookup, ids = with_collision_ids(spec, groups, lookup, tree)
    old = restore(spec, groups.count, lookup)
    rows = slice_entries(spec.trees[LIVE], slice_, groups.of_row, groups.hashes, ids)
    if spec.stop is not None:
        rows = _within_stop(spec.stop, rows, groups, ids)
    split = _split(spec, rows, groups, ids, state)
    ordered = OrderedGroups(
        groups.hashes,
        ids,
        spec.trees[LIVE].layout,
        state.open_tree(LIVE, None),
        split.live.tree,
        split.live.entries,
        split.live.groups,
    )
    _check_totals(ordered)
    changes = changes_of(ordered)
    if spec.stop is not None:
        split = replace(split, live=_without_rows_behind(spec.stop, ordered, split.live, state))
    counters = {
        "touched": groups.count,
        "quarantined": split.waiting,
        "early": split.count,
    }
    trees = _tree_rows(spec, groups, ids, old, split)
    return OperatorResult(trees, _changes(spec, groups, changes), counters)


def _within_stop(stop: int, rows: Entries, groups: BatchGroups, ids: CollisionIds) -> Entries:
    """Drop inserted rows that come behind the range by the rows of the slice alone."""
    of = group_ordinals(groups.hashes, ids, rows.hashes, rows.collision_ids)
    some = np.flatnonzero(sums_before(of, rows.weights) < stop)
    return rows.take(some, rows.weights[some])


@dataclass(frozen=True, slots=True)
class _Split:
    """The changes of both trees by a slice.

    Attributes:
        live: changes of the tree of rows.
        early: changes of the tree of early retractions.
        waiting: change of the number of quarantined rows.
        count: number of new early retractions.
    """

    live: TreeDelta
    early: TreeDelta
    waiting: int
    count: int


def _split(
    spec: OrderedRowsSpec, rows: Entries, groups: BatchGroups, ids: CollisionIds, state: StateReader
) -> _Split:
    """Split the changes of rows into those of both trees, by the weights before and after."""
    trees = [state.open_tree(ordinal, None) for ordinal in (LIVE, EARLY)]
    above, below = (tree.weights(rows) for tree in trees)
    old = above + below  # one of them is 0
    new = add_weights([old, rows.weights])
    waiting = report_early_retractions(spec, rows.payload, old, new)
    count = int(np.count_nonzero((new < 0) & (old >= 0)))
    if spec.early != "carry":
        count = newly_below_zero(old, new)
    of = group_ordinals(groups.hashes, ids, rows.hashes, rows.collision_ids)
    live = _delta(LIVE, rows, of, above, np.maximum(new, 0), state)
    early = _delta(EARLY, rows, of, below, np.minimum(new, 0), state)
    return _Split(live, early, waiting, count)


def _delta(
    ordinal: int, rows: Entries, of: Indices, old: Int64s, new: Int64s, state: StateReader
) -> TreeDelta:
    """Return the change of a tree in which the weights of rows change from `old` to `new`."""
    some = np.flatnonzero(old != new)
    entries = rows.take(some, (new - old)[some])
    return TreeDelta(entries, of[some], old[some], new[some], state.open_tree(ordinal, entries))


def _check_totals(ordered: OrderedGroups) -> None:
    """Check that the ranks of all rows of a group fit 63 bits."""
    totals = ordered.old.total_weights(ordered.hashes, ordered.collision_ids)
    after = totals.astype(np.float64)
    np.add.at(after, ordered.groups, ordered.changed.weights.astype(np.float64))
    many = int(np.count_nonzero(after >= GREATEST_TOTAL))
    if many:
        raise RunFailed(
            "TOTAL_OVERFLOW",
            f"{many} groups have more rows than can be ordered: their weights exceed 62 bits",
            help="check the weight column of the source: such large weights are usually a mistake",
        )


def _without_rows_behind(
    stop: int, ordered: OrderedGroups, live: TreeDelta, state: StateReader
) -> TreeDelta:
    """Return the changes of the tree of rows without the rows behind the range."""
    behind = entries_behind(ordered, stop)
    if behind is None:
        return live
    parts = [part for part in (live.entries, behind) if len(part)]
    entries = consolidate_sorted(parts)
    trees = GroupTrees(ordered.hashes, ordered.collision_ids, state.open_tree)
    return delta_of(LIVE, entries, trees)


def _tree_rows(
    spec: OrderedRowsSpec, groups: BatchGroups, ids: CollisionIds, old: StoredGroups, split: _Split
) -> Mapping[str, pa.Table]:
    """Return the rows to add to every tree."""
    deltas = [split.live, split.early]
    weight = np.zeros((COUNT_DIGITS + 1, groups.count), np.int64)
    for delta in deltas:
        for total, digit in zip(
            weight, exact.from_words(delta.entries.weights[:, None]), strict=True
        ):
            np.add.at(total, delta.groups, digit)
    sums = add_entries(spec, deltas, groups.count, Sums(weight, {}, {}))
    now = add(spec, sums, old.state)
    rows = stored_rows(spec, groups, ids, now, np.zeros(groups.count, np.int64), [], [])
    never_stored = as_mask(rows.column("dead")) & ~old.exists
    return {
        GROUP: rows.filter(pa.array(~never_stored)),
        **{
            entries_tree(i): delta.entries.to_table(tree.layout)
            for i, (delta, tree) in enumerate(zip(deltas, spec.trees, strict=True))
        },
    }


def _changes(spec: OrderedRowsSpec, groups: BatchGroups, changes: Sequence[RowChanges]) -> pa.Table:
    """Return changes with the columns of the operator's output, retractions first."""
    schema = spec.changes
    tables = [schema.empty_table()]
    for part in changes:
        row = (part.payload[component] for component in spec.row)
        keys = take(groups.keys, part.groups)
        columns = [*keys, *row, *part.added, pa.array(part.weights)]
        typed = [c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
        tables.append(pa.Table.from_arrays(typed, schema=schema))
    table = pa.concat_tables(tables)
    first = np.argsort(table.column(WEIGHT).to_numpy() > 0, kind="stable")
    return table.take(pa.array(first))
