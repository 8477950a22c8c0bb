"""The lists of CONTRIBUTING.md lead to the places that a new part needs, and to no others."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.plans import Builder, aggregate, column, read

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PATH = re.compile(
    r"`((?:substrait_agg|cli|benchmarks|tests|docs|plan|bind)/[\w./]*)`|python ([\w./]+\.py)"
)
NEW = """
    AggregateFunction(
        "grand_total", "sum", (NUMBER,), "sum", (), DUCKDB, options=OVERFLOW, order_by=ORDER_FREE,
    ),
"""

NEW_SCALAR = """
    _strings("sounds", "text", fails="never", spark="soundex"),
"""

NEW_KERNEL = """
    "sounds": (Kernel(_is_text, lambda args: args[0]),),
"""

CHECK_SCALAR = """
from substrait_agg.bind.bound import Call, Column
from substrait_agg.bind.joins.failing import can_fail
from substrait_agg.evaluation.expressions import supports
from substrait_agg.plan.types import STRING
from substrait_agg.spark.functions.table import BUILDERS
call = Call(STRING, "sounds", (Column(STRING, 0),))
print("sounds" in BUILDERS, can_fail(call), supports(call))
"""

CHECK = """
import json, sys
import substrait_agg as sa
plan, copy = sys.argv[1:]
assert sa.__file__.startswith(copy), sa.__file__
report = sa.validate(plan)
print(json.dumps([[p.code for p in report.problems if p.level == "error"], sa.explain(plan)]))
"""


def named() -> list[str]:
    """The files and folders that the page names; a path without its first folder is in the package."""
    paths = {a or b for a, b in PATH.findall(TEXT)} - {""}
    return sorted(paths)


def test_it_names_places() -> None:
    assert len(named()) > 15


@pytest.mark.parametrize("path", named())
def test_what_it_names_exists(path: str) -> None:
    """With CODE for the code of a problem."""
    if path.endswith("CODE.json"):
        assert list((ROOT / path).parent.glob("*.json"))
        return
    assert any((folder / path).exists() for folder in (ROOT, ROOT / "substrait_agg"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the program to add things to."""
    for source in ("substrait_agg", "cli/substrait_agg_cli"):
        shutil.copytree(
            ROOT / source, tmp_path / source, ignore=shutil.ignore_patterns("__pycache__")
        )
    return tmp_path


def python(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the program of the copy."""
    environment = {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{copy / 'cli'}"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip


def insert(copy: Path, before: str, text: str, name: str = "functions/aggregates/sums.py") -> None:
    """Insert a row before the first one of a table of functions."""
    path = copy / "substrait_agg" / name
    content = path.read_text()
    assert content.count(before) == 1
    path.write_text(content.replace(before, before + text))


def plan(folder: Path) -> Path:
    """A plan of DuckDB with the new function over a table."""
    builder = Builder()
    measure = builder.measure("grand_total", (column(1), "i64"), output="i64")
    root = aggregate(read("t", {"k": "string", "x": "i64"}), [column(0)], [measure])
    text = json.loads(builder.plan(root, "k", "total"))
    text["version"] = {"minorNumber": 53, "producer": "DuckDB"}
    text.pop("extensionUrns")  # DuckDB names no extension
    for extension in text["extensions"]:
        extension["extensionFunction"].pop("extensionUrnReference")
    path = folder / "plan.json"
    path.write_text(json.dumps(text))
    return path


def test_a_row_is_all_that_a_function_of_an_existing_kind_needs(copy: Path) -> None:
    """Validation, explanation, the list of functions and the dialect know it; without the row none of them does."""
    path = plan(copy)
    before = python(copy, "-m", "substrait_agg_cli.main", "functions", "grand_total")
    assert before.returncode == 2, before.stdout
    insert(copy, "SUMS = (", NEW)
    run = python(copy, "-c", CHECK, str(path), str(copy))
    assert run.returncode == 0, run.stderr
    errors, explained = json.loads(run.stdout)
    assert errors == []
    assert "from sum(x)" in explained, "it is computed as the kind says"
    listed = python(copy, "-m", "substrait_agg_cli.main", "functions", "--format", "json")
    rows = {row["name"]: row for row in json.loads(listed.stdout)["aggregate_functions"]}
    assert rows["grand_total"]["state"] == rows["sum"]["state"]
    page = python(copy, "-m", "substrait_agg_cli.main", "functions", "grand_total")
    assert page.returncode == 0, page.stderr
    assert "OVERFLOW" in page.stdout


def test_a_row_and_a_kernel_are_all_that_a_scalar_function_of_spark_needs(copy: Path) -> None:
    insert(
        copy, "_ROWS: tuple[ScalarFunction, ...] = (", NEW_SCALAR, "functions/scalars/catalogue.py"
    )
    insert(copy, "TEXT: Kernels = {", NEW_KERNEL, "evaluation/texts.py")
    run = python(copy, "-c", CHECK_SCALAR)
    assert run.stdout.split() == ["True", "False", "True"], run.stderr
    page = python(copy, "-m", "substrait_agg_cli.main", "functions", "sounds")
    assert page.returncode == 0, page.stderr


def test_a_kind_without_its_rows_stops_the_import(copy: Path) -> None:
    """A kind that is missing from a table is an error at import, as the page says."""
    path = copy / "substrait_agg" / "functions" / "aggregates" / "kinds.py"
    path.write_text(
        path.read_text().replace(
            'MeasureKind = OneOf[\n    "count",', 'MeasureKind = OneOf[\n    "spread", "count",'
        )
    )
    run = python(copy, "-c", "import substrait_agg.functions.aggregates.catalogue")
    assert run.returncode == 1
    assert "spread" in run.stderr.splitlines()[-1]
