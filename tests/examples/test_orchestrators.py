"""The SQLMesh and Airflow projects, each run by its program in its own environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from tests.examples.environments import installed

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

SQLMESH = ("sqlmesh>=0.236,<0.240",)
AIRFLOW = ("apache-airflow>=3.0,<4",)

BATCHES: list[list[tuple[str, int | None]]] = [
    [("a", 2), ("b", 1), ("a", None)],
    [("b", 4), ("c", 0)],
]
TOTALS = [
    {("a", 1, 2), ("b", 1, 1)},
    {("a", 1, 2), ("b", 2, 5), ("c", 1, 0)},
]
BEST = [{(2,)}, {(5,)}]

pytestmark = pytest.mark.soak


def write(folder: Path, number: int) -> None:
    """Write the rows of a batch."""
    home, goals = zip(*BATCHES[number], strict=True)
    folder.mkdir(exist_ok=True)
    table = pa.table({"home": pa.array(home), "goals": pa.array(goals, pa.int64())})
    pq.write_table(table, folder / f"{number}.parquet")


def call(folder: Path, settings: dict[str, object], *command: object) -> str:
    """Run a program that finds substrait-agg in this environment, and return its output."""
    program = Path(sys.executable).with_name("substrait-agg")
    own = {**os.environ, "SUBSTRAIT_AGG": str(program)} | {n: str(v) for n, v in settings.items()}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder, env=own, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def rows(table: pa.Table) -> set[tuple[object, ...]]:
    return {tuple(row.values()) for row in table.to_pylist()}


def test_models_of_sqlmesh_are_maintained_by_changes(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    program = installed(tmp_path_factory.mktemp("sqlmesh"), *SQLMESH) / "sqlmesh"
    project = Path(shutil.copytree(EXAMPLES / "sqlmesh", tmp_path / "project"))
    for number, day in enumerate(("2026-01-02", "2026-01-03")):
        write(project / "matches", number)
        plan = ("plan", "--run", "--auto-apply", "--no-prompts", "--execution-time", day)
        call(project, {}, program, *plan)
        script = (
            "import sys, pathlib; from sqlmesh import Context; import json\n"
            "context = Context(paths='.')\n"
            "read = lambda t: context.fetchdf(f'SELECT * FROM main.{t}').values.tolist()\n"
            "print(json.dumps([read('totals'), read('best')]))"
        )
        totals, best = map(
            as_rows, last_json(call(project, {}, program.with_name("python"), "-c", script))
        )
        assert totals == TOTALS[number]
        assert best == BEST[number]
    checkpoints = sorted((project / "views").glob("*/checkpoint"))
    assert len(checkpoints) == 2, "a later run continues the checkpoint of a model"
    for checkpoint in checkpoints:
        assert sa.open_view(checkpoint).version == 2


def last_json(text: str) -> list[list[list[object]]]:

    found: list[list[list[object]]] = json.loads(text.splitlines()[-1])
    return found


def as_rows(found: list[list[object]]) -> set[tuple[object, ...]]:
    return set(map(tuple, found))


def test_a_dag_of_airflow_maintains_views(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    program = installed(tmp_path_factory.mktemp("airflow"), *AIRFLOW) / "airflow"
    dags = Path(shutil.copytree(EXAMPLES / "airflow" / "dags", tmp_path / "dags"))
    settings: dict[str, object] = {
        "AIRFLOW_HOME": tmp_path / "home",
        "AIRFLOW__CORE__DAGS_FOLDER": dags,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "GOALS_DATA": tmp_path,
    }
    call(tmp_path, settings, program, "db", "migrate")
    for number in range(len(BATCHES)):
        write(tmp_path / "matches", number)
        log = call(tmp_path, settings, program, "dags", "test", "goals")
        assert f"version {number + 1} of the views is in {tmp_path}/views" in log
        for name, expected in (("totals", TOTALS), ("best", BEST)):
            assert rows(pq.read_table(tmp_path / "views" / name / "view.parquet")) == expected[number]  # fmt: skip
            assert rows(sa.open_view(tmp_path / "checkpoint", name).to_arrow()) == expected[number]
