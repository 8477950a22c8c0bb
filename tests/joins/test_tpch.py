"""All queries of TPC-H in the plans of DataFusion, kept up to date: equal to DuckDB's at every version."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import substrait_agg as sa
from substrait_agg.flow.passes.lower import lower
from tests.joins import tpch
from tests.joins.local_flow import LocalFlow
from tests.joins.test_static_tables import check_nothing_stored, unstored
from tests.sampling import sample


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, pa.Table]:
    """Give the tables at scale factor 0.01."""
    return tpch.generate(tmp_path_factory.mktemp("tpch"))


NEWEST, *OLDER = sorted(tpch.RELEASES, reverse=True)
PLANS = list(product(tpch.QUERIES, tpch.RELEASES))
QUICK = [(q, r) for q, r in PLANS if r == NEWEST or (q % 3 == 1 and r == OLDER[q % len(OLDER)])]
"""Every query as the newest release writes it, and every third one as an older release does."""


@pytest.mark.parametrize("refreshes", sample([2, 20], 2))
@pytest.mark.parametrize(("query", "release"), sample(PLANS, *QUICK))
def test_a_query_follows_refreshes_and_changes_in_every_table(
    query: int, release: int, refreshes: int, generated: Mapping[str, pa.Table], tmp_path: Path
) -> None:
    """Inserts, deletes and updates in all tables; `make soak` runs twenty refresh pairs."""
    plan = sa.load(tpch.plan_bytes(query, release))
    flow = lower(plan.bind(), weights={(name,): "weighted" for name in tpch.KEYS})
    tables, run = tpch.Tables.of(generated), LocalFlow(flow, tmp_path)
    run.batch(tables.first())
    for version in range(refreshes + 1):
        if version:
            run.batch(tables.refresh())
        assert min(run.view.values(), default=1) > 0
        expected = tables.expected(query)
        assert tpch.same_rows(list(run.view.elements()), expected), f"version {version}"


STATIC = ("nation", "region")


@pytest.mark.parametrize("query", sample([2, 5, 7, 8, 9, 10, 11, 20, 21], 5, 10, 20))
def test_a_query_with_static_dimensions(
    query: int, generated: Mapping[str, pa.Table], tmp_path: Path
) -> None:
    """Nation and region are read once, and rows that are joined only with them are not stored."""
    plan = sa.load(tpch.plan_bytes(query)).bind()
    static = {(name,) for name in STATIC}
    flow = lower(plan, weights={(name,): "weighted" for name in tpch.KEYS}, static=static)
    tables, run = tpch.Tables.of(generated), LocalFlow(flow, tmp_path)
    fixed = {name: tables.rows[name] for name in STATIC}
    run.batch(tables.first())
    for version in range(3):
        if version:
            changes = tables.refresh()
            tables.rows.update(fixed)
            run.batch({name: rows for name, rows in changes.items() if name not in STATIC})
        expected = tables.expected(query)
        assert tpch.same_rows(list(run.view.elements()), expected), f"version {version}"
    assert unstored(flow)
    check_nothing_stored(run)
