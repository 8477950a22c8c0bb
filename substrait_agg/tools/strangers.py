"""Files in a checkpoint that nothing here writes, or that something left half written."""

from __future__ import annotations

import re
from pathlib import Path

from substrait_agg.commit.locking import LOCK
from substrait_agg.commit.retention import KEPT, version_of
from substrait_agg.commit.settings import SETTINGS
from substrait_agg.commit.store import PLAN, ROLLBACK, Checkpoint
from substrait_agg.tools.findings import Findings

_KNOWN: dict[str, re.Pattern[str]] = {
    "": re.compile(
        "|".join(
            (*map(re.escape, (PLAN, KEPT, SETTINGS, LOCK, ROLLBACK)), r"plan-[0-9a-f]{64}\.json")
        )
    ),
    "snapshots": re.compile(r"\d{20}\.json"),
    "state": re.compile(r"(group|pending|closed|tree\d+)-\d+-\d{12}-[0-9a-f]{32}\.arrow"),
    "changes": re.compile(r"\d{12}-(\d+|late)-[0-9a-f]{32}\.parquet"),
    "owners": re.compile(r"\d{12}\.json|lock"),
    "outputs": re.compile(r"[A-Za-z0-9_.-]+\.json"),
}
"""Names of the files in each folder that belong there."""

_FOLDERS = ("snapshots", "state", "changes", "outputs", "owners", "spark")
_DRAFT = re.compile(r"draft-[0-9a-f]{32}|\..*\.tmp")


def drafts(checkpoint: Checkpoint) -> list[Path]:
    """Files that a kill left half written; while a run goes on, one may be under way."""
    folders = [
        checkpoint.folder,
        *(checkpoint.folder / name for name in ("snapshots", "outputs", "owners")),
    ]
    return sorted(
        path
        for folder in folders
        if folder.is_dir()
        for path in folder.iterdir()
        if path.is_file() and _DRAFT.fullmatch(path.name)
    )


def note_strangers(checkpoint: Checkpoint, found: Findings) -> None:
    """Note every file that is not one of a checkpoint, or that is not whole."""
    left = {path.relative_to(checkpoint.folder).as_posix() for path in drafts(checkpoint)}
    for draft in sorted(left):
        help = "nothing to do; state vacuum deletes it"
        found.note("FILE_LEFT_OVER", draft, "it was never finished", help)
    for folder, known in _KNOWN.items():
        base = checkpoint.folder / folder
        for path in sorted(base.iterdir()) if base.is_dir() else ():
            name = path.relative_to(checkpoint.folder).as_posix()
            inside = not folder and path.is_dir() and path.name in _FOLDERS
            if inside or name in left or known.fullmatch(path.name):
                continue
            if folder in ("state", "changes") and version_of(path.name) is not None:
                continue
            help = "it is not used; move it away if you know where it comes from"
            found.note("FILE_UNKNOWN", name, "this is no file of a checkpoint", help)
    if (checkpoint.folder / ROLLBACK).exists():
        help = "run the same state rollback again: it goes on where it was"
        found.fault("ROLLBACK_UNFINISHED", ROLLBACK, "a rollback was begun and not finished", help)
