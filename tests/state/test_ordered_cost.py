"""Reads of ordered trees grow with the change, never with the size of a group."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.state.entries import Entries, TreeLayout, consolidate
from substrait_agg.state.keys.keys import Component, encode
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.ordered_run import OrderedRun, RowsByPage
from substrait_agg.state.run import RunFile, RunWriter

LAYOUT = TreeLayout((Component(pa.int64()),))
ROWS = 200_000
PAGE = 1_000
HASH = 99
GROUP = np.array([HASH], np.uint64), np.array([0], np.uint16)


def entries(values: npt.NDArray[np.int64], weight: int) -> Entries:
    """Values of the one group, all with one weight."""
    count = len(values)
    return consolidate(
        LAYOUT,
        np.full(count, HASH, np.uint64),
        np.zeros(count, np.uint16),
        [pa.array(values)],
        np.full(count, weight, np.int64),
    )


def write(files: FolderFiles, name: str, rows: Entries) -> RunFile:
    """A run of pages of `PAGE` rows."""
    writer = RunWriter(files, name, LAYOUT.schema, PAGE)
    writer.write(rows.to_table(LAYOUT))
    run = writer.close()
    assert run is not None
    return run


@pytest.fixture
def files(tmp_path: Path) -> FolderFiles:
    """An empty folder."""
    return FolderFiles(tmp_path)


@pytest.mark.parametrize("last", [False, True])
def test_deleting_the_extreme_again_and_again_reads_a_few_rows_each_time(
    files: FolderFiles, last: bool
) -> None:
    """The search starts after the stored extreme, so deleted entries are not scanned again."""
    base = write(files, f"base-{last}", entries(np.arange(ROWS), 1))
    steps = 200
    order = np.arange(steps)[:, None] * 5 + np.arange(5)
    deleted = ROWS - 1 - order if last else order
    read = 0
    for i in range(steps):
        gone = write(files, f"gone-{last}-{i}", entries(deleted[: i + 1].reshape(-1), -1))
        tree = OrderedTree(files, [gone, base], LAYOUT)
        known = int(deleted[i - 1].min() if last else deleted[i - 1].max()) if i else None
        after = None if known is None else encode([pa.array([known])], LAYOUT.components)
        found, values = tree.first_live(*GROUP, after, last=last)
        edge = 5 * (i + 1)
        assert found.all()
        assert values[0].to_pylist() == [ROWS - 1 - edge if last else edge]
        read += tree.rows_read
    assert read <= steps * 40


def test_a_hundred_thousand_deleted_values_are_walked_in_a_few_rounds(files: FolderFiles) -> None:
    """Windows double, so a search that must pass many deleted values costs them once, and few steps."""
    base = write(files, "base", entries(np.arange(ROWS), 1))
    gone = entries(np.arange(100_000), -1)
    tree = OrderedTree(files, [base], LAYOUT, gone)
    asked = 0
    at = OrderedRun.at

    def counted(run: OrderedRun, places: npt.NDArray[np.int64]) -> RowsByPage:
        nonlocal asked
        asked += 1
        return at(run, places)

    with patch.object(OrderedRun, "at", counted):
        assert tree.first_live(*GROUP)[1][0].to_pylist() == [100_000]
    assert tree.rows_read <= 5 * 100_000
    assert asked <= 50


def test_a_live_extreme_costs_one_small_window(files: FolderFiles) -> None:
    """Reading a live extreme costs one small range, for any size of the group."""
    tree = OrderedTree(files, [write(files, "base", entries(np.arange(ROWS), 1))], LAYOUT)
    for last, value in ((False, 0), (True, ROWS - 1)):
        assert tree.first_live(*GROUP, last=last)[1][0].to_pylist() == [value]
    assert tree.rows_read <= 10


def test_ranks_and_weights_do_not_scan_the_group(files: FolderFiles) -> None:
    """A rank costs a few rounds of pivots, a weight one row."""
    values = np.arange(ROWS) * 2
    changed = [
        write(files, f"more-{i}", entries(np.arange(i, 100, 5) * 2_001, 1)) for i in range(5)
    ]
    base = write(files, "base", entries(values, 1))
    tree = OrderedTree(files, [*changed, base], LAYOUT)
    every = np.sort(np.concatenate([values, np.arange(100) * 2_001]))
    ranks = np.array([0, 1, ROWS // 2, ROWS + 99, ROWS + 100])
    found, shown = tree.at_ranks(*GROUP, np.zeros(5, np.int64), ranks)
    assert found.tolist() == [True] * 4 + [False]
    assert shown[0].to_pylist()[:4] == every[ranks[:4]].tolist()
    assert tree.rows_read <= 4 * 1_000
    tree.rows_read = 0
    assert tree.weights(entries(np.array([-1, 0, 2_001, 2 * ROWS]), 1)).tolist() == [0, 2, 1, 0]
    assert tree.rows_read <= 4 * 6


def test_many_groups_of_one_row_are_asked_page_by_page(files: FolderFiles) -> None:
    """The steps of a question about many groups grow with the pages, not with the groups."""
    count = 50_000
    hashes = np.arange(count, dtype=np.uint64) * np.uint64(2**40)
    chains = np.zeros(count, np.uint16)
    rows = consolidate(
        LAYOUT, hashes, chains, [pa.array(np.arange(count))], np.ones(count, np.int64)
    )
    tree = OrderedTree(files, [write(files, "many", rows)], LAYOUT)
    calls = 0
    locate = OrderedRun.at

    def counted(run: OrderedRun, places: npt.NDArray[np.int64]) -> RowsByPage:
        nonlocal calls
        calls += 1
        return locate(run, places)

    with patch.object(OrderedRun, "at", counted):
        assert tree.weights(rows).tolist() == [1] * count
        found, values = tree.first_live(hashes, chains)
        assert found.all()
        assert values[0].to_pylist() == list(range(count))
        ranked = tree.at_ranks(hashes, chains, np.arange(count), np.zeros(count, np.int64))
        assert ranked[1][0].to_pylist() == list(range(count))
    assert calls <= 30
