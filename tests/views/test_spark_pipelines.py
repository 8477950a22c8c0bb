"""The same folder of SQL gives the same tables in Spark's own pipelines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import substrait_agg as sa
from tests.local.run import run
from tests.views import brokerage
from tests.views.spark_pipelines import BATCHES

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
def test_spark_pipelines_make_the_same_tables(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.views.spark_pipelines", str(tmp_path / "spark"), "7"],
        cwd=ROOT, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    tables = json.loads(done.stdout.splitlines()[-1])
    world = brokerage.Brokerage(7)
    for number in range(BATCHES):
        brokerage.write(tmp_path, number, world.batch(40))
    given = brokerage.sources(tmp_path)
    plans = sa.sql_views(brokerage.PIPELINE, given)
    run(plans, given, checkpoint=tmp_path / "ckpt", outputs=["none"]).wait()
    assert tables.keys() == plans.keys() - plans.temporary
    for name, rows in tables.items():
        view = sa.open_view(tmp_path / "ckpt", name).to_arrow()
        assert sorted(repr(tuple(row.values())) for row in view.to_pylist()) == rows, name
