"""A file that Spark planned for a batch and that has gone stops the run instead of being left out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAN = Path(__file__).parents[2] / "plans" / "bench" / "count_sum_avg.bin"


def _file(folder: Path, ordinal: int) -> Path:
    path = folder / f"{ordinal} a+b%.parquet"
    pq.write_table(pa.table({"k": [1, 2], "i": [ordinal, 5], "x": [1.0, 2.0]}), path)
    _date(path, ordinal)
    return path


def _date(path: Path, ordinal: int) -> None:
    # Spark takes files in order of their time of modification.
    os.utime(path, (1_700_000_000 + ordinal, 1_700_000_000 + ordinal))


@pytest.mark.spark
def test_a_file_lost_between_two_runs_is_missed(spark: SparkSession, tmp_path: Path) -> None:
    """A damaged file fails its batch; removed, it is named and refused; put back, the run goes on."""
    folder = tmp_path / "in"
    folder.mkdir()
    paths = [_file(folder, ordinal) for ordinal in range(3)]
    os.truncate(paths[1], 30)
    _date(paths[1], 1)
    source = {"t": f"parquet:{folder}?batch-files=1"}

    def run() -> None:
        sa.run(PLAN, source, checkpoint=tmp_path / "ckpt", spark=spark).wait()

    with pytest.raises(sa.RunFailed):
        run()
    paths[1].unlink()
    with pytest.raises(sa.InputRefused) as refused:
        run()
    assert refused.value.code == "SOURCE_FILE_GONE"
    assert "1%20a" in refused.value.path
    assert sa.open_view(tmp_path / "ckpt").version == 1
    _file(folder, 1)
    run()
    shown = sa.open_view(tmp_path / "ckpt").to_arrow().to_pydict()
    assert dict(zip(shown["k"], shown["s"], strict=True)) == {1: 3, 2: 15}
