"""Imports point one way, and Spark stays where it belongs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "substrait_agg"

LAYERS = (
    {
        "problem_kinds",
        "error_codes",
        "deferred_imports",
        "document_fields",
        "escape",
        "files",
        "redaction",
        "required",
    },
    {"errors", "problems", "notices", "optional_packages", "arguments"},
    {"connect"},
    {"plan"},
    {"functions"},
    {"bind"},
    {"flow"},
    {"refresh"},
    {"state"},
    {"evaluation"},
    {"explanation"},
    {"report"},
    {"checked_plan"},
    {"scripts"},
    {"operator"},
    {"commit"},
    {"metrics"},
    {"recompute", "runtime"},
    {"changes"},
    {"tools"},
    {"page"},
    {"run_options"},
    {"spark"},
    {"api"},
)
"""From the bottom up: a module may import its own layer and those below."""

LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
SPARK = {"pyspark", "py4j"}


def sources() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST, *, types_too: bool) -> Iterator[str]:
    """Full names of the modules imported; those in ``if TYPE_CHECKING`` blocks only on demand."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and not types_too:
            continue
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from (f"{node.module}.{name.name}" for name in node.names)
        yield from imports(node, types_too=types_too)


def id_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_module_has_a_layer() -> None:
    assert {layer_of(p) for p in sources()} == set(LEVEL)


@pytest.mark.parametrize("path", sources(), ids=id_of)
def test_imports_point_up_the_table(path: Path) -> None:
    level = LEVEL[layer_of(path)]
    for name in imports(ast.parse(path.read_text()), types_too=True):
        head, _, rest = name.partition(".")
        assert head != "substrait_agg_cli", f"{id_of(path)} imports the command line"
        if head == "substrait_agg":
            other = rest.split(".")[0]
            assert LEVEL.get(other, -1) <= level, f"{id_of(path)} imports {name}"


@pytest.mark.parametrize("path", [p for p in sources() if layer_of(p) != "spark"], ids=id_of)
def test_only_the_spark_folder_imports_spark(path: Path) -> None:
    found = {n.split(".")[0] for n in imports(ast.parse(path.read_text()), types_too=False)}
    assert not found & SPARK


def test_importing_the_package_loads_nothing_heavy() -> None:
    """No Spark, no Arrow, no protobuf: unused packages are not imported."""
    code = (
        "import sys, substrait_agg\n"
        "heavy = {'pyspark', 'py4j', 'pandas', 'pyarrow', 'numpy', 'google.protobuf'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=60)
