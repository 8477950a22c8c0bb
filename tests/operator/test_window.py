"""The window operator against a plain computation over all rows, at every version."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from substrait_agg.bind.bound import (
    BoundWindowFunction,
    Frame,
    WindowKind,
)
from substrait_agg.errors import RunFailed
from substrait_agg.operator.measures.row_partials import split_accumulator
from substrait_agg.operator.window import collected as collected_module
from substrait_agg.operator.window import step as step_module
from substrait_agg.operator.window import sums as sums_module
from substrait_agg.operator.window.frames import (
    least_in_ranges,
)
from substrait_agg.state.ordered import OrderedTree
from tests.operator.measures_world import merging_soon
from tests.operator.test_top_k import (
    ROWS,
    SORTS,
    WEIGHTS,
    Row,
    Sort,
    World,
    back,
    one_form,
)
from tests.operator.windows import (
    BY_NUMBER,
    FLOATS,
    FUNCTIONS,
    NUMBERS,
    RUNNING,
    TEXT,
    ignore_nulls,
    measure,
    neighbour,
    node_of,
    numbers,
    place,
    position,
    with_values,
)
from tests.sampling import examples

BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from(["p", "q", None]), ROWS, WEIGHTS), max_size=12),
    min_size=1,
    max_size=5,
)


@settings(max_examples=examples(600), suppress_health_check=[HealthCheck.too_slow])
@given(
    BATCHES,
    SORTS,
    st.lists(FUNCTIONS, min_size=1, max_size=4),
    st.sampled_from([1, 4]),
    st.sampled_from([1, 16, 1 << 18]),
    st.sampled_from([1, 2, 256]),
)
@example(
    [[("p", (n, "a", n / 2), 1) for n in range(1, 9)], [("p", (3, "a", 1.5), -1)]],
    [(NUMBERS, True, False)],
    [
        neighbour("lead", FLOATS, 2),
        place("nth_value", NUMBERS, -2, Frame(rows=True, lower=-2, upper=1)),
        position("ntile", 3),
        position("cume_dist"),
    ],
    4,
    16,
    256,
)
def test_every_version_is_that_of_a_computation_of_all_rows(
    batches: list[list[tuple[str | None, Row, int]]],
    sorts: list[Sort],
    functions: list[BoundWindowFunction],
    partitions: int,
    at_once: int,
    block: int,
) -> None:
    with (
        TemporaryDirectory() as folder,
        merging_soon(4, 8),
        patch.object(step_module, "ROWS_AT_ONCE", at_once),
        patch.object(step_module, "NEAREST_ROWS", 1),
        patch.object(sums_module, "BLOCK_ROWS", block),
        patch.object(collected_module, "VALUES_AT_ONCE", at_once),
    ):
        world = World(Path(folder), node_of(sorts, functions, keys=1), spread=2)
        rows: Counter[Row] = Counter()
        for batch in batches:
            changes = world.batch([((key, *row), w) for key, row, w in batch], partitions)
            assert all(changes.values()), "a row is neither retracted nor inserted"
            for key, row, weight in batch:
                rows[(key, *one_form(row))] += weight
            rows = Counter({row: w for row, w in rows.items() if w})
            plain = Counter({back(row): w for row, w in rows.items()})
            assert world.log == with_values(plain, sorts, functions, keys=1)


NO_ROWS_AFTER = [Frame(rows=True, lower=None, upper=upper) for upper in (-2, 0, 1)]
RUNNING_FUNCTIONS = [
    function
    for frame in (*NO_ROWS_AFTER, Frame(rows=False, lower=None, upper=0))
    for function in (
        measure("sum", NUMBERS, frame), measure("avg", FLOATS, frame), measure("count", TEXT, frame),
        place("first_value", TEXT, 0, frame), place("last_value", TEXT, 0, frame),
        place("nth_value", NUMBERS, 3, frame), place("nth_value", FLOATS, -2, frame),
    )
] + [position("rank"), measure("sum", NUMBERS, Frame(rows=True, lower=-2, upper=0))]  # fmt: skip


@settings(max_examples=examples(200))
@given(st.integers(0, 1 << 32))
def test_running_frames_need_no_rows_before(seed: int) -> None:
    """All functions of the operator take the rows before the changes from sums and first rows."""
    random = Random(seed)
    functions = random.sample(RUNNING_FUNCTIONS, random.randint(1, 3))
    sorts: list[Sort] = [(NUMBERS, random.random() < 0.5, random.random() < 0.5)]
    blocks = patch.object(sums_module, "BLOCK_ROWS", random.choice([1, 2, 3]))
    live: Counter[Row] = Counter()
    with TemporaryDirectory() as folder, blocks:
        node = node_of(sorts, functions, keys=1)
        world = World(Path(folder), node, page_rows=random.choice([1, 4, 1000]))
        for count in (30, 3, 2, 2, 1):
            batch = Counter(random_row(random) for _ in range(count))
            deleted = min(len(live), random.randint(0, count))
            batch.subtract(random.sample(sorted(live, key=str), deleted))
            world.batch([*batch.items()])
            live.update(batch)
            live = +live
            assert world.log == with_values(live, sorts, functions, keys=1)


def random_row(random: Random) -> Row:
    """A row of one of two partitions."""
    number, text = random.choice([None, *range(20)]), random.choice([None, "", "a", "ä"])
    return (random.choice("ppq"), number, text, random.choice([None, math.inf, 0.1, -1.5, 1e200]))


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
@given(
    BATCHES,
    SORTS,
    st.sampled_from(["rank", "dense_rank"]),
    st.integers(1, 6),
    st.sampled_from([0, 2]),
)
def test_rows_up_to_a_rank(
    batches: list[list[tuple[str | None, Row, int]]],
    sorts: list[Sort],
    name: WindowKind,
    last: int,
    spare: int,
) -> None:
    function = position(name)
    with (
        TemporaryDirectory() as folder,
        merging_soon(4, 8),
        patch.object(step_module, "SPARE_ROWS", spare),
    ):
        world = World(Path(folder), node_of(sorts, [function], keys=1, last=last), spread=2)
        rows: Counter[Row] = Counter()
        for batch in batches:
            changes = world.batch([((key, *row), w) for key, row, w in batch], 1)
            assert all(changes.values()), "a row is neither retracted nor inserted"
            for key, row, weight in batch:
                rows[(key, *one_form(row))] += weight
            rows = Counter({row: w for row, w in rows.items() if w})
            plain = Counter({back(row): w for row, w in rows.items()})
            ranked = with_values(plain, sorts, [function], keys=1)
            assert world.log == Counter({r: w for r, w in ranked.items() if r[-1] <= last})


# --- cases ---------------------------------------------------------------------------------------


def test_only_rows_whose_values_change_are_emitted(tmp_path: Path) -> None:
    world = World(tmp_path, node_of(BY_NUMBER, [measure("sum", NUMBERS, RUNNING)]))
    world.batch(numbers((1, None, 1), (5, None, 1), (9, None, 1)))
    assert world.batch(numbers((6, None, 1))) == Counter(
        {
            (6, None, None, 12): 1,
            (9, None, None, 15): -1,
            (9, None, None, 21): 1,
        }
    )


def test_sums_of_floats_are_exact(tmp_path: Path) -> None:
    """A running sum in floating point would lose the 1 after 1e300, and stay infinite."""
    three = Frame(rows=True, lower=-1, upper=0)
    world = World(tmp_path, node_of(BY_NUMBER, [measure("sum", FLOATS, three)]))
    world.batch(numbers((1, 1e300, 1), (2, 1.0, 1), (3, 2.0, 1), (4, math.inf, 1), (5, 1.0, 1), (6, 0.5, 1)))  # fmt: skip
    assert [row[3] for row in sorted(world.log, key=lambda row: row[0])] == [
        1e300, 1e300, 3.0, math.inf, math.inf, 1.5,
    ]  # fmt: skip


def test_nulls_are_ignored_in_the_same_order_as_they_are_counted(tmp_path: Path) -> None:
    functions = [
        neighbour("lag", FLOATS, 1),
        ignore_nulls(neighbour("lag", FLOATS, 1)),
        ignore_nulls(place("last_value", FLOATS, 0, RUNNING)),
    ]
    world = World(tmp_path, node_of(BY_NUMBER, functions))
    world.batch(numbers((1, 0.5, 1), (2, None, 1), (3, None, 1)))
    assert world.batch(numbers((4, None, 1), (2, None, -1), (2, 1.5, 1))) == Counter(
        {
            (2, None, None, 0.5, 0.5, 0.5): -1,
            (2, None, 1.5, 0.5, 0.5, 1.5): 1,
            (3, None, None, None, 0.5, 0.5): -1,
            (3, None, None, 1.5, 1.5, 1.5): 1,
            (4, None, None, None, 1.5, 1.5): 1,
        }
    )


def test_a_sum_that_does_not_fit_fails(tmp_path: Path) -> None:
    world = World(tmp_path, node_of(BY_NUMBER, [measure("sum", NUMBERS, RUNNING)]))
    with pytest.raises(RunFailed) as error:
        world.batch(numbers(((1 << 63) - 1, None, 2)))
    assert error.value.code == "RESULT_OVERFLOW"


def test_a_partition_that_is_too_large_fails(tmp_path: Path) -> None:
    world = World(tmp_path, node_of(BY_NUMBER, [measure("sum", NUMBERS, RUNNING)]))
    with pytest.raises(RunFailed) as error:
        world.batch(numbers((1, None, 1 << 27)))
    assert error.value.code == "WINDOW_TOO_LARGE"


def test_frames_with_too_many_values_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of such frames is a difference of two numbers, a median needs each value."""
    monkeypatch.setattr(collected_module, "MOST_VALUES", 100)
    rows = numbers(*((n, None, 1) for n in range(40)))
    near = Frame(rows=True, lower=-1, upper=0)
    functions = [measure("sum", NUMBERS, RUNNING), measure("median", NUMBERS, near)]
    for folder in ("near", "all"):
        (tmp_path / folder).mkdir()
    World(tmp_path / "near", node_of(BY_NUMBER, functions)).batch(rows)
    world = World(tmp_path / "all", node_of(BY_NUMBER, [measure("median", NUMBERS, RUNNING)]))
    with pytest.raises(RunFailed) as error:
        world.batch(rows)
    assert error.value.code == "WINDOW_FRAMES_TOO_LARGE"


def trees_read(monkeypatch: pytest.MonkeyPatch) -> list[OrderedTree]:
    """The trees that are opened from now on."""
    read: list[OrderedTree] = []
    begin = OrderedTree.__init__

    def recorded(self: OrderedTree, *args: Any, **kwargs: Any) -> None:
        read.append(self)
        begin(self, *args, **kwargs)

    monkeypatch.setattr(OrderedTree, "__init__", recorded)
    return read


@pytest.mark.parametrize(
    "function",
    [
        neighbour("lag", NUMBERS, 2),
        measure("sum", NUMBERS, Frame(rows=True, lower=-3, upper=1)),
        measure("sum", NUMBERS, Frame(rows=False, lower=-6, upper=2)),
        measure("median", NUMBERS, Frame(rows=True, lower=-3, upper=1)),
        measure("sum", NUMBERS, Frame(rows=True, lower=-3, upper=1), distinct=True),
        place("last_value", NUMBERS, 0, Frame(rows=True, lower=-3, upper=-1)),
    ],
    ids=lambda function: function.name,
)
def test_a_limited_frame_reads_only_the_rows_around_a_change(
    function: BoundWindowFunction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 20_000
    node = node_of(BY_NUMBER, [function])
    world = World(tmp_path, node, page_rows=256, slice_rows=count)
    pick = np.random.default_rng(3)
    world.batch(numbers(*((int(n) * 2, None, 1) for n in pick.permutation(count))))
    read = trees_read(monkeypatch)
    changes = world.batch(numbers((9_001, None, 1)))
    assert 2 <= sum(map(abs, changes.values())) <= 12
    assert sum(tree.rows_read for tree in read) < 2_000


@pytest.mark.parametrize(
    "function",
    [
        measure("sum", NUMBERS, RUNNING),
        measure("avg", FLOATS, Frame(rows=True, lower=None, upper=0)),
        measure("count", None, Frame(rows=True, lower=None, upper=-3)),
        place("first_value", NUMBERS, 0, RUNNING),
        place("last_value", NUMBERS, 0, RUNNING),
        place("nth_value", NUMBERS, 3, RUNNING),
    ],
    ids=lambda function: function.name,
)
def test_a_running_frame_reads_only_the_rows_behind_a_change(
    function: BoundWindowFunction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums of a page are computed once, so a later batch reads a few blocks of it."""
    count = 20_000
    world = World(tmp_path, node_of(BY_NUMBER, [function]), page_rows=512, slice_rows=count)
    pick = np.random.default_rng(3)
    world.batch(numbers(*((int(n) * 2, float(n), 1) for n in pick.permutation(count))))
    world.batch(numbers((39_901, 0.5, 1)))
    read, summed = trees_read(monkeypatch), []

    def recorded(*args: Any) -> dict[str, Any]:
        summed.append(len(args[-1].values))
        return split_accumulator(*args)

    monkeypatch.setattr(sums_module, "split_accumulator", recorded)
    changes = world.batch(numbers((39_801, 0.5, 1)))
    assert changes[next(row for row in changes if row[0] == 39_801)] == 1
    assert sum(tree.rows_read for tree in read) < 3_000
    assert sum(summed) < 3_000


@pytest.mark.parametrize(
    ("names", "at", "last"),
    [
        (["rank"], 39_001, None),
        (["rank"], 1, 5),
        (["dense_rank"], 1, 5),
    ],
)
def test_a_rank_reads_only_the_rows_that_it_changes(
    names: list[WindowKind],
    at: int,
    last: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 20_000
    node = node_of(BY_NUMBER, [position(name) for name in names], last=last)
    world = World(tmp_path, node, page_rows=256, slice_rows=count)
    pick = np.random.default_rng(3)
    world.batch(numbers(*((int(n) * 2, None, 1) for n in pick.permutation(count))))
    read = trees_read(monkeypatch)
    changes = world.batch(numbers((at, None, 1)))
    assert sum(map(abs, changes.values())) == (8 if last else 999)
    assert sum(tree.rows_read for tree in read) < 3_000


def test_a_distance_may_exceed_the_partition(tmp_path: Path) -> None:
    far = Frame(rows=True, lower=-(1 << 40), upper=1 << 40)
    functions = [measure("sum", NUMBERS, far), neighbour("lag", NUMBERS, 1 << 40)]
    world = World(tmp_path, node_of(BY_NUMBER, functions))
    world.batch(numbers((1, None, 1), (2, None, 1)))
    world.batch(numbers((4, None, 1)))
    assert {row[3:] for row in world.log} == {(7, None)}


def test_the_least_value_of_ranges() -> None:
    rng = np.random.default_rng(5)
    values = rng.integers(0, 50, 200)
    low = rng.integers(0, 201, 500)
    high = np.minimum(low + rng.integers(0, 80, 500), 200)
    expected = [int(values[a:b].min()) if b > a else 99 for a, b in zip(low, high, strict=True)]
    assert least_in_ranges(values, low, high, 99).tolist() == expected
