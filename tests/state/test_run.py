"""Runs: pages bounded in rows and bytes, no loss at page bounds, and open runs of a process."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.errors import StateRefused
from substrait_agg.state import run as runs
from substrait_agg.state.run import RunFile, RunWriter, open_run
from substrait_agg.state.tree import KeyedTree

SCHEMA = pa.schema({"hash": pa.uint64(), "dead": pa.bool_(), "k0": pa.int64(), "text": pa.string()})


def texts(lengths: list[int], start: int = 0) -> pa.Table:
    """Rows with texts of these lengths."""
    count = len(lengths)
    return pa.table(
        {
            "hash": pa.array(np.arange(start, start + count, dtype=np.uint64)),
            "dead": np.zeros(count, np.bool_),
            "k0": np.arange(start, start + count),
            "text": ["x" * n for n in lengths],
        },
        schema=SCHEMA,
    )


def write(files: FolderFiles, name: str, *tables: pa.Table) -> RunFile:
    """A run."""
    writer = RunWriter(files, name, SCHEMA)
    for table in tables:
        writer.write(table)
    made = writer.close()
    assert made is not None
    return made


def test_a_page_has_fewer_rows_where_they_are_long(tmp_path: Path) -> None:
    """Pages of long rows have fewer rows, because a text column holds at most 2 GiB; short rows
    fill pages by number.
    """
    files = FolderFiles(tmp_path)
    with patch.object(runs, "PAGE_BYTES", 10_000):
        lengths = [[1000] * 40, [1] * 40, [5000] * 10]
        made = write(files, "long", *(texts(n, 100 * i) for i, n in enumerate(lengths)))
    reader = open_run(files, made)
    whole = pa.Table.from_batches(reader.pages)
    assert (
        whole.column("text")
        .combine_chunks()
        .equals(pa.concat_arrays([texts(n).column("text").combine_chunks() for n in lengths]))
    )
    assert all(page.nbytes < 40_000 for page in reader.pages)
    assert len(reader.pages) < 30


def test_merges_read_long_rows_some_at_a_time(tmp_path: Path) -> None:
    """A piece of a merge is bounded in bytes as in rows."""
    files = FolderFiles(tmp_path)
    with patch.object(runs, "PAGE_BYTES", 4_000), patch.object(runs, "PIECE_BYTES", 20_000):
        files_ = [write(files, f"run-{i}", texts([200] * 300)) for i in range(2)]
        pieces = list(KeyedTree(files, files_, SCHEMA, 1).scan())
    assert sum(piece.num_rows for piece in pieces) == 300
    assert max(piece.nbytes for piece in pieces) < 40_000


@pytest.mark.soak
def test_a_page_of_uneven_rows_beyond_two_gib_loses_none(tmp_path: Path) -> None:
    """A page that exceeds the size of one text column is split into several without losing rows."""
    files = FolderFiles(tmp_path)
    with patch.object(runs, "PAGE_BYTES", 1 << 40):
        made = write(files, "wide", *(texts([1 << 20] * 300, 300 * i) for i in range(8)))
    reader = open_run(files, made)
    assert sum(page.num_rows for page in reader.pages) == made.rows == 2400


def test_a_process_forgets_runs_that_it_has_not_used_for_long(tmp_path: Path) -> None:
    """A worker lives as long as its stream, and every batch writes runs."""
    files = FolderFiles(tmp_path)
    with patch.object(runs, "_KNOWN_RUNS", 5):
        made = [write(files, f"run-{i}", texts([1])) for i in range(20)]
        assert len(runs._verified) == 5
        for file in made:
            assert open_run(files, file).file == file
        assert len(runs._verified) == 5


def test_a_run_of_few_rows_is_compressed_and_a_large_one_is_mapped(tmp_path: Path) -> None:
    """Small runs are written again and again; of large ones only the pages that are touched may take memory."""
    files = FolderFiles(tmp_path)
    rows = texts([20] * 2_000)
    small = write(files, "small", rows)
    with patch.object(runs, "COMPRESSED_ROWS", 1_999):
        large = write(files, "large", rows)
    with patch.object(runs, "COMPRESSED_BYTES", rows.nbytes - 1):
        long = write(files, "long", rows)
    assert small.bytes * 3 < large.bytes == long.bytes
    runs._opened.clear()  # read the files instead of what the writer has kept
    readers = [open_run(files, run) for run in (small, large, long)]
    nbytes = readers[0].pages[0].nbytes
    assert nbytes <= readers[0].held < 2 * nbytes
    assert [reader.held for reader in readers[1:]] == [0, 0]
    for reader in readers:
        assert pa.Table.from_batches(reader.pages).equals(rows)


def test_what_is_held_of_compressed_runs_is_bounded(tmp_path: Path) -> None:
    """A process that opens many runs closes the least recently used ones, and opens them again."""
    files = FolderFiles(tmp_path)
    first = write(files, "run-0", texts([20] * 1_000))
    each = open_run(files, first).held
    with patch.object(runs, "_CACHE_BYTES", 3 * each):
        made = [first]
        for i in range(1, 8):
            made.append(write(files, f"run-{i}", texts([20] * 1_000, i)))
            assert sum(reader.held for reader, _ in runs._opened.values()) <= 3 * each
        for file in made[1:]:
            open_run(files, file)
            held = sum(reader.held for reader, _ in runs._opened.values())
            assert held == runs._opened.held <= 3 * each
        assert open_run(files, made[0]).pages[0].column("hash")[0].as_py() == 0


def test_the_next_batch_has_a_small_run_without_reading_it(tmp_path: Path) -> None:
    """The process that writes a run keeps its pages, unless the file is changed."""
    files = FolderFiles(tmp_path)
    rows = texts([20] * 1_000)
    made = write(files, "run", rows)
    with patch.object(runs, "open_pages", side_effect=AssertionError):
        kept = open_run(files, made)
    assert pa.Table.from_batches(kept.pages).equals(rows)
    path = tmp_path / "run"
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StateRefused):
        open_run(files, made)


def test_a_file_that_unfolds_to_more_than_any_run_is_damaged(tmp_path: Path) -> None:
    """A forged run must not exhaust the memory of the reader."""
    files = FolderFiles(tmp_path)
    with files.create("forged") as sink, pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(pa.py_buffer(bytes(runs._UNFOLDED + 1)))
    size, crc = files.checksum("forged")
    assert size < 100_000
    with pytest.raises(StateRefused) as refused:
        open_run(files, RunFile("forged", 1, size, crc))
    assert refused.value.code == "STATE_DAMAGED"
    assert "decompresses" in str(refused.value)


def test_threads_open_runs_at_the_same_time(tmp_path: Path) -> None:
    """Several threads can open runs at once, such as a reader of a view beside a run."""
    files = FolderFiles(tmp_path)
    made = [write(files, f"run-{i}", texts([1])) for i in range(60)]

    def open_all(_thread: int) -> int:
        return sum(len(open_run(files, file).pages) for _ in range(20) for file in made)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with (
            patch.object(runs, "_CACHE_RUNS", 40), patch.object(runs, "_KNOWN_RUNS", 50),
            ThreadPoolExecutor(4) as threads,
        ):  # fmt: skip
            assert list(threads.map(open_all, range(4))) == [20 * len(made)] * 4
    finally:
        sys.setswitchinterval(interval)
