"""Rows of arrangements: consolidated, and found by key in several runs; against a count of equal rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.state import arrangement as arrangements
from substrait_agg.state.arrangement import Arrangement, ArrangementLayout, consolidate_rows
from substrait_agg.state.keys import row_sizes
from substrait_agg.state.keys.variable_keys import byte_hashes
from substrait_agg.state.run import RunWriter

LAYOUT = ArrangementLayout((pa.int64(),), (pa.string(), pa.float64()))


@pytest.mark.parametrize("hashes", [1, 3, 40, 1 << 62])
@pytest.mark.parametrize("rows", [0, 1, 2, 100, 1000])
def test_equal_rows_are_added_up(rows: int, hashes: int) -> None:
    """Whether hashes are unique, repeated by equal rows, or shared by different keys."""
    rng = random.Random(rows * hashes)
    drawn: Counter[tuple[int, int, str, float | None]] = Counter()
    table: list[tuple[int, int, int, str, float | None]] = []
    for _ in range(rows):
        hash_ = rng.randrange(hashes)
        row = (hash_, hash_ * 2 + rng.randrange(2), rng.choice(["a", "bc", ""]), rng.choice([1.5, None]))  # fmt: skip
        for weight in rng.choice([[1], [-1], [1, -1], [2, 3], [0]]):
            table.append((row[0], weight, *row[1:]))
            drawn[row] += weight
    rng.shuffle(table)
    columns = list(zip(*table, strict=True)) or [()] * 5
    typed = zip(columns, LAYOUT.schema, strict=True)
    given = pa.Table.from_arrays([pa.array(c, f.type) for c, f in typed], schema=LAYOUT.schema)
    done = consolidate_rows(given)
    shown = [tuple(row.values()) for row in done.to_pylist()]
    assert [row[0] for row in shown] == sorted(row[0] for row in shown)
    assert len(shown) == len({(hash_, *row) for hash_, _, *row in shown})
    summed = {(hash_, *row): weight for hash_, weight, *row in shown}
    assert summed == {row: weight for row, weight in drawn.items() if weight}


Row = tuple[int, int, str, float | None]
"""The hash, the key and the values of a row."""


def random_runs(hashes: int) -> list[Counter[Row]]:
    """The rows of four runs with their weights, without weight 0; rows occur in several of them."""
    rng = random.Random(hashes)
    runs = []
    for size in (300, 1, 50, 200):
        rows: Counter[Row] = Counter()
        for _ in range(size):
            hash_ = rng.randrange(hashes)
            row = (hash_, hash_ * 2 + rng.randrange(2), rng.choice(["a", "bc"]), rng.choice([1.5, None]))  # fmt: skip
            rows[row] = rng.choice([-2, -1, 1, 3])
        runs.append(rows)
    return runs


def as_table(rows: Iterable[tuple[Row, int]]) -> pa.Table:
    """Rows and weights as the columns of a run, by hash."""
    ordered = sorted(rows, key=lambda item: item[0][0])
    columns = list(zip(*((hash_, w, *rest) for (hash_, *rest), w in ordered), strict=True))
    typed = zip(columns, LAYOUT.schema, strict=True)
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in typed], schema=LAYOUT.schema)


@pytest.mark.parametrize("hashes", [1, 3, 40, 400, 1 << 62])
def test_rows_of_several_parts_are_added_up(hashes: int) -> None:
    runs = random_runs(hashes)
    done = consolidate_rows(*(as_table(run.items()) for run in runs)).to_pylist()
    assert [row["hash"] for row in done] == sorted(row["hash"] for row in done)
    total: Counter[Row] = Counter()
    for run in runs:
        for row, weight in run.items():
            total[row] += weight
    shown = {(r["hash"], r["k0"], r["v0"], r["v1"]): r["weight"] for r in done}
    assert len(shown) == len(done)
    assert shown == {row: weight for row, weight in total.items() if weight}


@pytest.mark.parametrize("hashes", [1, 3, 40, 400])
def test_a_probe_finds_the_rows_of_its_key_in_all_runs_in_the_order_of_probes(
    hashes: int, tmp_path: Path
) -> None:
    runs, files = random_runs(hashes), []
    for i, run in enumerate(runs):
        writer = RunWriter(FolderFiles(tmp_path), f"run-{i}", LAYOUT.schema, page_rows=32)
        writer.write(as_table(run.items()))
        file = writer.close()
        assert file is not None
        files.append(file)
    probes = [(hash_, hash_ * 2 + i) for hash_ in range(0, hashes, 2) for i in range(2)]
    matched: Counter[tuple[int, Row, int]] = Counter()
    keys = pa.array([key for _, key in probes])
    sought = np.array([hash_ for hash_, _ in probes], np.uint64)
    for matches in Arrangement(FolderFiles(tmp_path), files, LAYOUT).probe(sought, [keys]):
        assert (np.diff(matches.probes) >= 0).all()
        for probe, row in zip(matches.probes.tolist(), matches.rows.to_pylist(), strict=True):
            hash_, weight, *rest = row.values()
            matched[probe, (hash_, *rest), weight] += 1
    of_key = {probe: i for i, probe in enumerate(probes)}
    expected = Counter(
        (of_key[row[:2]], row, weight)
        for run in runs
        for row, weight in run.items()
        if row[:2] in of_key
    )
    assert matched == expected


def test_long_rows_are_read_a_few_at_once(tmp_path: Path) -> None:
    """Also where many probes have the key of one row."""
    row = (7, 7, "long" * 250, None)
    writer = RunWriter(FolderFiles(tmp_path), "run", LAYOUT.schema)
    writer.write(as_table([(row, 1)]))
    file = writer.close()
    assert file is not None
    probes = np.full(100, 7, np.uint64)
    with (
        patch.object(row_sizes, "TAKEN_BYTES", 5_000),
        patch.object(arrangements, "TAKEN_BYTES", 5_000),
    ):
        arrangement = Arrangement(FolderFiles(tmp_path), [file], LAYOUT)
        parts = list(arrangement.probe(probes, [pa.array([7] * 100)]))
    assert np.concatenate([part.probes for part in parts]).tolist() == list(range(100))
    assert max(part.rows.nbytes for part in parts) < 10_000


def test_the_hash_of_a_value_does_not_depend_on_the_lengths_of_others() -> None:
    values = [b"Customer#1", b"Customer#2", b"Clerk"]
    together = byte_hashes(pa.array(values))
    alone = [byte_hashes(pa.array([value]))[0] for value in values]
    assert together.tolist() == alone
    assert len(np.unique(together)) == 3
