"""ASOF joins over tables whose rows come and go: every version equals DuckDB and Spark."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import substrait_agg as sa
from substrait_agg.operator.window import step
from tests.e2e.rows import bag
from tests.joins.local_flow import LocalFlow
from tests.spark_plans import plan_query
from tests.sql.results import Row, changed, chosen, of_duckdb, of_spark, ordered, started

pytestmark = pytest.mark.usefixtures("spark")

START = datetime(2024, 1, 1)
SCHEMAS = {
    "l": pa.schema([("id", pa.int64()), ("k", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us"))]),
    "r": pa.schema([("k", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us")), ("v", pa.int64())]),
}  # fmt: skip
VERSIONS = 5
QUERIES = {
    "backward": ("ASOF JOIN r MATCH_CONDITION(l.n >= r.n) ON l.k = r.k", "l.n >= r.n AND l.k = r.k"),
    "backward, not at the same time": ("ASOF JOIN r MATCH_CONDITION(l.n > r.n) ON l.k = r.k", "l.n > r.n AND l.k = r.k"),
    "left": ("LEFT ASOF JOIN r MATCH_CONDITION(l.n >= r.n) ON l.k = r.k", "l.n >= r.n AND l.k = r.k"),
    "left, forward": ("LEFT ASOF JOIN r MATCH_CONDITION(l.n <= r.n) ON l.k = r.k", "l.n <= r.n AND l.k = r.k"),
    "left, later": ("LEFT ASOF JOIN r MATCH_CONDITION(r.n > l.n) ON l.k = r.k", "l.n < r.n AND l.k = r.k"),
    "times": ("LEFT ASOF JOIN r MATCH_CONDITION(l.at >= r.at) ON l.k = r.k", "l.at >= r.at AND l.k = r.k"),
    "null is a key": ("LEFT ASOF JOIN r MATCH_CONDITION(l.n >= r.n) ON l.k <=> r.k", "l.n >= r.n AND l.k IS NOT DISTINCT FROM r.k"),
    "a condition on right rows": ("LEFT ASOF JOIN r MATCH_CONDITION(l.n >= r.n) ON l.k = r.k AND r.v % 2 = 0", "l.n >= r.n AND l.k = r.k AND r.v % 2 = 0"),
    "a condition on left rows": ("LEFT ASOF JOIN r MATCH_CONDITION(l.n >= r.n) ON l.k = r.k AND l.id % 2 = 0", "l.n >= r.n AND l.k = r.k AND l.id % 2 = 0"),
    "computed times and keys": ("ASOF JOIN r MATCH_CONDITION(l.n + 1 >= r.n * 2) ON upper(l.k) = upper(r.k)", "l.n + 1 >= r.n * 2 AND upper(l.k) = upper(r.k)"),
    "without a key": ("LEFT ASOF JOIN (SELECT * FROM r WHERE k = 'a') r MATCH_CONDITION(l.n >= r.n)", "l.n >= r.n AND r.k = 'a'"),
}  # fmt: skip
"""Kind -> the join in Spark, and the condition on matches in DuckDB."""
COLUMNS = "l.id, l.k, l.n, r.k AS other, r.n AS m, r.at, r.v"


def rows_of(seed: int) -> dict[str, pa.Table]:
    """Rows in which right rows of one key have different times."""
    rng = random.Random(seed)
    instants = [None, *range(30)]
    left = [(i, rng.choice(("a", "b", "c", None)), rng.choice(instants)) for i in range(50)]
    right = list({(rng.choice(("a", "b", None)), rng.choice(instants)) for _ in range(45)})
    right.sort(key=repr)
    tables: dict[str, list[Row]] = {
        "l": [(i, k, n, instant(n)) for i, k, n in left],
        "r": [(k, n, instant(n), v) for v, (k, n) in enumerate(right)],
    }
    return {
        name: pa.Table.from_pylist(
            [dict(zip(SCHEMAS[name].names, row, strict=True)) for row in rows], SCHEMAS[name]
        )
        for name, rows in tables.items()
    }


def instant(number: int | None) -> datetime | None:
    return None if number is None else START + timedelta(seconds=number)


def views(run: LocalFlow, seed: int) -> list[tuple[list[Row], Mapping[str, pa.Table]]]:
    """The rows of a view at each version, and the rows of the tables."""
    rng, rows = random.Random(seed), rows_of(seed)
    before: dict[str, set[int]] = {name: set() for name in rows}
    versions: list[tuple[list[Row], Mapping[str, pa.Table]]] = []
    for _ in range(VERSIONS):
        after = {
            name: {i for i in range(len(table)) if rng.random() < (0.7 if i in before[name] else 0.4)}
            for name, table in rows.items()
        }  # fmt: skip
        run.batch({n: changed(rows[n], before[n], after[n]) for n in rows})
        before = after
        view = ordered([row for row, n in run.view.items() for _ in range(n)])
        versions.append((view, {n: chosen(rows[n], after[n]) for n in rows}))
    return versions


def reference(condition: str, *, outer: bool, columns: str, distance: str) -> str:
    """The right row with the least distance to each left row, in SQL of DuckDB."""
    kind = "LEFT" if outer else "INNER"
    return (
        f"WITH m AS (SELECT l.id, r.*, row_number() OVER (PARTITION BY l.id ORDER BY {distance}) AS place"
        f" FROM l JOIN r ON {condition}) SELECT l.*, {columns} FROM l {kind} JOIN m ON l.id = m.id AND m.place = 1"
    )


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", QUERIES)
def test_every_version_equals_duckdb(kind: str, seed: int, tmp_path: Path) -> None:
    join, condition = QUERIES[kind]
    run = started(f"SELECT * FROM l {join}", SCHEMAS, tmp_path)
    expected = reference(
        condition,
        outer=join.startswith("LEFT"),
        columns="m.k, m.n, m.at, m.v",
        distance="abs(l.n - r.n)" if kind != "computed times and keys" else "-r.n",
    )
    with patch.object(step, "NEAREST_ROWS", 1):
        for version, (view, tables) in enumerate(views(run, seed)):
            assert view == of_duckdb(expected, tables), f"version {version}"


def test_a_version_equals_asof_joins_of_duckdb_and_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    for place, kind in enumerate(("backward", "left", "left, later", "a condition on right rows")):
        query = f"SELECT {COLUMNS} FROM l {QUERIES[kind][0]}"
        view, tables = views(started(query, SCHEMAS, tmp_path / str(place)), place)[-1]
        assert view == of_spark(spark, query, tables), kind
        if kind in ("backward", "left"):
            word = "LEFT" if kind == "left" else "INNER"
            duck = f"SELECT {COLUMNS} FROM l ASOF {word} JOIN r ON l.k = r.k AND l.n >= r.n"
            assert view == of_duckdb(duck, tables), kind


FRAMES: dict[str, Mapping[str, Any]] = {
    "backward within": {"tolerance": 2},
    "left within": {"tolerance": 1, "how": "left"},
    "forward within, later": {"tolerance": 4, "direction": "forward", "allowExactMatches": False},
    "nearest": {"direction": "nearest", "how": "left"},
    "nearest other": {"direction": "nearest", "allowExactMatches": False},
    "nearest within": {"direction": "nearest", "tolerance": 2, "how": "left"},
}


@pytest.mark.parametrize("kind", FRAMES)
def test_dataframes_have_their_own_kinds(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """No two right rows are equally near, so Spark has one answer."""
    options = dict(FRAMES[kind])
    if "tolerance" in options:
        options["tolerance"] = f.lit(options["tolerance"])
    rows = rows_of(7)
    instants = pc.multiply(rows["r"]["n"], 4), pc.add(pc.multiply(rows["l"]["n"], 4), 1)
    tables = {
        "l": rows["l"].set_column(2, "n", instants[1]),
        "r": rows["r"].set_column(1, "n", instants[0]),
    }
    frames = {}
    for name, table in tables.items():
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "1.parquet")
        frames[name] = spark.read.parquet(str(tmp_path / name))
    left, right = frames["l"], frames["r"]
    joined = left._joinAsOf(right, left.n, right.n, "k", **options)
    joined = joined.select(left.id, left.k, left.n, right.n.alias("other"), right.v)
    sa.run(joined, checkpoint=tmp_path / "view", outputs=["none"]).wait()
    view = sa.open_view(tmp_path / "view").to_arrow()
    assert bag(view) == bag(joined.toArrow())
    assert view["v"].null_count < len(view)


def test_another_condition_on_both_sides_is_refused() -> None:
    query = "SELECT * FROM l ASOF JOIN r MATCH_CONDITION(l.n >= r.n) ON l.k = r.k AND r.v > l.id"
    with pytest.raises(sa.SqlRefused, match="ASOF join") as error:
        plan_query(query, SCHEMAS)
    assert error.value.code == "SQL_NOT_MAINTAINED"
    assert "r.v > l.id" in str(error.value.excerpt)
