"""A file has its only reader beside it only if docs/architecture.md says which other thing it is."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "substrait_agg"
SECTION = "## Files that one other file reads\n"


def modules_read(path: Path) -> set[str]:
    """Names that a file imports: of modules, and of what is in them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@cache
def read_beside() -> frozenset[str]:
    """Files whose only reader is in the same folder. What an ``__init__.py`` passes on, it does not read."""
    readers = defaultdict(set)
    for folder in (PACKAGE, ROOT / "cli"):
        for path in folder.rglob("*.py"):
            for name in modules_read(path) if path.name != "__init__.py" else ():
                readers[name].add(path)
    files = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")]
    names = {file: ".".join(("substrait_agg", *file.with_suffix("").parts)) for file in files}
    return frozenset(
        file.as_posix()
        for file, name in names.items()
        if [reader.parent for reader in readers[name]] == [PACKAGE / file.parent]
    )


def documented() -> list[str]:
    """Patterns of files in the first column of the table."""
    section = (ROOT / "docs/architecture.md").read_text().split(SECTION)[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return [pattern for cell in cells for pattern in re.findall(r"`(.*?)`", cell)]


def test_every_such_file_is_documented() -> None:
    patterns = documented()
    assert not [f for f in sorted(read_beside()) if not any(fnmatchcase(f, p) for p in patterns)]


def test_every_entry_is_of_such_a_file() -> None:
    assert not [p for p in documented() if not any(fnmatchcase(f, p) for f in read_beside())]
