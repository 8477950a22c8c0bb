"""Runs have only the digits that are not 0 in all of their rows, and are read together with runs that have others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.view.scan import ViewScan
from substrait_agg.errors import StateRefused
from substrait_agg.functions.numbers.exact import Digits
from substrait_agg.functions.numbers.stored_digits import (
    FIXED,
    digits_at,
    fit,
    pack_digits,
    unpack_digits,
    with_digits_of,
)
from substrait_agg.required import require
from substrait_agg.state.run import COMPRESSED_ROWS, RunFile, RunWriter, open_run
from substrait_agg.state.tree import KeyedTree, tree_of

DIGITS = 80
SCHEMA = pa.schema(
    [
        ("hash", pa.uint64()),
        ("dead", pa.bool_()),
        ("k0", pa.int64()),
        pa.field(FIXED, pa.binary(4 * DIGITS)),
    ]
)
EXTREMES = np.array([-(1 << 31), (1 << 31) - 1])


def _digits(*positions: int, rows: int = 4, value: int = 7) -> Digits:
    digits = np.zeros((DIGITS, rows), np.int64)
    digits[list(positions)] = value
    return digits


def _rows(digits: Digits, first: int = 0) -> pa.Table:
    count = digits.shape[1]
    keys = np.arange(first, first + count)
    field, values = pack_digits(digits)
    columns = [pa.array(keys.astype(np.uint64)), pa.array(np.zeros(count, bool)), pa.array(keys)]
    schema = SCHEMA.set(require(digits_at(SCHEMA)), field)
    return pa.Table.from_arrays([*columns, values], schema=schema)


def _run(files: FolderFiles, name: str, *tables: pa.Table, page_rows: int = 1000) -> RunFile:
    writer = RunWriter(files, name, SCHEMA, page_rows)
    for table in tables:
        writer.write(table)
    return require(writer.close())


def _name(schema: pa.Schema) -> str:
    return str(schema.names[require(digits_at(schema))])


@pytest.mark.parametrize("positions", [(), (0,), (1, 79), (5, 32, 33), tuple(range(DIGITS))])
def test_numbers_are_as_packed(positions: tuple[int, ...]) -> None:
    """Also the extremes of digits, rows in another order, absent rows, slices, and the lowest digits alone."""
    digits = _digits(rows=2000)
    digits[list(positions)] = np.resize(EXTREMES, 2000)
    rows = _rows(digits)
    assert rows.column(_name(rows.schema)).type.byte_width == 4 * len({0, *positions})
    assert np.array_equal(unpack_digits(rows, DIGITS), digits)
    assert np.array_equal(unpack_digits(rows.slice(3, 5), DIGITS), digits[:, 3:8])
    assert np.array_equal(unpack_digits(rows, 6), digits[:6])
    at = np.array([1999, -1, 0, -1])
    expected = np.where(at < 0, 0, digits[:, at])
    assert np.array_equal(unpack_digits(rows, DIGITS, at), expected)
    assert unpack_digits(rows.slice(0, 0), DIGITS).shape == (DIGITS, 0)


def test_rows_with_other_digits_are_fitted() -> None:
    """The name of the column says which digits it has, so other digits never pass for them."""
    few, others = _rows(_digits(0, 2)), _rows(_digits(0, 40))
    both = with_digits_of(SCHEMA, [few.schema, others.schema])
    assert few.schema.field(3).type == others.schema.field(3).type
    assert few.schema != others.schema
    for rows in (few, others):
        assert np.array_equal(unpack_digits(fit(rows, both), DIGITS), unpack_digits(rows, DIGITS))
    assert with_digits_of(SCHEMA, [few.schema, SCHEMA]) == SCHEMA
    assert with_digits_of(SCHEMA, []) == SCHEMA
    with pytest.raises(ValueError, match="lacks digits"):
        fit(few, others.schema)


def test_runs_with_different_digits_are_one_tree(tmp_path: Path) -> None:
    """Lookups, scans and merges; an earlier build wrote all digits."""
    files = FolderFiles(tmp_path)
    numbers = [_digits(3, value=1), _digits(0, 3, 50, value=2), _digits(79, value=3)]
    runs = [_run(files, f"run-{i}", _rows(n, 3 * i)) for i, n in enumerate(numbers)]
    whole = fit(_rows(_digits(1, value=4), 9), SCHEMA)
    runs.append(_run(files, "whole", whole))
    assert [_name(open_run(files, run).schema) for run in runs][-1] == FIXED
    for some in (runs[:3], runs):
        tree = KeyedTree(files, some, SCHEMA, 1)
        rows = pa.concat_tables(tree.scan())
        expected = {
            3 * i + j: n[:, j] for i, n in reversed([*enumerate(numbers)]) for j in range(4)
        }
        expected |= {9 + j: _digits(1, value=4)[:, j] for j in range(4) if len(some) > 3 and j > 0}
        keys = rows.column("k0").to_pylist()
        assert keys == sorted(expected)
        assert np.array_equal(unpack_digits(rows, DIGITS), np.stack([expected[k] for k in keys], 1))
        probes = pa.array(keys)
        result = tree.lookup(np.array(keys, np.uint64), [probes])
        looked_up = unpack_digits(result.rows, DIGITS)
        order = np.argsort(result.positions)
        assert np.array_equal(looked_up[:, order], unpack_digits(rows, DIGITS))
        writer = RunWriter(files, f"merged-{len(some)}", tree.schema, 5)
        for part in tree.scan():
            writer.write(part)
        merged = KeyedTree(files, [require(writer.close())], SCHEMA, 1)
        assert pa.concat_tables(merged.scan()).equals(rows)
        assert _name(merged.schema) == _name(tree.schema)


@pytest.mark.parametrize("rows", [5, COMPRESSED_ROWS + 1])
def test_a_run_of_several_tables_has_the_digits_of_all(tmp_path: Path, rows: int) -> None:
    """Few rows are compressed; of many, the first pages are written before the last table comes."""
    files = FolderFiles(tmp_path)
    numbers = [_digits(1, rows=rows), _digits(7, rows=rows), _digits(0, rows=rows)]
    tables = [_rows(n, i * rows) for i, n in enumerate(numbers)]
    run = _run(files, "run", *tables, page_rows=rows // 2 + 1)
    tree = KeyedTree(files, [run], SCHEMA, 1)
    stored = pa.concat_tables(tree.scan())
    assert stored.column("k0").to_pylist() == list(range(3 * rows))
    assert np.array_equal(unpack_digits(stored, DIGITS), np.concatenate(numbers, axis=1))
    alone = KeyedTree(files, [_run(files, "one", tables[1], page_rows=rows // 2 + 1)], SCHEMA, 1)
    assert _name(alone.schema) == f"{FIXED}_81"


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("fixed_0", 0),
        ("fixed_", 4),
        ("fixed_x", 4),
        ("fixed_-3", 8),
        ("fixed_03", 8),
        ("fixed_3", 4),
        ("fixed_3", 12),
        ("fixed_" + "1" + "0" * 5000, 4),
        (FIXED, 4),
        (FIXED, 400),
        (FIXED, 3),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_run_with_forged_digits_is_refused(
    name: str, width: int, place: int, tmp_path: Path
) -> None:
    """A column of digits whose name and width disagree is damage, whatever run of a tree has it."""
    files = FolderFiles(tmp_path)
    rows = _rows(_digits(0, 1))
    at = require(digits_at(rows.schema))
    values = pa.array([bytes(width)] * rows.num_rows, pa.binary(width))
    forged = _stored(files, "forged", rows.set_column(at, name, values))
    runs = [_run(files, "right", rows), _run(files, "other", _rows(_digits(0, 1, 2)))]
    runs.insert(place, forged)
    with pytest.raises(StateRefused, match="forged") as refused:
        KeyedTree(files, runs, SCHEMA, 1)
    assert refused.value.code == "STATE_DAMAGED"


@pytest.mark.parametrize("change", ["type", "order", "missing", "no digits", "twice"])
def test_a_run_with_other_columns_is_refused(change: str, tmp_path: Path) -> None:
    """A run whose columns are not those of its tree is damage."""
    files = FolderFiles(tmp_path)
    rows = _rows(_digits(0, 1))
    at = require(digits_at(rows.schema))
    order = list(range(rows.num_columns))
    forged = {
        "type": rows.set_column(2, rows.column_names[2], pa.array(["x"] * rows.num_rows)),
        "order": rows.select([0, 2, 1, *order[3:]]),
        "missing": rows.select(order[:-1]),
        "no digits": rows.remove_column(at),
        "twice": rows.append_column("fixed_1", pa.array([b"four"] * rows.num_rows, pa.binary(4))),
    }[change]
    with pytest.raises(StateRefused, match="forged") as refused:
        KeyedTree(files, [_stored(files, "forged", forged)], SCHEMA, 1)
    assert refused.value.code == "STATE_DAMAGED"


@pytest.mark.parametrize("columns", [[0, 2, 3], [1, 0, 2, 3], [0, 1, 3], [0, 1, 3, 2]])
def test_a_tree_of_unknown_columns_has_those_of_its_keys(
    columns: list[int], tmp_path: Path
) -> None:
    """A first run without the hash, the deletion or a key of its rows is damage."""
    files = FolderFiles(tmp_path)
    forged = _stored(files, "forged", _rows(_digits(0, 1)).select(columns))
    with pytest.raises(StateRefused, match="forged") as refused:
        tree_of(files, [forged], 1)
    assert refused.value.code == "STATE_DAMAGED"


@pytest.mark.parametrize("name", ["dead", "shown"])
@pytest.mark.parametrize("change", ["type", "missing"])
def test_a_view_needs_deletions_and_numbers_of_rows(name: str, change: str, tmp_path: Path) -> None:
    """A run without them, or with another type, is damage instead of a wrong view."""
    files = FolderFiles(tmp_path)
    rows = pa.table(
        {
            "hash": pa.array([1, 2], pa.uint64()),
            "dead": [True, False],
            "k0": [7, 8],
            "shown": pa.array([1, 1], pa.int64()),
        }
    )
    right = _stored(files, "right", rows)
    assert _shown_keys(files, right) == [8]
    at = rows.column_names.index(name)
    other = rows.set_column(at, name, pa.array([0, 1], pa.int8()))
    forged = _stored(files, "forged", other if change == "type" else rows.remove_column(at))
    with pytest.raises(StateRefused, match="forged") as refused:
        _shown_keys(files, forged)
    assert refused.value.code == "STATE_DAMAGED"


def _shown_keys(files: FolderFiles, run: RunFile) -> list[int]:
    schema = pa.schema([("k", pa.int64())])
    scan = ViewScan(str(files.root), 0, ("k0",), schema, 1, ((run,),))
    return [key for batch in scan.batches(files) for key in batch.column(0).to_pylist()]


def _stored(files: FolderFiles, name: str, rows: pa.Table) -> RunFile:
    """Write rows as a run with a right checksum, whatever their columns."""
    with files.create(name) as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    size, crc = files.checksum(name)
    return RunFile(name, rows.num_rows, size, crc)
