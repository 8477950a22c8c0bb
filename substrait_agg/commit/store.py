"""A checkpoint folder: its plan document, its versions, publishing the next one, sweeping what no version names.

Layout: ``plan.json`` (what is computed), ``snapshots/<version>.json`` (the commits), ``state/`` (runs), ``changes/`` (change
files), ``spark/`` (Spark's own offsets and commits).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from substrait_agg.commit.differences import check_same
from substrait_agg.commit.document import (
    PLAN,
    Guarded,
    PlanDocument,
    ViewColumn,
    ViewSort,
    document_bytes,
    new_identity,
    parse_document,
)
from substrait_agg.commit.files import LocalFiles, is_draft
from substrait_agg.commit.sealed import seal, unseal
from substrait_agg.commit.snapshot import (
    FORMAT,
    Snapshot,
    damaged,
    parse_snapshot,
    snapshot_name,
)
from substrait_agg.errors import CommitConflict, StateRefused

__all__ = [
    "KEEP_VERSIONS",
    "Checkpoint",
    "Guarded",
    "PlanDocument",
    "ViewColumn",
    "ViewSort",
    "state_files",
]

KEEP_VERSIONS = 10
"""Versions whose state is kept, the newest included; change files are kept for all versions."""


class Checkpoint:
    """One checkpoint folder.

    Args:
        folder: its path; nothing is created before `create`.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self._root = LocalFiles(self.folder)
        self._snapshots = LocalFiles(self.folder / "snapshots")
        self.state = LocalFiles(self.folder / "state")
        self.changes = LocalFiles(self.folder / "changes")
        self._outputs = LocalFiles(self.folder / "outputs")
        self._spark = LocalFiles(self.folder / "spark")

    @property
    def spark_folder(self) -> str:
        """Where Spark keeps the offsets and commits of its streaming query."""
        return str(self.folder / "spark")

    def exists(self) -> bool:
        """Whether the folder holds a checkpoint."""
        return self._root.exists(PLAN)

    def check_usable(self) -> None:
        """Refuse a folder that is something else.

        Raises:
            StateRefused: NOT_A_CHECKPOINT when it has content but no plan document; STATE_DAMAGED when it has versions.
        """
        if self.exists():
            return
        if self.folder.exists() and not self.folder.is_dir():
            raise self._not_a_checkpoint("this is not a folder")
        if self._snapshots.names():
            raise damaged(PLAN, "it is missing, and there are versions")
        if self.folder.is_dir() and any(not is_draft(p.name) for p in self.folder.iterdir()):
            raise self._not_a_checkpoint("this folder is not empty and holds no checkpoint")

    def create(self, document: PlanDocument) -> None:
        """Create the folder with its plan document, or check that the one there is the same.

        Raises:
            StateRefused: PLAN_DIFFERS, KEYS_DIFFER, WEIGHTS_DIFFER, EARLY_RETRACTION_DIFFERS, WATERMARK_DIFFERS or TTL_DIFFERS
                when the folder was made for something else.
        """
        self.check_usable()
        # The document comes first: folders without one would be no checkpoint, should the run be killed here.
        self._root.make()
        theirs = not self._root.publish(PLAN, document_bytes(document, new_identity()))
        for files in (self._snapshots, self.state, self.changes, self._outputs, self._spark):
            files.make()
        if theirs:
            self._check_same(document)

    def check(self, document: PlanDocument) -> None:
        """As `create`, without writing anything."""
        self.check_usable()
        if self.exists():
            self._check_same(document)

    def _check_same(self, document: PlanDocument) -> None:
        check_same(self.document(), document, str(self.folder))

    def document(self) -> PlanDocument:
        """The plan document.

        Raises:
            StateRefused: NOT_A_CHECKPOINT, STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        return self._identified()[1]

    @cached_property
    def identity(self) -> str:
        """The id of the checkpoint: given when it is begun, and in every document that belongs to it.

        Raises:
            StateRefused: as `document`.
        """
        return self._identified()[0]

    def _identified(self) -> tuple[str, PlanDocument]:
        self.check_usable()
        if not self.exists():
            raise self._not_a_checkpoint("this is not a checkpoint folder")
        return parse_document(self._root.read(PLAN))

    def _not_a_checkpoint(self, reason: str) -> StateRefused:
        return StateRefused(
            "NOT_A_CHECKPOINT",
            reason,
            help="name the folder given to run --checkpoint, or an empty or new folder to begin one",
            path=str(self.folder),
        )

    def versions(self) -> list[int]:
        """All committed versions that are kept, ascending and without gaps.

        Raises:
            StateRefused: STATE_DAMAGED where one is missing in between, or the oldest.
        """
        names = self._snapshots.names()
        found = {int(n[:20]) for n in names if _SNAPSHOT.fullmatch(n)}
        floor = max((int(n[6:26]) for n in names if _FLOOR.fullmatch(n)), default=0)
        found = {version for version in found if version >= floor}
        for version in range(floor, max(found, default=-1)):
            if version not in found:
                raise damaged(f"snapshots/{snapshot_name(version)}", "it is missing")
        return sorted(found)

    def forget_before(self, version: int) -> None:
        """Let go of all versions before one; their files may be deleted when this returns.

        Without this note, a version that is missing is damage.
        """
        content = seal({"floor": version}, format=FORMAT, checkpoint=self.identity)
        self._snapshots.publish(f"floor-{snapshot_name(version)}", content)

    def latest(self) -> Snapshot | None:
        """The newest version, None before the first commit."""
        # In this order: a batch that Spark has noted down was committed before.
        noted = self._noted()
        versions = self.versions()
        newest = self.snapshot(versions[-1]) if versions else None
        if noted is not None and noted > (-1 if newest is None else newest.batch):
            missing = snapshot_name(0 if newest is None else newest.version + 1)
            reason = f"it is missing: Spark has noted its batch {noted} as done"
            raise damaged(f"snapshots/{missing}", reason)
        return newest

    def _noted(self) -> int | None:
        """The newest batch that Spark has noted as done."""
        names = LocalFiles(self.folder / "spark" / "commits").names()
        return max((int(n) for n in names if n.isascii() and n.isdigit()), default=None)

    def snapshot(self, version: int) -> Snapshot:
        """A version.

        Raises:
            StateRefused: VERSION_UNKNOWN, STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        name = snapshot_name(version)
        if version < 0 or not self._snapshots.exists(name):
            known = self.versions()
            span = f"{known[0]} to {known[-1]}" if known else "none yet"
            raise StateRefused(
                "VERSION_UNKNOWN",
                f"there is no version {version}; committed versions: {span}",
                help="name one of those",
                path=str(self.folder),
            )
        shown = f"snapshots/{name}"
        snapshot = parse_snapshot(self._snapshots.read(name), shown, self.identity)
        if snapshot.version != version:
            raise damaged(shown, f"it holds version {snapshot.version}")
        before = self._checksum_of(version - 1)
        if before not in (None, snapshot.parent):
            raise damaged(shown, f"it was not made after the version {version - 1} that is here")
        return snapshot

    def snapshots(self, versions: Sequence[int]) -> list[Snapshot]:
        """Several versions. Raises as `snapshot`."""
        return [self.snapshot(version) for version in versions]

    def _checksum_of(self, version: int) -> int | None:
        """The checksum of a version's document; None where it is not there, or damaged, which is for its readers to say."""
        name = snapshot_name(version)
        if version < 0 or not self._snapshots.exists(name):
            return None
        try:
            opened = unseal(self._snapshots.read(name), name, format=FORMAT)
        except StateRefused:
            return None
        return opened.crc if opened.body.get("version") == version else None

    def publish(self, snapshot: Snapshot) -> None:
        """Commit: before this returns nothing has happened, afterwards everything has.

        Raises:
            CommitConflict: another driver published this version.
        """
        before = self._checksum_of(snapshot.version - 1) or 0
        content = replace(snapshot, parent=before).to_bytes(self.identity)
        if self._snapshots.publish(snapshot_name(snapshot.version), content):
            return
        raise CommitConflict(
            "COMMIT_CONFLICT",
            f"version {snapshot.version} of this checkpoint was committed by another run",
            help="let one run at a time use a checkpoint; this one has stopped and changed nothing",
            path=str(self.folder),
        )

    def sweep(self, newest: Snapshot) -> None:
        """Delete what failed attempts left behind, and state that only versions before the newest `KEEP_VERSIONS` name.

        Files of versions after the newest are left alone: somebody may be making it.
        """
        # Sweeps come every KEEP_VERSIONS versions, so twice as many leave no attempt out.
        recent = [v for v in self.versions() if v > newest.version - 2 * KEEP_VERSIONS]
        snapshots = {version: self.snapshot(version) for version in recent}
        kept = [s for v, s in snapshots.items() if v > newest.version - KEEP_VERSIONS]
        named = {file for snapshot in kept for file in state_files(snapshot)}
        for name in self.state.names():
            version = _version_of(name)
            if name not in named and version is not None and version <= newest.version:
                self.state.delete(name)
        changes = {change.name for snapshot in snapshots.values() for change in snapshot.changes}
        changes |= {late.file.name for snapshot in snapshots.values() for late in snapshot.late}
        for name in self.changes.names():
            if name not in changes and _version_of(name) in snapshots:
                self.changes.delete(name)


def state_files(snapshot: Snapshot) -> set[str]:
    """Names of the runs that a version needs."""
    return {file.name for operator in snapshot.operators for file in operator.runs}


_SNAPSHOT = re.compile(r"[0-9]{20}\.json")
_FLOOR = re.compile(r"floor-[0-9]{20}\.json")
_VERSIONED = re.compile(r"(?:[a-z]+\d*-\d+-)?(\d{12})-")


def _version_of(name: str) -> int | None:
    """The version for which a run or a change file was written, None of a file that is not ours."""
    found = _VERSIONED.match(name)
    return int(found.group(1)) if found else None
