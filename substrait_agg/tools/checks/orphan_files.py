"""Report files that do not belong to a checkpoint, and unfinished files."""

from __future__ import annotations

import re

from substrait_agg.commit.documents.file_names import KEPT_REVISION, version_of
from substrait_agg.commit.documents.plan_document import PLAN
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.locking import LOCK
from substrait_agg.commit.log.reader import ROLLBACK
from substrait_agg.commit.log.retention import KEPT
from substrait_agg.commit.log.settings import SETTINGS
from substrait_agg.files.filesystem import filesystem
from substrait_agg.files.locations import Location
from substrait_agg.tools.checks.findings import FindingCollector

_KNOWN: dict[str, re.Pattern[str]] = {
    "": re.compile(
        "|".join(
            (*map(re.escape, (PLAN, KEPT, SETTINGS, LOCK, ROLLBACK)), r"plan-[0-9a-f]{64}\.json")
        )
    ),
    "snapshots": re.compile(r"\d{20}\.json"),
    "state": re.compile(r"(group|pending|closed|files|tree\d+)-\d+-\d{12}-[0-9a-f]{32}\.arrow"),
    "changes": re.compile(r"\d{12}-(\d+|late|bad|input)-[0-9a-f]{32}\.parquet"),
    "owners": re.compile(r"\d{12}\.json|lease\.json|lock"),
    "outputs": re.compile(r"[A-Za-z0-9_.-]+\.json"),
}
"""Names of the files that belong to each folder."""

_KNOWN_IN_STORES: dict[str, re.Pattern[str]] = {
    "": re.compile("|".join((*map(re.escape, (PLAN, SETTINGS, ROLLBACK)), KEPT_REVISION.pattern))),
}
"""The same for a checkpoint in a store."""

_FOLDERS = ("snapshots", "state", "changes", "outputs", "owners")
_DRAFT = re.compile(r"(draft|probe)-[0-9a-f]{32}|\..*\.tmp")


def drafts(checkpoint: Checkpoint) -> list[str]:
    """Return the unfinished files that a kill left, by their paths below the checkpoint.

    An active run may still write some of them.
    """
    return sorted(
        f"{folder}/{name}" if folder else name
        for folder in ("", "snapshots", "outputs", "owners")
        for name in filesystem().names(_folder(checkpoint, folder))
        if _DRAFT.fullmatch(name)
    )


def _folder(checkpoint: Checkpoint, name: str) -> Location:
    return checkpoint.folder / name if name else checkpoint.folder


def report_orphan_files(checkpoint: Checkpoint, findings: FindingCollector) -> None:
    """Report every unknown or unfinished file, and an unfinished rollback."""
    left = drafts(checkpoint)
    for draft in left:
        help = "no action is needed: state vacuum deletes it"
        findings.note("FILE_LEFT_OVER", draft, "it is incomplete", help)
    patterns = _KNOWN if not checkpoint.root.is_remote else _KNOWN | _KNOWN_IN_STORES
    for folder, pattern in patterns.items():
        base = _folder(checkpoint, folder)
        files = set(filesystem().names(base))
        for name in filesystem().names(base, folders=True):
            path = f"{folder}/{name}" if folder else name
            inside = not folder and name not in files and name in _FOLDERS
            if inside or path in left or pattern.fullmatch(name):
                continue
            if folder in ("state", "changes") and version_of(name) is not None:
                continue
            help = "it is not used; move it away if you know where it comes from"
            findings.note("FILE_UNKNOWN", path, "this file does not belong to the checkpoint", help)
    if checkpoint.root.exists(ROLLBACK):
        help = "run the same state rollback again: it continues where it stopped"
        findings.fault(
            "ROLLBACK_UNFINISHED", ROLLBACK, "a rollback was started and not finished", help
        )
