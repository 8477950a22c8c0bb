"""Trees of runs: lookups, merges and scans against a dictionary, with tiny pages and forced hash collisions."""

from __future__ import annotations

from itertools import pairwise
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.errors import StateRefused
from substrait_agg.state import run as run_files
from substrait_agg.state import tree as tree_module
from substrait_agg.state.keys.rows import group_rows
from substrait_agg.state.run import RunFile, RunWriter, open_run
from substrait_agg.state.tree import KeyedTree, newest
from tests.sampling import examples

SCHEMA = pa.schema(
    {
        "hash": pa.uint64(),
        "dead": pa.bool_(),
        "k0": pa.float64(),
        "k1": pa.string(),
        "value": pa.int64(),
    }
)
KEYS = st.tuples(
    st.one_of(st.none(), st.sampled_from([0.0, 1.5, float("nan"), float("inf")])),
    st.sampled_from([None, "", "a", "ab", "b\0"]),
)
Entry = tuple[tuple[Any, ...], bool, int]


def _mark(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple("NaN" if isinstance(v, float) and isnan(v) else v for v in key)


def _hash(key: tuple[Any, ...], spread: int) -> int:
    return (hash(_mark(key)) % spread) * 0x9E3779B97F4A7C15 % 2**64


def table(entries: list[Entry], spread: int) -> pa.Table:
    """Rows of the schema in order of hash."""
    rows = sorted(entries, key=lambda e: _hash(e[0], spread))
    return pa.table(
        {
            "hash": pa.array([_hash(k, spread) for k, _, _ in rows], pa.uint64()),
            "dead": [d for _, d, _ in rows],
            "k0": pa.array([k[0] for k, _, _ in rows], pa.float64()),
            "k1": pa.array([k[1] for k, _, _ in rows], pa.string()),
            "value": [v for _, _, v in rows],
        },
        schema=SCHEMA,
    )


def write(files: FolderFiles, name: str, rows: pa.Table, page_rows: int) -> RunFile | None:
    """A run of the rows."""
    writer = RunWriter(files, name, SCHEMA, page_rows)
    writer.write(rows)
    return writer.close()


def contents(rows: pa.Table | pa.RecordBatch) -> dict[tuple[Any, ...], int]:
    """Key to value."""
    keys = zip(rows.column("k0").to_pylist(), rows.column("k1").to_pylist(), strict=True)
    return dict(zip(map(_mark, keys), rows.column("value").to_pylist(), strict=True))


@settings(max_examples=examples(150), deadline=None)
@given(
    batches=st.lists(
        st.dictionaries(KEYS.map(_mark), st.tuples(st.booleans(), st.integers(0, 99)), max_size=9),
        min_size=1,
        max_size=5,
    ),
    spread=st.sampled_from([1, 2, 2**60]),
    page_rows=st.integers(1, 5),
    wanted=st.lists(KEYS, max_size=9, unique_by=_mark),
    scan_rows=st.sampled_from([1, 3, 1000]),
)
def test_the_newest_row_of_a_key_counts(
    batches: list[dict[Any, tuple[bool, int]]],
    spread: int,
    page_rows: int,
    wanted: list[tuple[Any, ...]],
    scan_rows: int,
) -> None:
    """Lookups of present and missing keys, scans and merges return the newest row, for any pages
    and collisions.
    """
    model: dict[tuple[Any, ...], tuple[bool, int]] = {}
    with TemporaryDirectory() as folder, patch.object(run_files, "SCAN_ROWS", scan_rows):
        files = FolderFiles(folder)
        runs: list[RunFile] = []
        for b, batch in enumerate(batches):
            model |= batch
            entries = [(_real(key), dead, value) for key, (dead, value) in batch.items()]
            run = write(files, f"run-{b}", table(entries, spread), page_rows)
            runs = [run, *runs] if run is not None else runs
        tree = KeyedTree(files, runs, SCHEMA, 2)
        _check_lookup(tree, wanted, spread, model)
        live = {key: value for key, (dead, value) in model.items() if not dead}
        assert _scanned(tree, dead=False) == live
        assert _current(tree, SPLITS) == live
        assert _scanned(tree, dead=True) == {key: value for key, (_, value) in model.items()}
        writer = RunWriter(files, "merged", SCHEMA, page_rows)
        for part in tree.scan():
            writer.write(part)
        merged = writer.close()
        assert (merged.rows if merged else 0) == len(live)


def test_pages_of_which_all_rows_are_current_are_not_copied(tmp_path: Path) -> None:
    """A newer run with a key of the second page leaves the first one as it is."""
    files = FolderFiles(tmp_path)
    keys = sorted(((float(i), "a") for i in range(8)), key=lambda key: _hash(key, 2**60))
    below = write(files, "below", table([(key, False, 1) for key in keys], 2**60), 4)
    above = write(files, "above", table([(keys[5], False, 2)], 2**60), 4)
    assert below is not None
    assert above is not None
    changed, first, second = KeyedTree(files, [above, below], SCHEMA, 2).current(["value"])
    stored = open_run(files, below).pages[0].column("value")
    assert first.column(0).buffers()[1].address == stored.buffers()[1].address
    assert [part.column(0).to_pylist() for part in (changed, first, second)] == [
        [2],
        [1] * 4,
        [1] * 3,
    ]


def test_a_second_read_of_the_same_runs_does_not_compare_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer run, or a range that was not read, is compared."""
    files = FolderFiles(tmp_path)
    compared = []
    outdated = KeyedTree._find_outdated

    def counted(tree: KeyedTree, pages: Any) -> Any:
        compared.append(len(pages))
        return outdated(tree, pages)

    monkeypatch.setattr(KeyedTree, "_find_outdated", counted)
    keys = [(float(i), "a") for i in range(8)]
    runs: list[RunFile] = []

    def read(*bounds: int) -> dict[tuple[Any, ...], int]:
        return _current(KeyedTree(files, runs, SCHEMA, 2), bounds)

    for value in range(3):
        rows = [(key, False, value) for key in keys[value:]]
        run = write(files, f"run-{value}", table(rows, 2**60), 3)
        assert run is not None
        runs.insert(0, run)
        for _ in range(2):
            assert read(0, 2**64) == {key: min(i, value) for i, key in enumerate(keys)}
    assert len(compared) == 3
    assert read(0, 2**62, 2**64) == read(0, 2**62, 2**64) == read(0, 2**64)
    assert len(compared) == 5
    monkeypatch.setattr(tree_module, "OUTDATED_BYTES", 0)
    assert read(0, 2**64 - 1) == read(0, 2**64 - 1)
    assert len(compared) == 7
    assert not tree_module._outdated


SPLITS = (0, 1, 2**59, 2**63, 2**64)


def _current(tree: KeyedTree, bounds: tuple[int, ...]) -> dict[tuple[Any, ...], int]:
    """The current rows of consecutive ranges of hashes."""
    result: dict[tuple[Any, ...], int] = {}
    for low, after in pairwise(bounds):
        for batch in tree.current(["k0", "k1", "value"], low, after - 1):
            piece = contents(batch)
            assert len(piece) == batch.num_rows
            assert not piece.keys() & result.keys()
            result |= piece
    return result


def _real(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(float("nan") if v == "NaN" else v for v in key)


def _check_lookup(
    tree: KeyedTree, wanted: list[tuple[Any, ...]], spread: int, model: dict[Any, tuple[bool, int]]
) -> None:
    probes = table([(key, False, 0) for key in wanted], spread)
    keys = [probes.column(name).combine_chunks() for name in ("k0", "k1")]
    found = tree.lookup(probes.column("hash").to_numpy(), keys)
    assert contents(found.rows) == {
        _mark(key): model[_mark(key)][1] for key in wanted if _mark(key) in model
    }
    at = contents(probes.take(found.positions)).keys()
    assert list(at) == list(contents(found.rows).keys())


def _scanned(tree: KeyedTree, *, dead: bool) -> dict[tuple[Any, ...], int]:
    result: dict[tuple[Any, ...], int] = {}
    for part in tree.scan(dead=dead):
        piece = contents(part)
        assert not piece.keys() & result.keys()
        result |= piece
    return result


def test_a_run_used_for_part_of_its_hashes_hides_the_rest(tmp_path: Path) -> None:
    """Entries carry the range for which a run is live in a tree."""
    files = FolderFiles(tmp_path)
    rows = table([((float(i), ""), False, i) for i in range(20)], 2**60)
    run = write(files, "run", rows, 3)
    assert run is not None
    cut = int(rows.column("hash")[10].as_py())
    lower = RunFile(run.name, run.rows, run.bytes, run.crc, low=0, high=cut - 1)
    assert sum(p.num_rows for p in KeyedTree(files, [lower], SCHEMA, 2).scan()) == 10
    keys = [rows.column(name).combine_chunks() for name in ("k0", "k1")]
    found = KeyedTree(files, [lower], SCHEMA, 2).lookup(rows.column("hash").to_numpy(), keys)
    assert sorted(found.positions.tolist()) == list(range(10))


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_run_is_named_and_refused(tmp_path: Path, damage: str) -> None:
    """A flipped byte, a lost tail, a lost file."""
    files = FolderFiles(tmp_path)
    run = write(files, f"run-{damage}", table([((1.0, "a"), False, 1)], 2**60), 3)
    assert run is not None
    path = tmp_path / run.name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    other = FolderFiles(tmp_path / "copy")
    other.make()
    kept = {"flip": bytes(content), "cut": bytes(content[:-9]), "gone": None}[damage]
    if kept is not None:
        (tmp_path / "copy" / run.name).write_bytes(kept)
    with pytest.raises(StateRefused, match=run.name) as refused:
        open_run(other, run)
    assert refused.value.code == "STATE_DAMAGED"


def test_grouping_keeps_the_order_of_equal_keys() -> None:
    """Rows of a key stay in their order, so that the first of newest-first rows is the newest."""
    hashes = np.array([5, 5, 5, 5, 1, 5], np.uint64)
    keys = [pa.array(["b", "a", "b", "a", "z", "b"])]
    order, first = group_rows(hashes, keys)
    groups = np.split(order, np.flatnonzero(first)[1:])
    assert sorted(map(tuple, groups)) == [(0, 2, 5), (1, 3), (4,)]
    whole = table([((1.0, "a"), False, 1)], 1)
    later = table([((1.0, "a"), False, 2)], 1)
    assert newest(pa.concat_tables([later, whole]), 2).column("value").to_pylist() == [2]
