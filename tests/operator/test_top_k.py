"""The top-k operator against a sorted list of all rows: rows of any weight in any order, over real runs with tiny pages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import cmp_to_key
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from substrait_agg.bind.bound import BoundFetch, BoundRows, Column, MeasureSort
from substrait_agg.errors import RunFailed
from substrait_agg.flow.graph.top_k import OrderedRows, TopK
from substrait_agg.flow.passes.ordered_rows import ordered_rows_node
from substrait_agg.functions.aggregates.accumulators import EarlyRetraction, WeightKind
from substrait_agg.operator.common.names import GROUP, WEIGHT, entries_tree
from substrait_agg.operator.registry import operator_of
from substrait_agg.operator.top_k import window as window_module
from substrait_agg.operator.top_k.step import OrderedRowsOperator
from substrait_agg.plan.arrow import to_arrow
from substrait_agg.plan.types import Type
from substrait_agg.state.ordered import OrderedTree
from tests.operator.measures_world import merging_soon
from tests.operator.tasks import TaskRunner, hash_of
from tests.sampling import examples

Row = tuple[Any, ...]
Sort = tuple[int, bool, bool]
"""Column, descending, nulls first."""
NUMBER = Type("i64", nullable=False)
TYPES = (Type("i64"), Type("string"), Type("fp64"))
NAN = float("nan")


# --- the definition ----------------------------------------------------------------------------


def _value_key(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def _compare(left: Any, right: Any, *, descending: bool, nulls_first: bool) -> int:
    if left is None or right is None:
        if left is right:
            return 0
        return -1 if (left is None) == nulls_first else 1
    a, b = _value_key(left), _value_key(right)
    result = int(a > b) - int(a < b)
    return -result if descending else result


def in_order(sorts: Sequence[Sort], width: int) -> Callable[[Row], Any]:
    """The key of a row: its sort keys, then its other columns."""
    there = {column for column, _, _ in sorts}
    order = [*sorts, *((i, False, False) for i in range(width) if i not in there)]

    def compare(left: Row, right: Row) -> int:
        for column, descending, nulls_first in order:
            result = _compare(
                left[column], right[column], descending=descending, nulls_first=nulls_first
            )
            if result:
                return result
        return 0

    return cmp_to_key(compare)


def window(
    rows: Counter[Row], sorts: Sequence[Sort], offset: int, count: int | None, keys: int = 0
) -> Counter[Row]:
    """The rows in the range of each group, by writing all rows one after another."""
    shown: Counter[Row] = Counter()
    for group in {row[:keys] for row in rows}:
        mine = [row for row in rows if row[:keys] == group]
        width = len(mine[0]) - keys
        key = in_order(sorts, width)
        ranked = sorted(mine, key=lambda row: key(row[keys:]))
        rank = 0
        for row in ranked:
            weight = max(rows[row], 0)
            stop = math.inf if count is None else offset + count
            seen = max(0, min(rank + weight, stop) - max(rank, offset))
            if seen:
                shown[row] += int(seen)
            rank += weight
    return shown


def row_numbers(
    rows: Counter[Row], sorts: Sequence[Sort], offset: int, count: int | None, keys: int = 0
) -> Counter[Row]:
    """The rows in the range of each group, each once for each of its positions, which is its last value."""
    shown: Counter[Row] = Counter()
    for number in range(
        offset, offset + (sum(map(abs, rows.values())) if count is None else count)
    ):
        for row in window(rows, sorts, number, 1, keys):
            shown[(*row, number + 1)] += 1
    return shown


def one_form(row: Row) -> Row:
    """Equal values in one form, so that a Counter takes them as equal."""
    return tuple(map(_frozen, row))


def _frozen(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(value.values())
    return tuple(value) if isinstance(value, list) else value


# --- the operator ------------------------------------------------------------------------------


def node_of(
    sorts: Sequence[Sort],
    offset: int,
    count: int | None,
    *,
    types: Sequence[Type] = TYPES,
    weight: WeightKind = "weighted",
    early: EarlyRetraction = "carry",
    keys: int = 0,
    numbered: bool = False,
) -> TopK:
    """A fetch over columns of these types; the first `keys` columns are the group."""
    own = tuple(types)
    order = tuple(MeasureSort(Column(own[c], c), d, n) for c, d, n in sorts)
    groups = tuple(Column(Type("string"), 100 + i) for i in range(keys))
    source = BoundRows(own, (), "relations[0]")
    output = (*own, NUMBER) if numbered else own
    fetch = BoundFetch(
        source, order, offset, count, output, "relations[0]", groups, numbered=numbered
    )
    node = ordered_rows_node(0, (), (weight, early), fetch)
    assert isinstance(node, TopK)
    return node


class World(TaskRunner):
    """The operator: batches in, the sum of its changes out."""

    def __init__(
        self,
        folder: Path,
        node: OrderedRows,
        *,
        page_rows: int = 4,
        slice_rows: int = 50,
        spread: int = 7,
    ) -> None:
        operator = operator_of(node)
        assert isinstance(operator, OrderedRowsOperator)
        self.spec = replace(operator.spec, page_rows=page_rows, slice_rows=slice_rows)
        made = replace(operator, spec=self.spec)
        super().__init__(made, folder, node.columns, final=False, cut=7)
        self.node, self.spread = node, spread
        self.log: Counter[Row] = Counter()
        self.counters: Counter[str] = Counter()

    @property
    def keys(self) -> int:
        """Number of key columns."""
        return len(self.node.keys)

    def batch(self, rows: Sequence[tuple[Row, int]], partitions: int = 1) -> Counter[Row]:
        """Take up rows (keys, then the columns) with their weights; give the changes."""
        results = self.run(self._raw(rows) if rows else None, partitions)
        for result in results:
            self.counters.update(result.counters)
        changes: Counter[Row] = Counter()
        for table in self.changes_of(results):
            *columns, weights = (table.column(n).to_pylist() for n in table.column_names)
            for *row, weight in zip(*columns, weights, strict=True):
                changes[one_form(tuple(row))] += weight
                assert weight
        self.log.update(changes)
        self.log = Counter({row: w for row, w in self.log.items() if w})
        return changes

    def _raw(self, rows: Sequence[tuple[Row, int]]) -> pa.RecordBatch:
        keys = self.keys
        hashes = [hash_of(row[:keys], self.spread) if keys else 0 for row, _ in rows]
        columns: dict[str, pa.Array] = {
            "__m": pa.array(hashes, pa.int32()),
            "__x": pa.array([7 if keys else 0] * len(rows), pa.int32()),
        }
        for i in range(keys):
            columns[f"k{i}"] = pa.array([row[i] for row, _ in rows], pa.string())
        types = [to_arrow(t) for t in self.node.types[keys:]]
        for column, argument in enumerate(self.node.row):
            values = [row[keys + column] for row, _ in rows]
            columns[f"x{argument}"] = pa.array(values, types[column])
        if self.node.weight != "append_only":
            columns[WEIGHT] = pa.array([weight for _, weight in rows], pa.int64())
        return pa.RecordBatch.from_pydict(columns)

    def entries(self, tree: int = 0) -> int:
        """Entries kept in a tree."""
        stored = OrderedTree(
            self.files, self.state[entries_tree(tree)], self.spec.trees[tree].layout
        )
        return sum(part.num_rows for part in stored.scan())


# --- the model ---------------------------------------------------------------------------------

ROWS = st.tuples(
    st.sampled_from([None, 1, 2, 3, -5]),
    st.sampled_from([None, "", "a", "ä", "z"]),
    st.sampled_from([None, NAN, 0.0, -0.0, -1.5, math.inf]),
)
WEIGHTS = st.sampled_from([1, 1, 1, 2, 5, -1, -1, -2, 40])
BATCHES = st.lists(st.lists(st.tuples(ROWS, WEIGHTS), max_size=12), min_size=1, max_size=6)
SORTS = st.lists(
    st.tuples(st.integers(0, 2), st.booleans(), st.booleans()),
    max_size=3,
    unique_by=lambda sort: sort[0],
)
COUNTS = st.sampled_from([0, 1, 2, 3, 10, None])
OFFSETS = st.sampled_from([0, 0, 1, 2, 5, 100])
SLOW = [HealthCheck.too_slow]
WAYS = st.sampled_from([(32, 1 << 12), (0, 1 << 12), (0, 8), (0, 0)])
"""Rows read beyond the end of the range at the beginning of a group, and at most: changes are found there, or by ranks."""


@contextmanager
def way(spare: int, most: int) -> Iterator[None]:
    """Find changes in one of the `WAYS`."""
    with (
        patch.object(window_module, "SPARE_ROWS", spare),
        patch.object(window_module, "FIRST_ROWS", most),
    ):
        yield


@settings(max_examples=examples(400), suppress_health_check=SLOW)
@given(BATCHES, SORTS, OFFSETS, COUNTS, WAYS)
def test_changes_add_up_to_the_rows_of_the_range(
    batches: list[list[tuple[Row, int]]],
    sorts: list[Sort],
    offset: int,
    count: int | None,
    found: tuple[int, int],
) -> None:
    with TemporaryDirectory() as folder, merging_soon(4, 8), way(*found):
        world = World(Path(folder), node_of(sorts, offset, count))
        rows: Counter[Row] = Counter()
        for batch in batches:
            world.batch(batch)
            for row, weight in batch:
                rows[one_form(row)] += weight
            rows = Counter({row: w for row, w in rows.items() if w})
            plain = Counter({back(row): w for row, w in rows.items()})
            assert world.log == named(window(plain, sorts, offset, count))


def back(row: Row) -> Row:
    """A row with NaN as a number."""
    return tuple(NAN if v == "nan" else v for v in row)


def named(rows: Counter[Row]) -> Counter[Row]:
    """Rows in the form of the log."""
    return Counter({one_form(row): w for row, w in rows.items()})


@settings(max_examples=examples(200), suppress_health_check=SLOW)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["p", "q", None]), ROWS, WEIGHTS), max_size=12),
        min_size=1,
        max_size=5,
    ),
    SORTS,
    OFFSETS,
    COUNTS,
    st.sampled_from([1, 4]),
    WAYS,
    st.booleans(),
)
def test_every_group_has_a_range_of_its_own(
    batches: list[list[tuple[str | None, Row, int]]],
    sorts: list[Sort],
    offset: int,
    count: int | None,
    partitions: int,
    found: tuple[int, int],
    numbered: bool,
) -> None:
    expected = row_numbers if numbered else window
    with TemporaryDirectory() as folder, merging_soon(4, 8), way(*found):
        node = node_of(sorts, offset, count, keys=1, numbered=numbered)
        world = World(Path(folder), node, spread=2)
        rows: Counter[Row] = Counter()
        for batch in batches:
            world.batch([((key, *row), w) for key, row, w in batch], partitions)
            for key, row, weight in batch:
                rows[(key, *one_form(row))] += weight
            rows = Counter({row: w for row, w in rows.items() if w})
            plain = Counter({back(row): w for row, w in rows.items()})
            assert world.log == named(expected(plain, sorts, offset, count, keys=1))


@settings(max_examples=examples(200), suppress_health_check=SLOW)
@given(
    st.lists(st.lists(ROWS, max_size=15), min_size=1, max_size=6),
    SORTS,
    OFFSETS,
    COUNTS,
    st.booleans(),
)
def test_rows_that_are_only_inserted_are_stored_up_to_the_end_of_the_range(
    batches: list[list[Row]],
    sorts: list[Sort],
    offset: int,
    count: int | None,
    numbered: bool,
) -> None:
    expected = row_numbers if numbered else window
    with TemporaryDirectory() as folder, merging_soon(4, 8):
        node = node_of(sorts, offset, count, weight="append_only", numbered=numbered)
        world = World(Path(folder), node)
        rows: Counter[Row] = Counter()
        for batch in batches:
            world.batch([(row, 1) for row in batch])
            rows.update(map(one_form, batch))
            plain = Counter({back(row): w for row, w in rows.items()})
            assert world.log == named(expected(plain, sorts, offset, count))
            if count is not None:
                assert world.entries() <= offset + count


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    """Makes the one world of a test."""
    return lambda *a, **k: World(tmp_path, node_of(*a, **k))


FIRST = (0, False, False)


def numbers(*weighted: tuple[int, int]) -> list[tuple[Row, int]]:
    """Rows with a number each, and their weights."""
    return [((n, None, None), w) for n, w in weighted]


def test_a_row_is_partly_in_the_range(world: Callable[..., World]) -> None:
    w = world([FIRST], 3, 4)
    assert w.batch(numbers((1, 5), (2, 1), (3, 9))) == Counter(
        {(1, None, None): 2, (2, None, None): 1, (3, None, None): 1}
    )
    assert w.batch(numbers((0, 1))) == Counter({(1, None, None): 1, (3, None, None): -1})


def test_early_retractions_are_in_no_rank(world: Callable[..., World]) -> None:
    w = world([FIRST], 0, 2)
    w.batch(numbers((1, -2), (2, 1), (3, 1), (4, 1)))
    assert w.log == Counter({(2, None, None): 1, (3, None, None): 1})
    assert (w.entries(0), w.entries(1), w.counters["early"]) == (3, 1, 1)
    w.batch(numbers((1, 3)))
    assert w.log == Counter({(1, None, None): 1, (2, None, None): 1})
    assert (w.entries(0), w.entries(1)) == (4, 0)


def test_early_retractions_are_refused(world: Callable[..., World]) -> None:
    w = world([FIRST], 0, 2, early="refuse")
    w.batch(numbers((1, 1)))
    with pytest.raises(
        RunFailed, match="1 rows are retracted more often than they were inserted"
    ) as error:
        w.batch(numbers((1, -2)))
    assert error.value.code == "EARLY_RETRACTION"


def test_early_retractions_are_counted_in_quarantine(world: Callable[..., World]) -> None:
    w = world([FIRST], 0, 2, early="quarantine")
    w.batch(numbers((1, -2), (2, 1)))
    assert (w.counters["quarantined"], w.counters["early"]) == (2, 2)
    w.batch(numbers((1, 1)))
    assert (w.counters["quarantined"], w.counters["early"]) == (1, 2)
    assert w.log == Counter({(2, None, None): 1})


def test_a_total_that_has_no_ranks_fails(world: Callable[..., World]) -> None:
    w = world([FIRST], 0, 2)
    w.batch(numbers((1, 1 << 61)))
    with pytest.raises(RunFailed) as error:
        w.batch(numbers((2, 1 << 61)))
    assert error.value.code == "TOTAL_OVERFLOW"


def test_huge_offsets_and_counts(world: Callable[..., World]) -> None:
    most = (1 << 63) - 1
    w = world([FIRST], 1, most)
    w.batch(numbers((1, 1), (2, 1 << 61)))
    assert w.log == Counter({(2, None, None): 1 << 61})


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (Type("decimal", params=(38, 2)), [Decimal("-1.50"), Decimal("0.01"), Decimal(10) ** 30]),
        (Type("string"), ["", "Z", "a", "\uffff", "\U0001f600"]),
        (Type("binary"), [b"", b"\0", b"\0\0", b"\xff"]),
        (Type("bool"), [False, True]),
        (Type("list", children=(Type("i64"),)), [[], [None], [1], [1, 2]]),
        (
            Type("struct", children=(Type("i64"), Type("string"))),
            [(None, "b"), (1, None), (1, "a")],
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, Type) else "",
)
def test_types_have_their_order(
    tmp_path: Path, type_: Type, values: list[Any], descending: bool
) -> None:
    """`values` are ascending."""
    w = World(tmp_path, node_of([(0, descending, False)], 0, 1, types=(type_,)))
    if type_.kind == "struct":
        names = [field.name for field in to_arrow(type_)]
        values = [dict(zip(names, value, strict=True)) for value in values]
    order = values[::-1] if descending else values
    w.batch([((v,), 1) for v in [None, *order[::-1]]])
    for first, second in zip(order, [*order[1:], None], strict=True):
        assert w.log == Counter({one_form((first,)): 1})
        w.batch([((first,), -1)])
        assert w.log == Counter({one_form((second,)): 1})


@pytest.mark.parametrize("count", [10, None])
def test_a_small_change_reads_little_of_a_large_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int | None
) -> None:
    rows, offset = 20_000, 9_000
    node = node_of([FIRST], offset, count, types=(Type("i64"),))
    w = World(tmp_path, node, page_rows=256, slice_rows=rows)
    pick = np.random.default_rng(3)
    w.batch([((int(n),), 1) for n in pick.permutation(rows)])
    read: list[OrderedTree] = []
    begin, plus = OrderedTree.__init__, OrderedTree.plus

    def recorded(self: OrderedTree, *args: Any, **kwargs: Any) -> None:
        read.append(self)
        begin(self, *args, **kwargs)

    def added(self: OrderedTree, extra: Any) -> OrderedTree:
        read.append(plus(self, extra))
        return read[-1]

    monkeypatch.setattr(OrderedTree, "__init__", recorded)
    monkeypatch.setattr(OrderedTree, "plus", added)
    changes = w.batch([((-1,), 1), ((5,), -1), ((offset + 3,), -1), ((rows,), 1)])
    assert sum(changes.values()) == (0 if count else -1 + 1)
    assert 0 < sum(tree.rows_read for tree in read) < 2_000


def test_no_rows_make_no_changes(world: Callable[..., World]) -> None:
    w = world([FIRST], 0, 3)
    assert w.batch([]) == Counter()
    assert w.state[GROUP] == ()
