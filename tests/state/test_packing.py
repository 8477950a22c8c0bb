"""Compressed runs: columns that others determine are left out and come back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.errors import StateRefused
from substrait_agg.state.entries import TreeLayout, consolidate
from substrait_agg.state.keys.keys import Component
from substrait_agg.state.packing import pack, unpack
from substrait_agg.state.run import RunFile, open_run

ROWS = 300


def entries(*columns: pa.Array) -> pa.Table:
    """Rows of a run of an ordered tree over these columns."""
    random = np.random.default_rng(1)
    layout = TreeLayout(tuple(Component(c.type, nullable=bool(c.null_count)) for c in columns))
    hashes = random.integers(0, 9, len(columns[0])).astype(np.uint64)
    chains, weights = np.zeros(len(hashes), np.uint16), random.integers(-3, 9, len(hashes))
    return consolidate(layout, hashes, chains, columns, weights).to_table(layout)


def numbers(**mask: bool) -> pa.Array:
    """Integers of both signs and all sizes."""
    random = np.random.default_rng(2)
    values = random.integers(-(1 << 63), (1 << 63) - 1, ROWS) >> random.integers(0, 64, ROWS)
    return pa.array(values, mask=np.arange(ROWS) % 7 == 0 if mask else None)


def left_out(rows: pa.Table) -> set[str]:
    """The columns that the compressed file lacks."""
    plain = pa.CompressedInputStream(pa.BufferReader(pack(rows)), "zstd").read_buffer()
    return {*rows.column_names} - {*pa.ipc.open_file(plain).schema.names}


@pytest.mark.parametrize(
    ("columns", "missing"),
    [
        ((numbers(),), {"p0", "cum"}),
        ((numbers().view(pa.timestamp("us", "UTC")),), {"p0", "cum"}),
        ((numbers(nulls=True),), {"cum"}),
        ((numbers(), numbers()), {"cum"}),
        ((numbers().cast(pa.string()),), {"cum"}),
        ((pa.array(np.linspace(-1, 1, ROWS)),), {"cum"}),
        ((pa.array(np.arange(ROWS, dtype=np.int32)),), {"cum"}),
    ],
)
def test_a_packed_run_has_the_same_rows(columns: tuple[pa.Array, ...], missing: set[str]) -> None:
    """All columns and their types come back, whatever the values are."""
    rows = entries(*columns)
    plain = pa.CompressedInputStream(pa.BufferReader(pack(rows)), "zstd").read_buffer()
    assert pa.ipc.open_file(unpack(plain)).read_all().equals(rows, check_metadata=True)
    assert left_out(rows) == missing


@pytest.mark.parametrize("name", ["p0", "cum"])
def test_columns_that_others_do_not_determine_are_stored(name: str) -> None:
    """Running sums may start at any value, and a value that differs from its key is not lost."""
    rows = entries(numbers())
    changed = pa.array(rows.column(name).to_numpy() + 1)
    rows = rows.set_column(rows.column_names.index(name), name, changed)
    assert left_out(rows) == {"p0", "cum"} - {name}


def test_a_file_without_the_columns_that_it_needs_is_damaged(tmp_path: Path) -> None:
    """A forged schema names columns that cannot be computed from the stored ones."""
    rows = entries(numbers()).select(["hash", "chain", "w0"])
    for forged in (
        pa.schema({"hash": pa.uint64(), "cum": pa.int64()}),
        pa.schema({"p1": pa.string()}),
    ):
        told = rows.replace_schema_metadata({b"whole": forged.serialize().to_pybytes()})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, told.schema) as writer:
            writer.write_table(told)
        name = f"forged-{len(forged)}"
        with FolderFiles(tmp_path).create(name) as file:
            file.write(pa.compress(sink.getvalue(), codec="zstd"))
        size, crc = FolderFiles(tmp_path).checksum(name)
        with pytest.raises(StateRefused) as refused:
            open_run(FolderFiles(tmp_path), RunFile(name, rows.num_rows, size, crc))
        assert refused.value.code == "STATE_DAMAGED"


def test_a_forged_schema_does_not_make_columns_without_end() -> None:
    """No more columns are computed than a run leaves out."""
    forged = pa.schema([(f"p{i}", pa.int64()) for i in range(9)])
    rows = entries(numbers()).select(["hash", "chain", "w0"])
    whole = {b"whole": forged.serialize().to_pybytes()}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema.with_metadata(whole)) as writer:
        writer.write_table(rows)
    with pytest.raises(pa.ArrowInvalid, match="9 columns of 3"):
        unpack(sink.getvalue())
