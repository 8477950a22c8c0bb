"""All queries of TPC-H in the plans of DataFusion, kept up to date: equal to DuckDB's at every version."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.flow.passes.lower import lower
from tests.joins import tpch
from tests.joins.local_flow import LocalFlow
from tests.sampling import sample


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, pa.Table]:
    """Give the tables at scale factor 0.01."""
    return tpch.generate(tmp_path_factory.mktemp("tpch"))


@pytest.mark.parametrize("refreshes", sample([2, 20], 2))
@pytest.mark.parametrize("release", tpch.RELEASES)
@pytest.mark.parametrize("query", tpch.QUERIES)
def test_a_query_follows_refreshes_and_changes_in_every_table(
    query: int, release: int, refreshes: int, generated: Mapping[str, pa.Table], tmp_path: Path
) -> None:
    """Inserts, deletes and updates in all tables; `make soak` runs twenty refresh pairs."""
    plan = sa.load(tpch.plan_bytes(query, release))
    flow = lower(plan.bound(), weights={(name,): "weighted" for name in tpch.KEYS})
    tables, run = tpch.Tables.of(generated), LocalFlow(flow, tmp_path)
    run.batch(tables.first())
    for version in range(refreshes + 1):
        if version:
            run.batch(tables.refresh())
        assert min(run.view.values(), default=1) > 0
        expected = tables.expected(query)
        assert tpch.same_rows(list(run.view.elements()), expected), f"version {version}"
