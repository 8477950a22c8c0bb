"""Change files have the rows that were written, in a form that fits their types."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from substrait_agg.commit.tasks.change_writer import SAMPLE_ROWS, parquet_writer

ROWS = 2 * SAMPLE_ROWS
RANDOM = np.random.default_rng(1)
COLUMNS: dict[str, pa.Array] = {
    "small": pa.array(RANDOM.integers(0, 100, ROWS), pa.int8()),
    "nullable": pa.array([None if i % 3 else i for i in range(ROWS)], pa.int32()),
    "extreme": pa.array([-(1 << 63), (1 << 63) - 1] * (ROWS // 2)),
    "unsigned": pa.array([0, (1 << 64) - 1] * (ROWS // 2), pa.uint64()),
    "time": pa.array([datetime(1500, 1, 1), datetime(2500, 1, 1)] * (ROWS // 2), pa.timestamp("us")),
    "date": pa.array([date(1, 1, 1), date(9999, 12, 31)] * (ROWS // 2)),
    "a.b": pa.array(range(ROWS)),
    "a": pa.array([{"b": "text"}] * ROWS),
    "list": pa.array([[1, 2], None] * (ROWS // 2)),
}  # fmt: skip


def _written(path: Path, rows: pa.Table) -> Any:
    with pa.OSFile(str(path), "wb") as sink, parquet_writer(sink, rows) as writer:
        writer.write_table(rows)
    group = pq.ParquetFile(path).metadata.row_group(0)
    return {
        column.path_in_schema: column
        for column in (group.column(i) for i in range(group.num_columns))
    }


@pytest.mark.parametrize("count", [1, ROWS])
def test_rows_of_every_type_are_as_written(tmp_path: Path, count: int) -> None:
    """Also the extremes of integers, nulls, and a name that looks like the path of another column."""
    rows = pa.table(COLUMNS).slice(0, count)
    columns = _written(tmp_path / "file", rows)
    assert pq.ParquetFile(tmp_path / "file").read().equals(rows)
    assert "DELTA_BINARY_PACKED" in columns["extreme"].encodings
    assert "DELTA_BINARY_PACKED" in columns["date"].encodings
    assert "PLAIN" in columns["a.b"].encodings


def test_equal_names_are_not_packed(tmp_path: Path) -> None:
    """An encoding is given by name, and would apply to both columns."""
    rows = pa.Table.from_arrays([pa.array([1]), pa.array(["text"])], names=["x", "x"])
    _written(tmp_path / "file", rows)
    assert pq.ParquetFile(tmp_path / "file").read().equals(rows)


@pytest.mark.parametrize(
    ("values", "compression"),
    [(RANDOM.random(ROWS), "UNCOMPRESSED"), (np.arange(ROWS) % 8 / 8, "SNAPPY")],
    ids=["random", "repeated"],
)
def test_only_what_shrinks_is_compressed(
    tmp_path: Path, values: np.ndarray[Any, Any], compression: str
) -> None:
    """The first rows decide."""
    columns = _written(tmp_path / "file", pa.table({"x": values, "n": np.arange(ROWS)}))
    assert columns["x"].compression == compression
