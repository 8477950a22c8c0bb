"""All queries of TPC-H as SQL text, kept up to date: equal to DuckDB's at every version."""

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
from tests.spark_plans import plan_query

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, pa.Table]:
    """Give the tables at scale factor 0.01."""
    return tpch.generate(tmp_path_factory.mktemp("tpch"))


@pytest.mark.parametrize("refreshes", sample([2, 20], 2))
@pytest.mark.parametrize("query", sample(tpch.QUERIES, 1, 4, 13, 16, 20, 22))
def test_a_query_as_text_follows_refreshes(
    query: int, refreshes: int, generated: Mapping[str, pa.Table], tmp_path: Path
) -> None:
    """All columns can be null, as in files; so NOT IN is written as joins."""
    plan = plan_query(tpch.sql(query), {name: rows.schema for name, rows in generated.items()})
    assert not sa.validate(plan).problems
    flow = lower(plan.bind(), weights={(name,): "weighted" for name in tpch.KEYS})
    tables, run = tpch.Tables.of(generated), LocalFlow(flow, tmp_path)
    run.batch(tables.first())
    for version in range(refreshes + 1):
        if version:
            run.batch(tables.refresh())
        expected = tables.expected(query)
        assert tpch.same_rows(list(run.view.elements()), expected), f"version {version}"
