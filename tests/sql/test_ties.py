"""A top-n with ties has the rows that rank() and row_number() choose in DuckDB, at every version."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.bind.joined import I64, at, by, emit, lit, plan, project, read
from tests.sampling import seeds
from tests.sql.results import changed, chosen, of_duckdb, ordered, started

Json = dict[str, Any]
ROWS = 24
MOST = 2**63 - 1
KEYS = [by(at(0), "DESC_NULLS_LAST"), by(at(1))]
ORDER = "ORDER BY t0 DESC NULLS LAST, t1 NULLS FIRST"
RANKED = (
    f"SELECT *, rank() OVER ({ORDER}) AS r, row_number() OVER ({ORDER}, t2 NULLS LAST) AS n FROM t"
)
WINDOWS = [(0, 1), (0, 4), (2, 2), (3, 1), (5, None), (1, 0), (40, 2), (0, MOST), (MOST, MOST)]


def top_n(source: Json, offset: int, count: int | None, keys: list[Json] = KEYS) -> Json:
    amounts = {"offset": lit(str(offset))} if offset else {}
    if count is not None:
        amounts["count"] = lit(str(count))
    return {"topN": {"input": source, "sorts": keys, "mode": "FETCH_MODE_WITH_TIES", **amounts}}


def of_window(offset: int, count: int | None) -> str:
    """The condition on a rank and a number of rows."""
    if count is None:
        return f"n > {offset}"
    return f"n > {offset} AND r <= {offset + count}" if count else "false"


def check(relation: Json, width: int, query: str, seed: int, folder: Path) -> None:
    """Compare every version with DuckDB; some rows occur twice."""
    rng = random.Random(seed)
    some = [
        (rng.choice((1, 2, None)), rng.choice((5, 6, 7, None)), rng.choice((8, 9)))
        for _ in range(ROWS)
    ]
    types = [pa.int64()] * 3
    columns = [pa.array(c, t) for c, t in zip(zip(*some, strict=True), types, strict=True)]
    rows = pa.table(columns, ["t0", "t1", "t2"])
    written = json.dumps(plan(relation, width)).encode()
    run = started(sa.load(written), {"t": rows.schema}, folder)
    before: set[int] = set()
    for _ in range(4):
        after = {i for i in range(ROWS) if rng.random() < 0.6}
        run.batch({"t": changed(rows, before, after)})
        before = after
        assert ordered(list(run.view.elements())) == of_duckdb(query, {"t": chosen(rows, after)})


TABLE = read("t", I64, I64, I64)


@pytest.mark.parametrize("seed", seeds(2, 40))
@pytest.mark.parametrize(("offset", "count"), WINDOWS)
def test_rows_behind_the_last_one_with_its_keys_are_kept(
    offset: int, count: int | None, seed: int, tmp_path: Path
) -> None:
    query = f"SELECT t0, t1, t2 FROM ({RANKED}) WHERE {of_window(offset, count)}"
    check(top_n(TABLE, offset, count), 3, query, seed, tmp_path)


def test_constant_keys_tie_all_rows(tmp_path: Path) -> None:
    """So only the offset leaves rows out, in the order of all columns."""
    number = "row_number() OVER (ORDER BY t0 NULLS LAST, t1 NULLS LAST, t2 NULLS LAST)"
    query = f"SELECT t0, t1, t2 FROM (SELECT *, {number} AS n FROM t) WHERE n > 2"
    check(top_n(TABLE, 2, 1, [by(lit("1"))]), 3, query, 1, tmp_path)


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_a_projection_may_leave_the_keys_out(seed: int, tmp_path: Path) -> None:
    sorted_rows = {"sort": {"input": TABLE, "sorts": KEYS}}
    rows = project(top_n(sorted_rows, 1, 3), lit("1"), **emit(2, 3))
    query = f"SELECT t2, 1 FROM ({RANKED}) WHERE {of_window(1, 3)}"
    check(rows, 2, query, seed, tmp_path)


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_ties_below_and_above_other_relations(seed: int, tmp_path: Path) -> None:
    """Groups of the rows, and of these the first ones by another key."""
    grouping = {"groupingExpressions": [at(1)], "groupings": [{"expressionReferences": [0]}]}
    groups = {"aggregate": {"input": top_n(TABLE, 1, 4), **grouping}}
    query = (
        f"WITH g AS (SELECT DISTINCT t1 FROM ({RANKED}) WHERE {of_window(1, 4)})"
        " SELECT t1 FROM (SELECT *, rank() OVER (ORDER BY t1 > 5 NULLS FIRST) AS r FROM g)"
        " WHERE r <= 1"
    )
    is_greater = {
        "scalarFunction": {
            "functionReference": 3,
            "outputType": {"bool": {"nullability": "NULLABILITY_NULLABLE"}},
            "arguments": [{"value": at(0)}, {"value": lit("5")}],
        }
    }
    check(top_n(groups, 0, 1, [by(is_greater)]), 1, query, seed, tmp_path)
