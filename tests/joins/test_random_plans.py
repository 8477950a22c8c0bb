"""Random plans of joins, fetches, unions and counts, kept up to date: equal to nested loops at every version."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest

from substrait_agg.bind.bound import BoundPlan, BoundRelation
from substrait_agg.bind.rewrite import inputs_of
from substrait_agg.errors import RunFailed
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.common.names import WEIGHT
from tests.bind import naive
from tests.bind.bound_relations import WIDTHS, RandomRelations
from tests.bind.naive import Bag
from tests.joins.local_flow import LocalFlow
from tests.sampling import seeds

VERSIONS = 4
PLANS = 50
"""Plans of a block."""


def delta(before: Bag, after: Bag, name: str) -> pa.Table:
    """The changes of a table; a row that changes twice comes twice."""
    changes = Counter(after)
    changes.subtract(before)
    rows = [(row, n) for row, n in changes.items() if n]
    columns = {
        f"{name}{i}": pa.array([row[i] for row, _ in rows], pa.int64()) for i in range(WIDTHS[name])
    }
    return pa.table({**columns, WEIGHT: pa.array([n for _, n in rows], pa.int64())})


def after_batch(
    run: LocalFlow, root: BoundRelation, tables: dict[str, Bag], changes: dict[str, pa.Table]
) -> Bag | None:
    """Run a batch and return the rows of a view over `tables`; None where a single join fails."""
    try:
        expected = naive.rows(root, tables)
    except naive.RunFailed:
        return None
    try:
        run.batch(changes)
    except RunFailed as failure:
        if failure.code != "SINGLE_JOIN_MATCHES":
            raise
        return None
    return +expected


@pytest.mark.parametrize("block", seeds(3, 200))
def test_random_plans_equal_nested_loops_at_every_version(block: int) -> None:
    """Joins of all kinds with and without residuals, under and over everything."""
    ran = 0
    for seed in range(block * PLANS, (block + 1) * PLANS):
        chance = RandomRelations(seed, risky=False)
        root = chance.relation(3)
        if not inputs_of(root):
            continue
        names = tuple(f"c{i}" for i in range(len(root.types)))
        plan = BoundPlan(root, names, (), "", f"{seed}")
        flow = lower(plan, weights={(name,): "weighted" for name in WIDTHS})
        with TemporaryDirectory() as folder:
            run = LocalFlow(flow, Path(folder))
            tables = {name: Bag() for name in WIDTHS}
            for version in range(VERSIONS):
                now = chance.tables()
                changes = {name: delta(tables[name], now[name], name) for name in WIDTHS}
                tables = now
                expected = after_batch(run, root, tables, changes)
                if expected is None:
                    break
                ran += 1
                assert run.view == expected, f"seed {seed}, version {version}"
    assert ran > PLANS
