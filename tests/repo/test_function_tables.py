"""Facts of scalar functions are in their rows: no other table lists functions by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from substrait_agg.evaluation.expressions import KERNELS, LAZY
from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.spark.functions.table import BUILDERS, HIGHER_ORDER

ROOT = Path(__file__).parents[2]
PACKAGE, PAGE = ROOT / "substrait_agg", ROOT / "docs" / "functions.md"

ENGINES = ("evaluation", "spark/functions")
"""Folders with the kernels on Arrow and the builders of columns of Spark."""

MOST = 3
"""Most names of functions in a set or mapping elsewhere."""


def tables(tree: ast.AST) -> Iterator[set[str]]:
    """The names of functions in each set, mapping, list or tuple that is written out."""
    for node in ast.walk(tree):
        parts: Sequence[ast.expr | None] = ()
        if isinstance(node, ast.Dict):
            parts = node.keys
        elif isinstance(node, ast.Set | ast.List | ast.Tuple):
            parts = node.elts
        words = {p.value for p in parts if isinstance(p, ast.Constant)}
        if words:
            yield {name for name in SCALARS if name in words}


def elsewhere() -> list[Path]:
    engines = [PACKAGE / folder for folder in ENGINES]
    return [
        p for p in sorted(PACKAGE.rglob("*.py")) if not any(p.is_relative_to(e) for e in engines)
    ]


def test_no_table_elsewhere_lists_functions() -> None:
    found = [
        (str(path.relative_to(PACKAGE)), sorted(names))
        for path in elsewhere()
        for names in tables(ast.parse(path.read_text()))
        if len(names) > MOST
    ]
    assert found == [], "make it a fact of the row in functions/scalars/catalogue.py"


def test_a_table_by_name_is_found() -> None:
    source = 'SAFE = frozenset({"equal", "lt", "and", "concat"})\nNONE = {"left": 1, "right": 2}'
    assert {len(names) for names in tables(ast.parse(source))} == {2, 4}


def test_every_row_has_a_builder_and_every_kernel_a_row() -> None:
    assert set(BUILDERS) | set(HIGHER_ORDER) == set(SCALARS)
    assert not set(BUILDERS) & set(HIGHER_ORDER)
    assert set(KERNELS) | set(LAZY) <= set(SCALARS)
    assert not set(KERNELS) & set(LAZY)


def test_a_function_without_a_kernel_is_documented_as_one_of_spark_only() -> None:
    _, _, after = PAGE.read_text().partition("<!-- spark only -->")
    named = set(re.findall(r"`(\w+)`", after.partition("<!--")[0]))
    assert named == set(SCALARS) - set(KERNELS) - set(LAZY)


def test_facts_of_rows_agree() -> None:
    """A symbol and a comparison belong to one function only, so each can be found by it."""
    symbols = [row.symbol for row in SCALARS.values() if row.symbol]
    signs = [frozenset(row.true_for) for row in SCALARS.values() if row.true_for]
    assert len(set(symbols)) == len(symbols)
    assert len(set(signs)) == len(signs)
    assert all(frozenset(-sign for sign in of) in signs for of in signs)
