"""An operator with any measures and its folder: it takes raw rows, writes real runs and change
files, and shows the view.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from substrait_agg.commit.hash_ranges import sort_hash
from substrait_agg.commit.tasks.task_plan import TaskResult
from substrait_agg.flow.graph.nodes import Node
from substrait_agg.operator.aggregate import values
from substrait_agg.operator.aggregate.eviction import closed_schema
from substrait_agg.operator.aggregate.operator import GroupOperator
from substrait_agg.operator.aggregate.pending import pending_schema
from substrait_agg.operator.common.emission import ALL, NONE, Emission
from substrait_agg.operator.common.names import (
    CLOSED,
    GROUP,
    PENDING,
    POSITION,
    TIME,
    WEIGHT,
    entries_tree,
)
from substrait_agg.operator.common.spec import OperatorSpec, TreeSpec
from substrait_agg.operator.measures import moments, ranks
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import BOOL, Type
from substrait_agg.state import merging, ordered, run
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.tree import KeyedTree
from tests.operator.measures_columns import NAMES
from tests.operator.measures_reference import (
    Row,
    Values,
    canonical,
    canonical_as,
    evaluate,
    value_of,
)
from tests.operator.specs import operator_spec
from tests.operator.tasks import SPREAD, TaskRunner, hash_of

Shown = dict[Values, Values]


class World(TaskRunner):
    """Applies batches, stores the changelog, and returns the view.

    Args:
        node: the operator.
        folder: where its files go.
        spread: how many different hashes the keys have.
        sizes: ``page_rows`` and ``slice_rows`` of the spec.
    """

    def __init__(self, node: Node, folder: Path, spread: int = SPREAD, **sizes: int) -> None:
        self.node = node
        self.spec: OperatorSpec = replace(operator_spec(node), **sizes)  # type: ignore[arg-type]
        super().__init__(
            GroupOperator(self.spec), folder, self.spec.output.names, final=True, cut=4
        )
        self.spread = spread
        self.rows: list[Row] = []
        self.log: Counter[Values] = Counter()
        self.results: list[TaskResult] = []

    # --- batches ---------------------------------------------------------------------------------

    def batch(
        self,
        rows: Sequence[Row],
        partitions: int = 1,
        *,
        emit: bool = True,
        emission: Emission | None = None,
        again: bool = False,
    ) -> None:
        """Run one batch over all partitions; without an `emission`, `emit` selects all groups or none.

        With `again` it is the second pass of a version, without rows.
        """
        rules = emission or (ALL if emit else NONE)
        number = self.now.number + (not again)
        rows = [replace(row, batch=number, place=i) for i, row in enumerate(rows)]
        self.rows += rows
        results = self.run(
            self._exchanged(rows),
            1 if self.spec.is_global else partitions,
            again=again,
            emission=rules,
            initial_groups=self._initial_groups() if number == 1 else (),
        )
        assert not any(r.misplaced or r.decimal_overflow for r in results)
        for table in self.changes_of(results):
            self._apply(table)
        self.results = results

    def _exchanged(self, rows: Sequence[Row]) -> pa.RecordBatch | None:
        """The rows without what tasks compute from other arguments."""
        if not rows:
            return None
        return self.raw_rows(rows).drop_columns([f"x{m.argument}" for m in self.spec.masked])

    def cut_rows(
        self, rows: pa.RecordBatch | None, p: int, partitions: int
    ) -> list[pa.RecordBatch]:
        """The rows of a partition, many of them in one piece."""
        batches = super().cut_rows(rows, p, partitions)
        many = len(batches) * self.cut > 1000
        return [pa.concat_batches(batches)] if many else batches

    def _initial_groups(self) -> tuple[tuple[int, int], ...]:
        if self.spec.is_global:
            return ((0, 0),)
        nulls = (None,) * (len(self.spec.keys) - 1)
        return tuple((self._sort_hash((*nulls, i)), i) for i in self.spec.always)

    def _sort_hash(self, key: Values) -> int:
        murmur, other = (np.array([h], np.int32) for h in self._hashes(key))
        return int(sort_hash(murmur, other)[0])

    def _hashes(self, key: Values) -> tuple[int, int]:
        if not key:
            return 0, 0
        return hash_of(canonical(key), self.spread), 7

    def _keys(self, row: Row) -> list[Values]:
        """The key of a row in each grouping set."""
        keys = [evaluate(k, row.values) for k in self.node.keys]
        # As the exchange does it: there is one zero.
        keys = [k + 0.0 if isinstance(k, float) else k for k in keys]
        if not self.node.sets:
            return [tuple(keys)]
        return [
            (*(k if i in chosen else None for i, k in enumerate(keys)), index)
            for index, chosen in enumerate(self.node.sets)
        ]

    def raw_rows(self, rows: Sequence[Row]) -> pa.RecordBatch:
        """The rows once per grouping set: hashes, keys, arguments, weights."""
        pairs = [(key, row) for row in rows for key in self._keys(row)]
        hashes = [self._hashes(key) for key, _ in pairs]
        columns = {
            "__m": pa.array([m for m, _ in hashes], pa.int32()),
            "__x": pa.array([x for _, x in hashes], pa.int32()),
        }
        for i, type_ in enumerate(self.spec.keys):
            columns[f"k{i}"] = pa.array([key[i] for key, _ in pairs], type_)
        for i, (value, condition) in enumerate(self.node.arguments):
            cells = [
                (True if value is None else evaluate(value, row.values))
                if condition is None or evaluate(condition, row.values) is True
                else None
                for _, row in pairs
            ]
            type_ = pa.bool_() if value is None else to_arrow(value.type)
            columns[f"x{i}"] = pa.array(cells, type_)
        if self.spec.by_arrival:
            columns[POSITION] = pa.array([row.place for _, row in pairs], pa.int64())
        if self.spec.weight != "append_only":
            columns[WEIGHT] = pa.array([row.weight for _, row in pairs], pa.int64())
        if self.node.timed:
            times = [row.values[NAMES.index("stamp")] for _, row in pairs]
            micros = pa.array(times, pa.timestamp("us")).cast(pa.int64())
            columns[TIME] = micros.fill_null(1 << 62)  # as the exchange does it
        return pa.RecordBatch.from_pydict(columns)

    def _apply(self, changes: pa.Table) -> None:
        rows = _tuples(changes.drop_columns(["__version", WEIGHT]))
        inserted: set[Values] = set()
        for row, weight in zip(rows, changes.column(WEIGHT).to_pylist(), strict=True):
            key = row[: len(self.spec.keys)]
            assert weight > 0 or key not in inserted, "a retraction follows its insertion"
            if weight > 0:
                inserted.add(key)
            self.log[row] += weight
            assert self.log[row] in (0, 1), "a row was retracted that had not been emitted"

    # --- what is there ---------------------------------------------------------------------------

    def view(self) -> Shown:
        """The rows shown, of open and of closed groups: key -> values of the measures."""
        keys = len(self.spec.keys)
        shown: Shown = {}
        for part in (*self._groups(), *self.closed()):
            values = _tuples(part.select(self.spec.output.names))
            for row, weight in zip(values, part.column("shown").to_pylist(), strict=True):
                assert weight in (0, 1)
                if weight:
                    assert row[:keys] not in shown, "a group is there twice"
                    shown[row[:keys]] = row[keys:]
        return shown

    def _groups(self) -> Iterator[pa.Table]:
        return self.scan(GROUP, self.spec.layout.schema, len(self.spec.keys))

    def closed(self) -> Iterator[pa.Table]:
        """The rows of closed groups."""
        return self.scan(CLOSED, closed_schema(self.spec), len(self.spec.keys))

    def pending(self) -> KeyedTree:
        """The tree of the groups that wait."""
        keys = self.spec.keys
        return KeyedTree(self.files, self.state[PENDING], pending_schema(keys), len(keys))

    def waiting_groups(self) -> dict[Values, tuple[int, int]]:
        """The groups that wait: key -> rows since the last emission, and when the last came."""
        keys = len(self.spec.keys)
        found: dict[Values, tuple[int, int]] = {}
        for part in self.pending().scan():
            for row in _tuples(part.drop_columns(["hash", "dead"])):
                assert row[:keys] not in found, "a group waits twice"
                found[row[:keys]] = (row[keys], row[keys + 1])
        return found

    def keys_of(self, row: Row) -> list[Values]:
        """The key of a row in each grouping set, as `view` has it."""
        return [canonical(key) for key in self._keys(row)]

    def value(self, *key: Any) -> Values:
        """The value that the group shows."""
        return self.view()[canonical(key)]

    def groups_kept(self) -> int:
        """Groups in the group tree, shown or not."""
        return sum(part.num_rows for part in self._groups())

    def open_groups(self) -> set[Values]:
        """The keys of the groups in the group tree, shown or not."""
        keys = [f"k{i}" for i in range(len(self.spec.keys))]
        parts = self._groups()
        return {key for part in parts for key in _tuples(part.select(keys))}

    def entries_kept(self) -> int:
        """Entries in all ordered trees with a weight other than 0."""
        total = 0
        for i in range(len(self.spec.trees)):
            together = self.spec.together(i)
            layout = self.spec.trees[together[0]].layout
            tree = OrderedTree(self.files, self.state[entries_tree(together[0])], layout)
            weight = layout.weights[together.index(i)]
            total += sum(int((part.column(weight).to_numpy() != 0).sum()) for part in tree.scan())
        return total

    def entries_expected(self) -> int:
        """Entries that all rows so far leave in the ordered trees."""
        return sum(map(self._entries_of, self.spec.trees)) if self.rows else 0

    def _entries_of(self, tree: TreeSpec) -> int:
        if tree.extremes_only:
            return 0
        if tree.follows is not None:
            # Of every value that is there, when it came.
            return sum(w > 0 for w in self._weights(self.spec.trees[tree.follows.tree]).values())
        return sum(w != 0 for w in self._weights(tree).values())

    def _weights(self, tree: TreeSpec) -> Counter[Values]:
        needed = [tree.arguments[i] for i in tree.skipped]
        needed += [] if tree.present is None else [tree.present]
        weights: Counter[Values] = Counter()
        for cells in self.raw_rows(self.rows).to_pylist():
            if any(cells[f"x{argument}"] is None for argument in needed):
                continue
            key = tuple(canonical(cells[f"k{i}"]) for i in range(len(self.spec.keys)))
            values = [canonical_as(cells[f"x{a}"], self._type(a)) for a in tree.arguments]
            for entry in values[0] if tree.elements else [tuple(values)]:
                weights[(key, entry)] += cells.get(WEIGHT, 1)
        return weights

    def _type(self, argument: int) -> Type:
        value = self.node.arguments[argument][0]
        return BOOL if value is None else value.type

    def expected(self) -> Shown:
        """The view over all rows so far, from scratch; surrogate keys are left None."""
        members: dict[Values, list[Row]] = {}
        for row in self.rows:
            for key in self._keys(row):
                members.setdefault(canonical(key), []).append(row)
        nulls = (None,) * max(0, len(self.spec.keys) - 1)
        always = [()] if self.spec.is_global else [(*nulls, i) for i in self.spec.always]
        for key in always:
            members.setdefault(key, [])
        return {
            key: tuple(
                None if m.kind == "surrogate_key"
                else value_of(m, rows, key[-1] if self.node.sets else 0)
                for m in self.node.measures
            )
            for key, rows in members.items()
            if key in always or sum(r.weight for r in rows) > 0
        }  # fmt: skip

    def check(self) -> None:
        """The view is what recomputation gives, and the sum of all changes is the view."""
        view, wanted = self.view(), self.expected()
        assert view.keys() == wanted.keys()
        for key, row in view.items():
            for measure, got, want in zip(self.node.measures, row, wanted[key], strict=True):
                if measure.kind == "surrogate_key":
                    continue
                assert agree(measure.kind, got, want), (key, measure, got, want)
        assert +self.log == Counter({(*key, *row): 1 for key, row in view.items()})


def agree(kind: str, got: Any, want: Any) -> bool:
    """Equality; correlations and float products may differ by two units in the last place."""
    close = kind in ("corr", "product") and isinstance(got, float) and isinstance(want, float)
    if close and math.isfinite(got) and math.isfinite(want):
        return bool(abs(got - want) <= 2 * math.ulp(want))
    return type(got) is type(want) and bool(got == want)


def _tuples(table: pa.Table) -> list[Values]:
    columns = [column.to_pylist() for column in table.columns]
    return [canonical(row) for row in zip(*columns, strict=True)]


@contextmanager
def merging_soon(tier: int, budget: int) -> Iterator[None]:
    """Size classes from `tier` rows, and merges of no more than `budget` rows per batch."""
    with (
        patch.object(merging, "SMALL_TIERS", (tier,)),
        patch.object(merging, "SMALL_WIDTH", 4),
        patch.object(merging, "LEAST_BUDGET", budget),
        patch.object(merging, "BUDGET_FACTOR", 0),
    ):
        yield


@contextmanager
def small_parts(rows: int) -> Iterator[None]:
    """Split everything that is cut into parts of many rows into parts of a few."""
    with ExitStack() as stack:
        for module, name in (
            (ordered, "SCAN_ROWS"), (ordered, "GROUPS_AT_ONCE"), (run, "SCAN_ROWS"), (ordered, "FIRST_ROWS"),
            (moments, "CHUNK"), (ranks, "CHUNK"), (values, "LARGE"), (values, "READ_ENTRIES"),
        ):  # fmt: skip
            stack.enter_context(patch.object(module, name, rows))
        yield
