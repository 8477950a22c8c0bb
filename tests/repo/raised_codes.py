"""Find every code that the source can give to a problem or an error, by the arguments named
``code``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from substrait_agg import errors

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"[A-Z]+(?:_[A-Z]+)*")
IN_SPARK = re.compile(r"^\[([A-Z]+(?:_[A-Z]+)*)\] ")
"""How an expression of Spark carries a code in the text that it fails with."""

ERRORS = frozenset(
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.SubstraitAggError)
)


def raised_codes() -> dict[str, str]:
    """Code -> a place where it is given, of the package and the command."""
    folders = (ROOT / "substrait_agg", ROOT / "cli")
    modules = {path: ast.parse(path.read_text()) for f in folders for path in f.rglob("*.py")}
    takers = _takers(modules.values())
    found: dict[str, str] = {}
    for path, tree in sorted(modules.items()):
        for node in ast.walk(tree):
            for code in _codes(node, takers):
                found.setdefault(code, f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}")
    return found


def _takers(trees: Iterable[ast.Module]) -> dict[str, int]:
    """Functions and classes with a parameter named ``code`` -> its position among the arguments."""
    takers = dict.fromkeys(ERRORS, 0)
    for tree in trees:
        for node in ast.walk(tree):
            owner = node.name if isinstance(node, ast.ClassDef) else ""
            for item in ast.iter_child_nodes(node):
                if isinstance(item, ast.FunctionDef):
                    names = [a.arg for a in item.args.args]
                    if "code" in names:
                        name = owner if item.name == "__init__" else item.name
                        takers[name] = names.index("code") - (names[0] == "self")
    return takers


def _codes(node: ast.AST, takers: dict[str, int]) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from IN_SPARK.findall(node.value)
    elif isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else None
        called = node.func.id if isinstance(node.func, ast.Name) else called
        at = takers.get(called or "")
        if at is not None:
            yield from _words(node.args[at : at + 1])
            yield from _words(k.value for k in node.keywords if k.arg == "code")
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _assigned(target, node.value)


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name) and target.id == "code":
        yield from _words([value])
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for inner, given in zip(target.elts, value.elts, strict=False):
            yield from _assigned(inner, given)


def _words(values: Iterable[ast.expr]) -> Iterator[str]:
    """The codes among literals, also of a choice between two."""
    for value in values:
        if isinstance(value, ast.IfExp):
            yield from _words([value.body, value.orelse])
        elif isinstance(value, ast.Constant) and CODE.fullmatch(str(value.value)):
            yield str(value.value)
