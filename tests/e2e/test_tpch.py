"""TPC-H queries 1 and 6 by every producer, over inserts, deletes and updates, at every version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.e2e.lineitem import BATCHES, Stream
from tests.e2e.rows import bag, running_sums
from tests.e2e.tpch import PRODUCERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("query", ["q01", "q06"])
@pytest.mark.parametrize("name", PRODUCERS)
def test_every_version_is_what_duckdb_gives(
    spark: SparkSession, lineitem: Stream, tmp_path: Path, name: str, query: str
) -> None:
    """Every version of the view, and the sum of its changes, is the query over the rows alive: types and last digits too."""
    producer = PRODUCERS[name]
    checkpoint = tmp_path / "checkpoint"
    views: dict[int, pa.Table] = {}

    def keep(progress: Any) -> None:
        views[progress.version] = sa.open_view(checkpoint).to_arrow(progress.version)

    source = f"parquet:{lineitem.folder}?op=op&batch-files=1"
    run = sa.run(
        producer.plan(query),
        {"lineitem": source},
        checkpoint=checkpoint,
        spark=spark,
        progress=keep,
    )
    run.wait()
    view = sa.open_view(checkpoint)
    assert view.versions() == sorted(views) == list(range(BATCHES + 1))
    assert view.schema.types == producer.types(query)
    sums = running_sums(view.changes(), view.versions())
    for version, rows in enumerate(lineitem.alive):
        wanted = producer.expected(query, rows)
        assert bag(views[version]) == wanted, f"version {version}"
        assert sums[version] == wanted, f"changes up to version {version}"
    _check_order(views[BATCHES], query)


def _check_order(view: pa.Table, query: str) -> None:
    if query == "q01":
        keys = list(zip(*(view.column(i).to_pylist() for i in range(2)), strict=True))
        assert len(keys) > 4
        assert keys == sorted(keys)
