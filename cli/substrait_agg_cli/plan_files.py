"""Which plans a command line names: files, folders with plans in them, stdin."""

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
"""What plans in folders are called; a file that is named itself may be called anything."""

# A plan has relations, and JSON that is none has nothing of what only plans have.
_PLAN_KEY = re.compile(rb'"(?:relations|extensions|extension_?[uU]r[in]s)"\s*:')
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def read_plan(name: str) -> substrait_agg.Plan:
    """The plan in a file or on stdin, not decoded yet.

    Raises:
        UsageError: the file is not there or cannot be read.
    """
    from substrait_agg.plan.messages.source import MAX_PLAN_BYTES

    if name == STDIO:
        if sys.stdin is None:
            help = "pipe a plan into it, or give the path of a plan file"
            raise UsageError("FILE_NOT_READABLE", "stdin is closed", help=help, path=name)
        # One byte more than is read, so that an input without an end is refused and not waited for.
        return substrait_agg.Plan(STDIO, sys.stdin.buffer.read(MAX_PLAN_BYTES + 1))
    if not name:
        raise UsageError("FILE_NOT_FOUND", "the path is empty", help="give the path of a plan file")
    return substrait_agg.Plan.from_file(name)


def each_plan(names: tuple[str, ...]) -> Iterator[substrait_agg.Plan | UsageError]:
    """Every plan once, folders in the order of their paths; what cannot be read is an error in its place."""
    seen: set[str] = set()
    for name in names:
        for found in _plans_in(name) if is_folder(name) else (_read(name),):
            path = found.path if isinstance(found, UsageError) else found.name
            key = path if path == STDIO else os.path.normpath(Path(path).absolute())
            if key not in seen:
                seen.add(key)
                yield found


def is_folder(name: str) -> bool:
    """Whether plans are looked for in what is named so."""
    try:
        return bool(name) and Path(name).is_dir()
    except (OSError, ValueError):  # no path, or one too long: reading it says what is wrong
        return False


def _read(name: str) -> substrait_agg.Plan | UsageError:
    try:
        return read_plan(name)
    except UsageError as error:
        return error


def _plans_in(folder: str) -> Iterator[substrait_agg.Plan | UsageError]:
    found = False
    for name in _files(folder):
        plan = _read(name)
        if isinstance(plan, UsageError) or not _other_json(plan):
            found = True
            yield plan
    if not found:
        help = f"plans in folders end in {', '.join(sorted(SUFFIXES))}; name others themselves"
        yield UsageError("NO_PLAN_IN_FOLDER", "there is no plan in it", help=help, path=folder)


def _files(folder: str) -> list[str]:
    """Files with the suffix of a plan, in subfolders too; not those that are hidden."""
    found = []
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [
            str(Path(parent, name))
            for name in files
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith(".")
            if Path(parent, name).is_file()
        ]
    return sorted(found, key=lambda name: Path(name).parts)


def _other_json(plan: substrait_agg.Plan) -> bool:
    """Whether a file in a folder is JSON of another kind, such as a configuration; an empty one is none of any kind."""
    if not plan.name.lower().endswith(".json") or plan.content.startswith(_UTF16):
        return False
    if not plan.content.strip():
        return False
    return _PLAN_KEY.search(plan.content) is None
