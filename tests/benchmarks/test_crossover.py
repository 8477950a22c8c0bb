"""The data and the table of the benchmark of refresh policies."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import substrait_agg as sa
from benchmarks.crossover import HISTORY, SCHEMAS, SETS, ChangedTables, Pair, table
from substrait_agg.refresh.cost_model import InputSize

pytestmark = pytest.mark.usefixtures("spark")


def test_a_batch_is_removed_again(tmp_path: Path) -> None:
    tables = ChangedTables(tmp_path, 500)
    for share in HISTORY:
        assert tables.add(share) > 0
    before, size = tables.live, tables.bytes
    assert tables.add(3.0) + size == tables.bytes
    for name, rows in tables.live.items():
        with duckdb.connect() as connection:
            files = f"FROM '{tmp_path / name}/*.parquet'"
            weights = "sum(CASE op WHEN 'insert' THEN 1 ELSE -1 END)"
            found = connection.execute(f"SELECT {weights} {files}").fetchone()
            assert found == (rows.num_rows,)
    tables.undo(before)
    assert (tables.bytes, tables.live) == (size, before)


@pytest.mark.parametrize("name", SETS)
def test_every_plan_is_valid(name: str) -> None:
    pairs = SETS[name]
    for query in pairs.queries.values():
        assert sa.sql(query, SCHEMAS).bind().names
    assert len(pairs.queries) * len(pairs.deltas) == 40


def test_the_model_is_checked_with_other_pairs_than_it_is_tuned_with() -> None:
    tuned, checked = SETS["tune"], SETS["check"]
    assert not {*tuned.queries.values()} & {*checked.queries.values()}
    assert not {*tuned.deltas} & {*checked.deltas}
    assert tuned.seed != checked.seed


def test_a_choice_is_right_if_it_is_close_to_the_better_way() -> None:
    size = InputSize(1, 2)
    pairs = [
        Pair("a", 0.3, 1.0, 0.9, "incremental", (1.0, 2.0), size, ()),
        Pair("b", 0.3, 2.0, 0.9, "incremental", (1.0, 2.0), size, ()),
        Pair("c", 0.3, 2.0, 0.9, "full", (2.0, 1.0), size, ()),
    ]
    assert [pair.right for pair in pairs] == [True, False, True]
    assert table(pairs).endswith(
        "2 of 3 choices are right (target 9 of 10: missed); full is faster in 3."
    )
