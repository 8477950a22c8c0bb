"""Imports point one way between files and between folders, and a folder can be taken in at a glance."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "substrait_agg"
MOST_FILES = 14

Graph = Mapping[str, set[str]]


def modules() -> dict[str, Path]:
    """Name every module of the package, with its file."""
    files = sorted(PACKAGE.rglob("*.py"))
    names = (".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts) for file in files)
    return {name.removesuffix(".__init__"): file for name, file in zip(names, files, strict=True)}


MODULES = modules()


def imported(file: Path, known: Mapping[str, Path]) -> set[str]:
    """List the modules that a file imports, also those for annotations and those inside functions."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {member if member in known else node.module for member in members}
    return names & set(known)


@cache
def file_graph() -> Graph:
    return {name: imported(file, MODULES) - {name} for name, file in MODULES.items()}


def place(name: str) -> str:
    """Return the folder of a module; a module of the package itself counts as its own folder."""
    folder = MODULES[name].parent
    return name if folder == PACKAGE else str(folder.relative_to(PACKAGE))


def folder_graph() -> Graph:
    """Imports between folders. An ``__init__`` names what its folders offer, so it does not count."""
    graph: dict[str, set[str]] = {}
    for name, names in file_graph().items():
        if MODULES[name].name != "__init__.py":
            here = place(name)
            graph.setdefault(here, set()).update(place(other) for other in names)
            graph[here].discard(here)
    return graph


def cycle(graph: Graph) -> list[str]:
    """Return one cycle of a graph, empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_a_cycle_is_found() -> None:
    assert set(cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}


def test_no_two_files_import_each_other() -> None:
    graph = file_graph()
    assert sum(map(len, graph.values())) > len(graph)
    assert not cycle(graph)


def test_no_two_folders_import_each_other() -> None:
    graph = folder_graph()
    assert len(graph) > 30
    assert not cycle(graph)


def test_no_folder_is_a_heap() -> None:
    sizes = Counter(file.parent for file in MODULES.values())
    assert not {str(folder): count for folder, count in sizes.items() if count > MOST_FILES}
