"""Rows that a connector collects, in memory and in a file."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from substrait_agg.connect import spool
from substrait_agg.connect.spool import spool_rows


@pytest.mark.parametrize("most", [0, 500, 1 << 20])
@pytest.mark.parametrize("counts", [(), (0,), (3,), (3, 0, 40, 100, 1)])
def test_rows_are_those_that_were_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, counts: tuple[int, ...]
) -> None:
    """The order is kept, and no file stays, whatever fits into memory."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    batches = [
        pa.record_batch({"b": range(n), "a": [f"text {i}" for i in range(n)]}) for n in counts
    ]
    types = pa.schema([("a", pa.string()), ("b", pa.int32()), ("__weight", pa.int64())])
    with patch.object(spool, "MEMORY_BYTES", most):
        rows = spool_rows(batches, types, -1)
    assert rows.schema == types
    assert rows.column("b").to_pylist() == [i for n in counts for i in range(n)]
    assert rows.column("a").to_pylist() == [f"text {i}" for n in counts for i in range(n)]
    assert set(rows.column("__weight").to_pylist()) <= {-1}
    assert not list(tmp_path.iterdir())


def test_no_file_stays_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of a batch may fail after others were written."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    types = pa.schema([("a", pa.int64()), ("__weight", pa.int64())])
    bad = [pa.record_batch({"a": [1]}), pa.record_batch({"a": ["no number"]})]
    with patch.object(spool, "MEMORY_BYTES", 0), pytest.raises(pa.ArrowInvalid):
        spool_rows(bad, types, 1)
    assert not list(tmp_path.iterdir())
