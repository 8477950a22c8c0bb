"""Rewrite the stored groups of one plan as those of another plan.

Rewriting a slice of groups is a pure function of Arrow tables and of the old trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from substrait_agg.commit.evolution.planner import Migration
from substrait_agg.commit.evolution.row_sources import ALWAYS_TRUE, RowSource
from substrait_agg.files.lazy_property import lazy_property
from substrait_agg.functions.aggregates.accumulators import COUNT_DIGITS, TREE_COUNTERS
from substrait_agg.functions.numbers import exact
from substrait_agg.functions.numbers.stored_digits import unpack_digits
from substrait_agg.operator.aggregate.extremes import extremes_delta
from substrait_agg.operator.aggregate.groups import (
    BatchGroups,
    CollisionIds,
    RowGroups,
    Sums,
    group_ordinals,
)
from substrait_agg.operator.aggregate.step import add
from substrait_agg.operator.aggregate.stored import stored_rows
from substrait_agg.operator.aggregate.trees import (
    GroupExtremes,
    GroupTrees,
    OpenTree,
    TreeDelta,
    count_entries,
    distinct_sums,
    tree_delta,
)
from substrait_agg.operator.aggregate.values import MeasuredGroups, measure_value
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.operator.common.spec import OperatorSpec
from substrait_agg.operator.measures.finalize import GroupState, count_of
from substrait_agg.operator.measures.row_partials import Weights, split_accumulator
from substrait_agg.operator.measures.user_aggregates import with_computed
from substrait_agg.operator.numeric.delta import (
    FloatDigits,
    fixed_digits,
    float_digits,
    unpack_floats,
)
from substrait_agg.required import require
from substrait_agg.state.entries import Entries, consolidate_sorted
from substrait_agg.state.keys.rows import Hashes, Indices, as_mask, take, whole
from substrait_agg.state.ordered import OrderedTree

Int64s = npt.NDArray[np.int64]
Summed = exact.Digits | FloatDigits


@dataclass(frozen=True, slots=True)
class RewrittenSlice:
    """The rewritten slice.

    Attributes:
        rows: rows of the group tree, in order of hash.
        trees: per ordered tree the rows to write; None for a tree that is kept, and for one without
            entries.
    """

    rows: pa.Table
    trees: tuple[pa.Table | None, ...]


@dataclass(frozen=True, slots=True)
class OldState:
    """The state that groups are read from.

    Attributes:
        old_tree: opens an old tree; returns None if it is empty.
        open_tree: opens a tree of the new plan, which is an old tree or empty.
        surrogates: returns that many new surrogate keys.
    """

    old_tree: Callable[[int], OrderedTree | None]
    open_tree: OpenTree
    surrogates: Callable[[int], Int64s]


def in_order(rows: pa.Table) -> pa.Table:
    """Return rows of a group tree in order of hash and collision id."""
    if "chain" not in rows.column_names:
        return rows
    hashes, chains = (rows.column(n).to_numpy() for n in ("hash", "chain"))
    if not ((hashes[1:] == hashes[:-1]) & (chains[1:] < chains[:-1])).any():
        return rows
    return rows.take(pa.array(np.lexsort((chains, hashes))))


def entries_read(migration: Migration, spec: OperatorSpec, rows: pa.Table) -> Int64s:
    """Return the number of tree entries that must be read for each group."""
    read = {source.tree for source in (*migration.number_rows, *migration.tree_rows) if source}
    kept_trees = (migration.trees[t] for t in _summed_trees(migration, spec))
    read |= {tree for tree in kept_trees if tree is not None}
    fixed = unpack_digits(rows, _offset(migration.digits, len(migration.digits)))
    total = np.zeros(rows.num_rows, np.int64)
    for tree in read:
        at = _offset(migration.digits, require(migration.entries[tree]))
        total += fixed[at] + (fixed[at + 1] << 32)
    return total


def _summed_trees(migration: Migration, spec: OperatorSpec) -> set[int]:
    """Return the trees whose entries a new accumulator counts or sums."""
    pairs = zip(migration.numbers, spec.accumulators, strict=True)
    return {
        accumulator.tree for at, accumulator in pairs if at is None and accumulator.tree is not None
    }


def _offset(digits: Sequence[int], ordinal: int) -> int:
    """Return the position of the first digit of an accumulator of fixed size."""
    return COUNT_DIGITS + sum(digits[:ordinal])


def migrate_groups(
    spec: OperatorSpec, migration: Migration, rows: pa.Table, before: OldState
) -> RewrittenSlice:
    """Rewrite groups to the state of a new plan.

    Args:
        spec: the operator of the new plan.
        migration: where its parts come from.
        rows: of the old group tree, in order of hash and collision id, each group once.
        before: the old state.

    Raises:
        RunFailed: RESULT_OVERFLOW, WEIGHT_OVERFLOW, TOTAL_OVERFLOW or USER_MEASURE_FAILED.
    """
    return GroupRewriter(spec, migration, rows.combine_chunks(), before).migrate_groups()


class GroupRewriter:
    """Rewrites the stored groups of one slice to the state of another plan."""

    def __init__(
        self, spec: OperatorSpec, migration: Migration, rows: pa.Table, before: OldState
    ) -> None:
        self._spec, self._migration, self._rows, self._before = spec, migration, rows, before
        self._count: int = rows.num_rows
        self._hashes: Hashes = rows.column("hash").to_numpy()
        self._chains: CollisionIds = np.zeros(self._count, np.uint16)
        if "chain" in rows.column_names:
            self._chains = rows.column("chain").to_numpy()
        self._entries: dict[int, Entries | None] = {}

    def migrate_groups(self) -> RewrittenSlice:
        """Rewrite the groups, as the function `migrate_groups`."""
        spec, rows = self._spec, self._rows
        now = add(spec, self._sums(), self._copied_accumulators())
        ends = self._extremes(now)
        shown = rows.column("shown").to_numpy()
        time = rows.column("time").to_numpy() if spec.forget else None
        values = self._values(now, ends, shown > 0)
        rewritten = stored_rows(spec, self._groups, self._chains, now, shown, values, ends, time)
        trees = tuple(map(self._rows_of_tree, range(len(spec.trees))))
        return RewrittenSlice(rewritten.filter(pa.array(~as_mask(rewritten.column("dead")))), trees)

    @lazy_property
    def _groups(self) -> BatchGroups:
        keys = [whole(self._rows, f"k{i}") for i in range(len(self._spec.keys))]
        of = np.arange(self._count)
        return BatchGroups(self._hashes, keys, of, RowGroups.of(of, self._count))

    # --- accumulators ----------------------------------------------------------------------------

    def _copied_accumulators(self) -> GroupState:
        """Return the kept accumulators, with zero for the others."""
        digits = self._migration.digits
        stored = unpack_digits(self._rows, _offset(digits, len(digits)))
        fixed = exact.zeros(self._spec.layout.digits, self._count)
        fixed[:COUNT_DIGITS] = stored[:COUNT_DIGITS]
        floats = {}
        for i, accumulator in enumerate(self._spec.accumulators):
            at, start = self._migration.numbers[i], self._spec.layout.offsets[i]
            if accumulator.floating:
                floats[i] = self._nothing if at is None else self._floats(at)
            elif at is not None:
                old_start = _offset(self._migration.digits, at)
                fixed[start : start + accumulator.digits] = stored[
                    old_start : old_start + accumulator.digits
                ]
        return GroupState(fixed, floats)

    def _floats(self, ordinal: int) -> FloatDigits:
        return unpack_floats(*(whole(self._rows, f"{name}{ordinal}") for name in "pf"))

    @property
    def _nothing(self) -> FloatDigits:
        return FloatDigits(0, exact.zeros(1, self._count))

    def _sums(self) -> Sums:
        """Return the new accumulators, computed from rows or entries."""
        fixed: dict[int, exact.Digits] = {}
        floats: dict[int, FloatDigits] = {}
        for i, accumulator in enumerate(self._spec.accumulators):
            total = self._sum(i) if self._migration.numbers[i] is None else None
            if accumulator.floating:
                floats[i] = total if isinstance(total, FloatDigits) else self._nothing
            else:
                zero = exact.zeros(accumulator.digits, self._count)
                fixed[i] = zero if total is None or isinstance(total, FloatDigits) else total
        return Sums(exact.zeros(COUNT_DIGITS, self._count), fixed, floats)

    def _sum(self, ordinal: int) -> Summed | None:
        accumulator = self._spec.accumulators[ordinal]
        if accumulator.kind in TREE_COUNTERS:
            return count_entries(accumulator, self._deltas[require(accumulator.tree)], self._count)
        if accumulator.tree is not None:
            return distinct_sums(self._spec, ordinal, self._deltas[accumulator.tree], self._count)
        source_rows = self._source_rows(self._migration.number_rows[ordinal])
        if source_rows is None:
            return None
        columns = with_computed(source_rows.columns, self._spec.computed)
        table = pa.table(
            split_accumulator(ordinal, accumulator, columns, Weights.of(source_rows.weights))
        )
        groups = RowGroups.of(source_rows.groups, self._count)
        if accumulator.floating:
            return groups.sum_floats(float_digits(table, ordinal, accumulator))
        return groups.sum_rows(fixed_digits(table, ordinal, accumulator))

    # --- trees -----------------------------------------------------------------------------------

    @lazy_property
    def _deltas(self) -> list[TreeDelta]:
        """Return the entries of each tree as additions to an empty tree.

        A kept tree has none if no new accumulator needs them.
        """
        summed = _summed_trees(self._migration, self._spec)
        return [
            self._new_tree(i) if at is None else self._read(i, all_=i in summed)
            for i, at in enumerate(self._migration.trees)
        ]

    def _rows_of_tree(self, ordinal: int) -> pa.Table | None:
        """Return the rows to write of a tree, with the weights of all trees that share its runs."""
        tree = self._spec.trees[ordinal]
        if self._migration.trees[ordinal] is not None or tree.extremes_only:
            return None
        first, *filtered = self._spec.together(ordinal)
        if first != ordinal:
            return None
        if not filtered:
            return self._deltas[ordinal].entries.to_table(tree.layout)
        parts = [
            self._deltas[t].entries.in_column(column, tree.layout.trees)
            for column, t in enumerate((first, *filtered))
        ]
        return consolidate_sorted(parts).to_table(tree.layout)

    def _new_tree(self, ordinal: int) -> TreeDelta:
        spec, source_rows = (
            self._spec.trees[ordinal],
            self._source_rows(self._migration.tree_rows[ordinal]),
        )
        if source_rows is None:
            return self._read(ordinal, all_=False)
        columns: dict[str, object] = {f"x{a}": column for a, column in source_rows.columns.items()}
        table = pa.table({**columns, WEIGHT: source_rows.weights})
        trees = GroupTrees(self._hashes, self._chains, self._before.open_tree)
        if spec.extremes_only:
            groups = RowGroups.of(source_rows.groups, self._count)
            return extremes_delta(ordinal, self._spec, table, groups, trees, version=_NO_BATCH)
        return tree_delta(ordinal, spec, table, source_rows.groups, trees)

    def _read(self, ordinal: int, *, all_: bool) -> TreeDelta:
        tree, layout = self._before.open_tree(ordinal, None), self._spec.trees[ordinal].layout
        entries = Entries.from_table(layout.schema.empty_table(), layout)
        at = self._migration.trees[ordinal]
        if all_ and at is not None:
            _, column = self._migration.runs[at]
            entries = tree.entries(self._hashes, self._chains).of_column(column)
        groups = group_ordinals(self._hashes, self._chains, entries.hashes, entries.collision_ids)
        return TreeDelta(entries, groups, np.zeros(len(entries), np.int64), entries.weights, tree)

    def _source_rows(self, source: RowSource | None) -> _SourceRows | None:
        """Return the rows of a source, or None if there are none."""
        if source is None:
            raise TypeError("something new without rows")
        if source.tree not in self._entries:
            first, column = self._migration.runs[source.tree]
            tree = self._before.old_tree(first)
            self._entries[source.tree] = (
                None if tree is None else tree.entries(self._hashes, self._chains).of_column(column)
            )
        entries = self._entries[source.tree]
        if entries is None or not len(entries):
            return None
        groups = group_ordinals(self._hashes, self._chains, entries.hashes, entries.collision_ids)
        always = pa.array(np.ones(len(entries), np.bool_))
        columns = {a: always if c is ALWAYS_TRUE else entries.payload[c] for a, c in source.columns}
        weights = np.maximum(entries.weights, 0) if source.capped else entries.weights
        return _SourceRows(columns, weights, groups)

    def _extremes(self, now: GroupState) -> list[GroupExtremes]:
        ends = []
        for (tree, side), at in zip(self._spec.extremes, self._migration.extremes, strict=True):
            exists = count_of(self._spec, now, self._spec.alive(tree)) > 0
            parts = range(len(self._spec.trees[tree].layout.components))
            payload = (
                tuple(whole(self._rows, f"e{at}_{c}") for c in parts) if at is not None else None
            )
            if payload is None:
                tree_before = self._deltas[tree].tree
                _, payload = tree_before.first_live(self._hashes, self._chains, last=side == "last")
            ends.append(GroupExtremes(exists, payload))
        return ends

    # --- values ----------------------------------------------------------------------------------

    def _values(
        self, now: GroupState, ends: list[GroupExtremes], shown: npt.NDArray[np.bool_]
    ) -> list[pa.Array]:
        keys = len(self._spec.keys)
        types = [f.type for f in self._spec.output][keys : keys + len(self._spec.measures)]
        groups = MeasuredGroups(
            spec=self._spec,
            hashes=self._hashes,
            collision_ids=self._chains,
            keys=self._groups.keys,
            state=now,
            shown=shown,
            existed=np.zeros(self._count, np.bool_),
            before=[pa.nulls(self._count, type_) for type_ in types],
            stale=np.ones(self._count, np.bool_),
            deltas=self._deltas,
            extremes=ends,
            surrogates=self._before.surrogates,
        )
        return [
            measure_value(groups, i) if at is None else whole(self._rows, f"v{at}")
            for i, at in enumerate(self._migration.measures)
        ]


_NO_BATCH = -1
"""The batch of migrated rows.

Measures that depend on the arrival of rows are never made from kept state.
"""


@dataclass(frozen=True, slots=True)
class _SourceRows:
    """Rows: argument columns by ordinal, weights, and the group of each row."""

    columns: dict[int, pa.Array]
    weights: Int64s
    groups: Indices


def closed_as(rows: pa.Table, migration: Migration, schema: pa.Schema) -> pa.Table:
    """Return rows of closed groups with the measures that the new plan keeps."""
    names = [f.name if f.name[0] != "v" else "" for f in schema]
    values = iter(f"v{at}" for at in migration.measures)
    return pa.Table.from_arrays([rows.column(n or next(values)) for n in names], schema=schema)


def pieces(rows: pa.Table, sizes: Int64s, most: int) -> list[pa.Table]:
    """Split rows into parts whose `sizes` add up to about `most`."""
    part = (np.cumsum(np.maximum(sizes, 1)) - 1) // most
    cuts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), rows.num_rows]
    return [rows.slice(a, b - a) for a, b in pairwise(cuts) if b > a]


def shown_rows(rows: pa.Table, sign: int) -> pa.Table:
    """Return the emitted rows as changes: insertions with sign 1, retractions with -1."""
    weights = rows.column("shown").to_numpy()
    some = np.flatnonzero(weights > 0)
    names = [n for n in rows.column_names if n[0] in "kv" and n[1:].isdigit()]
    columns = take([whole(rows, n) for n in names], some)
    return pa.table([*columns, pa.array(sign * weights[some])], [*names, WEIGHT])
