"""The cost of a batch grows with the changes, not with the state: rows read from ordered trees, and rows written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from substrait_agg.commit.tasks import task
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.state.ordered import OrderedTree
from tests.operator.measures_build import measure, world
from tests.operator.measures_world import World

_opened: list[OrderedTree] = []


class _Counting(OrderedTree):
    """Remembers every tree that is opened."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        _opened.append(self)

    def plus(self, extra: Any) -> OrderedTree:
        tree = super().plus(extra)
        if tree is not self:
            _opened.append(tree)
        return tree


@pytest.fixture(autouse=True)
def _counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(task, "OrderedTree", _Counting)
    yield
    _opened.clear()


def batch(made: World, keys: Any, values: Any, weights: Any) -> tuple[int, int]:
    """Run a batch of integers in one partition, as columns.

    Returns:
        Rows read from ordered trees to answer questions, and rows written to new runs of this version.
    """
    _opened.clear()
    hashes = (np.asarray(keys, np.int64) * 2654435761 & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    columns = {
        "__m": hashes,
        "__x": hashes,
        "k0": np.asarray(keys, np.int64),
        **{f"x{i}": np.asarray(values, np.int64) for i in range(len(made.node.arguments))},
        WEIGHT: np.asarray(weights, np.int64),
    }
    rows = pa.RecordBatch.from_pydict({n: pa.array(c) for n, c in columns.items()})
    before = {f.name for f in made.state.runs}
    made.run(rows)
    written = sum(f.rows for f in made.state.runs if f.name not in before)
    return sum(tree.rows_read for tree in _opened), written


def extremes(folder: Path) -> World:
    """Least, greatest and number of distinct values per key."""
    distinct = measure("count", "long", distinct=True)
    return world(folder, measure("min", "long"), measure("max", "long"), distinct)


def test_deleting_the_maximum_a_hundred_thousand_times(tmp_path: Path) -> None:
    """A hundred batches that each delete the thousand greatest values: a few rows are read per deletion and run."""
    made = extremes(tmp_path)
    count, step = 101_000, 1_000
    batch(made, np.zeros(count), np.arange(count), np.ones(count))
    reads = []
    for top in range(count, step, -step):
        values = np.arange(top - step, top)
        reads.append(batch(made, np.zeros(step), values, -np.ones(step))[0])
        assert made.value(0) == (0, top - step - 1, top - step)
    # Up to seven runs of each of two classes of small runs, and the large one.
    assert max(reads) < 20 * step
    assert sum(reads) < 12 * count


def test_deleting_the_maximum_one_by_one(tmp_path: Path) -> None:
    """Each of many deletions in batches of their own reads a few rows, however many were deleted before."""
    made = extremes(tmp_path)
    count, times = 20_000, 100
    batch(made, np.zeros(count), np.arange(count), np.ones(count))
    tops = range(count - 1, count - times - 1, -1)
    reads = [batch(made, [0], [top], [-1])[0] for top in tops]
    assert made.value(0) == (0, count - times - 1, count - times)
    assert sum(reads) < times * 64


def test_ten_rows_into_a_huge_group(tmp_path: Path) -> None:
    """Half a million values in one group: ten changed rows read and write a few dozen."""
    made = extremes(tmp_path)
    count = 500_000
    batch(made, np.zeros(count), np.arange(count), np.ones(count))
    for i in range(5):
        values = np.arange(i, i + 10) * 1_000
        read, written = batch(made, np.zeros(10), values, np.where(np.arange(10) % 2, 1, -1))
        assert read < 200
        assert written < 40
    read, written = batch(made, np.zeros(2), [count - 1, count], [-1, 1])
    assert read < 20
    assert made.value(0)[1] == count


def test_a_group_emptied_and_refilled_in_one_batch(tmp_path: Path) -> None:
    """A batch that empties and refills a group reads no more than its changes need, beside a
    hundred times as many other rows.
    """
    made = extremes(tmp_path)
    count, size = 200_000, 1_000
    batch(made, np.arange(count) // size, np.arange(count), np.ones(count))
    old, new = np.arange(7 * size, 8 * size), np.arange(size)
    weights = np.concatenate([-np.ones(size), np.ones(size)])
    read, written = batch(made, np.full(2 * size, 7), np.concatenate([old, new]), weights)
    assert made.value(7) == (0, size - 1, size)
    assert read < 6 * size
    assert written < 3 * size


@pytest.mark.parametrize("changed", [1, 100])
def test_many_groups_of_one_row(changed: int, tmp_path: Path) -> None:
    """Groups that come, go and change among two hundred thousand others are all that is read."""
    made = extremes(tmp_path)
    count = 200_000
    batch(made, np.arange(count), np.arange(count), np.ones(count))
    keys: Sequence[int] = range(5, 5 + changed)
    read, written = batch(made, [*keys, *keys], [*keys, *(k + 7 for k in keys)], _swap(changed))
    assert read <= 8 * changed
    assert written <= 4 * changed
    assert made.value(5) == (12, 12, 1)


def _swap(count: int) -> list[int]:
    return [-1] * count + [1] * count


@pytest.mark.soak
def test_deleting_the_maximum_of_five_million_values(tmp_path: Path) -> None:
    """What a batch reads does not depend on the size of a group."""
    made = extremes(tmp_path)
    count, step = 5_000_000, 1_000
    batch(made, np.zeros(count), np.arange(count), np.ones(count))
    for top in range(count, count - 20 * step, -step):
        read, _ = batch(made, np.zeros(step), np.arange(top - step, top), -np.ones(step))
        assert read < 12 * step
    assert made.value(0)[1] == count - 20 * step - 1


@pytest.mark.soak
def test_a_million_groups_of_one_row(tmp_path: Path) -> None:
    """What a batch reads does not depend on the number of groups."""
    made = extremes(tmp_path)
    count = 1_000_000
    batch(made, np.arange(count), np.arange(count), np.ones(count))
    read, written = batch(made, [3], [3], [-1])
    assert read <= 8
    assert written <= 4
