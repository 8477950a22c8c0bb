"""Nothing touches the file system past the seam (`substrait_agg/files/filesystem.py`), so the crash matrix sees every operation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "substrait_agg"

EXCEPTIONS = {
    "files/filesystem.py": "the seam itself",
    "files/object_store.py": "the seam where a checkpoint lies in a store",
    "files/download_cache.py": "copies of what a store has: nothing is lost with them, and nothing rests on them",
    "files/atomic_files.py": "opens what the seam creates; writes to a pipe or a device that somebody else made",
    "commit/documents/files.py": "opens what the seam creates or maps",
    "commit/tasks/join_rows.py": "counts of a batch in progress, for its tasks alone",
    "runtime/join_watch.py": "the file of these counts",
    "commit/tasks/spill.py": "rows set aside on local disk within a task; gone with it",
    "changes/outputs/outputs.py": "opens a pipe or a device as a stream of text",
    "metrics/files.py": "the file of metrics is no part of a checkpoint, and a run goes on without it",
    "plan/messages/source.py": "reads plans, before there is a checkpoint",
    "report/html/page.py": "reads what is part of the package",
    "page/rendering.py": "reads what is part of the package",
    "report/problem_pages.py": "reads what is part of the package",
    "operator/measures/hyperloglog.py": "reads what is part of the package",
    "functions/windows.py": "reads what is part of the package",
    "functions/signatures/declarations.py": "reads what is part of the package",
    "connect/spool.py": "rows set aside on local disk within a read of a source; gone with it",
    "connect/delta/source.py": "reads files of sources",
    "changes/outputs/postgres_sink.py": "renames columns of a table in a database",
    "spark/inputs/table_batch.py": "calls the open method of a reader of sources, which are no part of a checkpoint",
    "spark/sources/files.py": "lists files of sources",
    "spark/positions/listing.py": "lists files of sources",
    "spark/positions/spark_streams.py": "a folder of a query, made anew from a version: nothing is lost with it",
    "spark/query/recompute.py": "a checkpoint that is compared and deleted: nothing is lost with it",
    "spark/inputs/static_content.py": "reads files of sources",
    "spark/catalyst/jvm.py": "reads what is part of the package",
    "scripts/pipeline.py": "reads SQL files, before there is a checkpoint",
    "scripts/project.py": "reads SQL files, before there is a checkpoint",
    "api/numpy_features.py": "looks at the processor and for numpy",
    "spark/session/java.py": "looks for Java",
    "spark/session/class_archive.py": "classes for the start of Spark: nothing is lost with them",
    "spark/execution/worker_python.py": "looks for a Python",
    "commit/log/locking.py": "a lock of the operating system, which says nothing when its process is gone",
    "tools/rollback/sinks.py": "a state command, alone with the checkpoint; begun and not finished, it goes on where it was",
}
"""Modules that do, and why that is no crash point of a checkpoint."""

OF_OS = {
    "open", "link", "rename", "replace", "unlink", "remove", "rmdir", "mkdir", "makedirs", "fsync",
    "truncate", "ftruncate", "scandir", "listdir", "pwrite", "write", "symlink", "stat",
}  # fmt: skip
OF_PATHS = {
    "unlink", "mkdir", "write_text", "write_bytes", "read_text", "read_bytes", "rmdir", "touch",
    "iterdir", "glob", "rglob", "hardlink_to", "symlink_to", "rename", "truncate", "open", "chmod",
}  # fmt: skip
OF_ARROW = {"OSFile", "memory_map", "LocalFileSystem"}
MODULES = {"tempfile", "shutil"}


def operations(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines and names of the calls that touch the file system."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := _touches(node)):
            yield node.lineno, name


def _touches(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Name):
        return "open" if function.id == "open" else ""
    if not isinstance(function, ast.Attribute):
        return ""
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    name = function.attr
    if owner == "os":
        return f"os.{name}" if name in OF_OS else ""
    if owner in MODULES or name in OF_ARROW:
        return f"{owner}.{name}"
    if isinstance(function.value, ast.Call) and _is_seam(function.value):
        return ""
    # A path takes one name to replace another; texts and dataclasses take more, or names.
    replaces = name == "replace" and len(call.args) == 1 and not call.keywords
    return f".{name}" if replaces or (name in OF_PATHS and owner not in ("self", "cls")) else ""


def _is_seam(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "filesystem"


def found(path: Path) -> list[str]:
    return [f"{path.name}:{line} {name}" for line, name in operations(ast.parse(path.read_text()))]


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_seam_touches_files(path: Path) -> None:
    """Another module calls `filesystem()`, or is an exception with a reason."""
    if str(path.relative_to(PACKAGE)) not in EXCEPTIONS:
        assert found(path) == []


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_exceptions_are_needed(name: str) -> None:
    """A module that has stopped doing it is taken off the list."""
    assert found(PACKAGE / name)


@pytest.mark.parametrize(
    "code",
    [
        "open(p)",
        "os.link(a, b)",
        "p.unlink()",
        "p.replace(q)",
        "tempfile.mkstemp()",
        "pa.OSFile(p)",
    ],
)
def test_what_touches_files_is_recognised(code: str) -> None:
    """The check can fail."""
    assert list(operations(ast.parse(code)))
    assert not list(operations(ast.parse("filesystem().replace(a, b)\n'x'.replace('a', 'b')")))
