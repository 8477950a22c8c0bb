"""Ordered trees whose groups have far more rows than a first window or a round of pivots: random, against sorted lists."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.state import ordered, ranks
from substrait_agg.state.entries import Entries, TreeLayout, consolidate
from substrait_agg.state.keys.keys import Component
from substrait_agg.state.ordered import OrderedTree
from substrait_agg.state.run import RunFile, RunWriter
from tests.sampling import seeds

LAYOUT = TreeLayout((Component(pa.int64()),))
VALUES = 70
HASHES = np.array([3, 3, 9], np.uint64)
CHAINS = np.array([0, 1, 0], np.uint16)
Table = npt.NDArray[np.int64]  # weights, a row per group, a column per value


def entries(weights: Table) -> Entries:
    """The entries of a table of weights."""
    group, value = np.nonzero(weights)
    columns = [pa.array(value)]
    return consolidate(LAYOUT, HASHES[group], CHAINS[group], columns, weights[group, value])


def a_tree(files: FolderFiles, name: str, runs: list[Table]) -> OrderedTree:
    """A tree of these runs, oldest first, the last one in memory."""
    stored: list[RunFile] = []
    for i, weights in enumerate(runs[:-1]):
        writer = RunWriter(files, f"{name}-{i}", LAYOUT.schema, 7)
        writer.write(entries(weights).to_table(LAYOUT))
        run = writer.close()
        stored = [run, *stored] if run is not None else stored
    return OrderedTree(files, stored, LAYOUT, entries(runs[-1]))


def random_runs(random: np.random.Generator) -> list[Table]:
    """Many values, then runs of different length that delete most of them from the ends, and bring some back; in any order."""
    shape = (len(HASHES), VALUES)
    runs = [random.integers(0, 2, shape), random.integers(0, 3, shape)]
    for _ in range(random.integers(1, 4)):
        present = np.sum(runs, axis=0)
        gone = present * (random.random(shape) < random.choice([0.3, 0.9, 1.0]))
        gone[:, random.integers(1, VALUES) :] = 0
        if random.random() < 0.5:
            gone = gone[:, ::-1].copy() * (present[:, ::-1] == 0) + present * (gone[:, ::-1] > 0)
        runs.append(-gone)
        runs.append(random.integers(0, 2, shape) * (random.random(shape) < 0.1))
    # Weights only add up, so any run may be the newest.
    return [np.asarray(runs[i], np.int64) for i in random.permutation(len(runs))]


@pytest.mark.parametrize("seed", seeds(15, 60))
def test_extremes_behind_many_deleted_values(tmp_path: Path, seed: int) -> None:
    """Row ranges of several runs end at different keys: an entry counts as live only after all runs are read up to it."""
    runs = random_runs(np.random.default_rng(seed))
    total = np.sum(runs, axis=0)
    tree = a_tree(FolderFiles(tmp_path), f"walk-{seed}", runs)
    for rows in (1, 3):
        for last in (False, True):
            with patch.object(ordered, "FIRST_ROWS", rows):
                found, values = tree.first_live(HASHES, CHAINS, last=last)
            live = [np.flatnonzero(weights > 0) for weights in total]
            assert found.tolist() == [len(v) > 0 for v in live]
            expected = [int(v[-1 if last else 0]) if len(v) else None for v in live]
            assert values[0].to_pylist() == expected


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_every_rank_of_a_group_of_many_runs(tmp_path: Path, seed: int) -> None:
    """All ranks at once, with so few candidates at a time that there are many rounds."""
    runs = random_runs(np.random.default_rng(seed))
    total = np.sum(runs, axis=0)
    runs.append(np.where(total < 0, -total, 0))
    total = np.maximum(total, 0)
    tree = a_tree(FolderFiles(tmp_path), f"rank-{seed}", runs)
    groups = np.repeat(np.arange(len(HASHES)), total.sum(axis=1))
    asked = np.concatenate([np.arange(count) for count in total.sum(axis=1)])
    expected = [np.repeat(np.arange(VALUES), weights) for weights in total]
    with patch.multiple(ranks, PIVOTS=2, FEW_ROWS=1, FEW_ROWS_PER_RUN=3):
        found, values = tree.at_ranks(HASHES, CHAINS, groups, asked)
    assert found.all()
    assert values[0].to_pylist() == np.concatenate(expected).tolist()
