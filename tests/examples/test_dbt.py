"""The dbt project of the examples: dbt compiles it in its own environment, and a run maintains its
views.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from tests.e2e.rows import bag
from tests.examples.environments import installed

PROJECT = Path(__file__).parents[2] / "docs" / "examples" / "dbt"
PACKAGES = ("dbt-core>=1.9,<1.11", "dbt-duckdb<1.11")

BATCHES: list[list[tuple[str, int | None]]] = [
    [("a", 2), ("b", 1), ("a", None)],
    [("b", 4), ("c", 0)],
]

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def dbt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of dbt."""
    return installed(tmp_path_factory.mktemp("dbt"), *PACKAGES) / "dbt"


def matches(rows: list[tuple[str, int | None]]) -> pa.Table:
    home, goals = zip(*rows, strict=True)
    return pa.table({"home": pa.array(home), "goals": pa.array(goals, pa.int64())})


def test_compiled_models_are_kept_up_to_date(dbt: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(PROJECT, tmp_path / "project"))
    own = {**os.environ, "DO_NOT_TRACK": "1", "DBT_PROFILES_DIR": str(project)}
    subprocess.run([str(dbt), "compile"], cwd=project, env=own, check=True)
    source = tmp_path / "matches"
    source.mkdir()
    written = []
    for number, rows in enumerate(BATCHES):
        written.append(matches(rows))
        pq.write_table(written[-1], source / f"{number}.parquet")
        command = [sys.executable, "keep.py", f"matches=parquet:{source}"]
        subprocess.run(command, cwd=project, check=True)
        check(project, pa.concat_tables(written))


def check(project: Path, rows: pa.Table) -> None:
    """Every view equals what DuckDB computes from the SQL that dbt compiled."""
    connection = duckdb.connect()
    connection.register("matches", rows)
    manifest = json.loads((project / "target" / "manifest.json").read_text())
    kept = [n for n in manifest["nodes"].values() if n["config"]["materialized"] == "table"]
    assert {node["alias"] for node in kept} == {"best", "totals"}
    for node in kept:
        answer = connection.sql(node["compiled_code"].replace('"memory"."main".', ""))
        view = sa.open_view(project / "target" / "views", node["alias"])
        assert bag(view.to_arrow()) == bag(answer.arrow().read_all().cast(view.schema)), node[
            "alias"
        ]
