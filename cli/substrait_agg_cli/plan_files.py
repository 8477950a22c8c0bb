"""Find the plans of a command line: files, plans in folders, stdin."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import substrait_agg
from substrait_agg.errors import UsageError
from substrait_agg_cli.terminal import STDIO

SUFFIXES = frozenset((".bin", ".binpb", ".json", ".pb", ".plan", ".protobin", ".substrait"))
"""Suffixes of plans in folders. A file that is named explicitly may have any suffix."""

# A key that every plan in JSON contains and other JSON documents do not.
_PLAN_KEY = re.compile(rb'"(?:relations|extensions|extension_?[uU]r[in]s)"\s*:')
_SQL = re.compile(r"\s*(select|with|create|--)\s", re.IGNORECASE)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def read_plan(name: str) -> substrait_agg.Plan:
    """Read the plan in a file or on stdin, without decoding it.

    Raises:
        UsageError: the file does not exist, cannot be read, or has SQL text.
    """
    if not name:
        raise UsageError("FILE_NOT_FOUND", "the path is empty", help="give the path of a plan file")
    try:
        plan = (
            substrait_agg.Plan(STDIO, stdin_bytes())
            if name == STDIO
            else substrait_agg.Plan.from_file(name)
        )
    except UsageError as error:
        if error.code == "FILE_NOT_FOUND" and _SQL.match(name):
            error.help = "this is SQL text, not the name of a file: give it with --query"
        raise
    if _SQL.match(plan.content[:100].decode("utf-8-sig", "replace")):
        message, help = "this is SQL text, not a plan", f"give it with --sql {name}"
        raise UsageError("FILE_NOT_READABLE", message, help=help, path=name)
    return plan


def stdin_bytes() -> bytes:
    """Return the content of stdin, up to one byte more than the largest plan.

    Raises:
        UsageError: stdin is closed.
    """
    from substrait_agg.plan.messages.source import MAX_PLAN_BYTES

    if sys.stdin is None:
        help = "pipe a plan to stdin, or give the path of a plan file"
        raise UsageError("FILE_NOT_READABLE", "stdin is closed", help=help, path=STDIO)
    # Read one byte more than allowed, so that an endless input is refused.
    return sys.stdin.buffer.read(MAX_PLAN_BYTES + 1)


def each_plan(names: tuple[str, ...]) -> Iterator[substrait_agg.Plan | UsageError]:
    """Yield every plan once, folders in the order of their paths.

    Yield an error for an unreadable file.
    """
    seen: set[str] = set()
    for name in names:
        for plan in _plans_in(name) if is_folder(name) else (_read(name),):
            path = plan.path if isinstance(plan, UsageError) else plan.name
            key = path if path == STDIO else os.path.normpath(Path(path).absolute())
            if key not in seen:
                seen.add(key)
                yield plan


def is_folder(name: str) -> bool:
    """Return whether `name` is a folder."""
    try:
        return bool(name) and Path(name).is_dir()
    except (OSError, ValueError):  # not a path, or too long: reading it reports the error
        return False


def _read(name: str) -> substrait_agg.Plan | UsageError:
    try:
        return read_plan(name)
    except UsageError as error:
        return error


def _plans_in(folder: str) -> Iterator[substrait_agg.Plan | UsageError]:
    any_plan = False
    for name in _files(folder):
        plan = _read(name)
        if isinstance(plan, UsageError) or not _other_json(plan):
            any_plan = True
            yield plan
    if not any_plan:
        help = f"plans in folders end in {', '.join(sorted(SUFFIXES))}; name other files directly, and give a folder of SQL with --sql"
        yield UsageError("NO_PLAN_IN_FOLDER", "the folder contains no plan", help=help, path=folder)


def _files(folder: str) -> list[str]:
    """Return the files with the suffix of a plan, also in subfolders, except hidden ones."""
    names = []
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names += [
            str(Path(parent, name))
            for name in files
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith(".")
            if Path(parent, name).is_file()
        ]
    return sorted(names, key=lambda name: Path(name).parts)


def _other_json(plan: substrait_agg.Plan) -> bool:
    """Return whether a file is JSON of another kind, such as a configuration.

    An empty file is not.
    """
    if not plan.name.lower().endswith(".json") or plan.content.startswith(_UTF16):
        return False
    if not plan.content.strip():
        return False
    return _PLAN_KEY.search(plan.content) is None
