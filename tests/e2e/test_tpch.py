"""TPC-H queries 1 and 6 by every producer, over inserts, deletes and updates, at every version."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.e2e.conftest import Finished
from tests.e2e.lineitem import BATCHES, Stream
from tests.e2e.rows import bag, running_sums
from tests.e2e.tpch import PRODUCERS
from tests.sampling import sample

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("name", "query"),
    sample(
        [(name, query) for name in PRODUCERS for query in ("q01", "q06")],
        ("datafusion-55", "q01"), ("substrait-python", "q06"),
    ),
)  # fmt: skip
def test_every_version_is_what_duckdb_gives(
    lineitem: Stream, undisturbed: Callable[[str, str], Finished], name: str, query: str
) -> None:
    """Every version of the view, and the sum of its changes, is the query over the rows alive: types and last digits too."""
    producer, done = PRODUCERS[name], undisturbed(name, query)
    view = sa.open_view(done.checkpoint)
    assert view.versions() == sorted(done.views) == list(range(BATCHES + 1))
    assert view.schema.types == producer.types(query)
    sums = running_sums(view.changes(), view.versions())
    for version, rows in enumerate(lineitem.alive):
        wanted = producer.expected(query, rows)
        assert bag(done.views[version]) == wanted, f"version {version}"
        assert sums[version] == wanted, f"changes up to version {version}"
    _check_order(done.views[BATCHES], query)


def _check_order(view: pa.Table, query: str) -> None:
    if query == "q01":
        keys = list(zip(*(view.column(i).to_pylist() for i in range(2)), strict=True))
        assert len(keys) > 4
        assert keys == sorted(keys)
