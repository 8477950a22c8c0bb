"""Views read over Spark Connect and by a declarative pipeline; each test starts its own JVM."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest

import substrait_agg as sa
from tests.checkpoint.stored import GOALS, unpacked

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"

PROGRAM = Path(sys.executable).with_name("spark-pipelines")

pytestmark = pytest.mark.soak


def call(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    """Run a program of this environment without settings of other tests."""
    own = {n: v for n, v in os.environ.items() if not n.startswith(("SPARK_", "PYSPARK_"))}
    return subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**own, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )  # fmt: skip


def test_views_are_read_over_spark_connect(tmp_path: Path) -> None:
    checkpoint = unpacked(GOALS, tmp_path)
    program = Path(__file__).with_name("connect_program.py")
    done = call(tmp_path, sys.executable, program, checkpoint, tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    view = sa.open_view(str(checkpoint))
    rows, changes = view.to_arrow(), view.changes()
    assert found["client"].startswith("pyspark.sql.connect")
    assert found["columns"] == list(view.names)
    assert counted(found["rows"]) == counted(rows.select(["team", "s"]).to_pylist())
    weights = changes.column("__weight").to_pylist()
    assert found["changes"] == [changes.num_rows, sum(weights)]
    assert "[VERSION_UNKNOWN]" in found["refused"]
    assert found["streamed"] == rows.num_rows


def counted(rows: list[dict[str, object]]) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in rows)


def test_a_pipeline_follows_a_view(tmp_path: Path) -> None:
    checkpoint = unpacked(GOALS, tmp_path)
    project = copied("view_pipeline", tmp_path, checkpoint)
    done = call(project, PROGRAM, "run", "--spec", "spark-pipeline.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = sa.open_view(str(checkpoint)).to_arrow().select(["team", "c", "s"]).to_pylist()
    tables = project / "spark-warehouse"
    assert counted(table(tables / "goals")) == counted(rows)
    changes = table(tables / "goal_changes")
    assert counted([{n: row[n] for n in ("team", "c", "s")} for row in changes]) == counted(rows)
    assert table(tables / "weights") == [{"version": 2, "rows": len(rows)}]


def test_a_view_is_the_source_of_an_auto_cdc_flow(tmp_path: Path) -> None:
    """Spark accepts the graph; a run needs a table format with MERGE, which Spark alone does not have."""
    project = copied("auto_cdc", tmp_path, unpacked(GOALS, tmp_path))
    done = call(project, PROGRAM, "dry-run", "--spec", "spark-pipeline.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    done = call(project, PROGRAM, "run", "--spec", "spark-pipeline.yml")
    assert "AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE" in done.stdout + done.stderr


def copied(name: str, folder: Path, checkpoint: Path) -> Path:
    """A project of the examples, with the paths of this test."""
    project = Path(shutil.copytree(EXAMPLES / name, folder / "project"))
    spec = project / "spark-pipeline.yml"
    text = spec.read_text().replace("/tmp/goals-checkpoint", str(checkpoint))
    spec.write_text(text.replace("/tmp/goals-pipeline", str(folder / "storage")))
    return project


def table(folder: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = ds.dataset(folder, format="parquet").to_table().to_pylist()
    return rows
