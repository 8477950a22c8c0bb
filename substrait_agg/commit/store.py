"""A checkpoint folder: its plan document, its versions, publishing the next one, sweeping what no version names.

Layout: ``plan.json`` (what is computed), ``snapshots/<version>.json`` (the commits), ``state/`` (runs), ``changes/`` (change
files), ``spark/`` (Spark's own offsets and commits), ``outputs/`` (how far each output got), ``owners/`` (which run goes on).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
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
from substrait_agg.commit.fence import OPEN, Fence, claim
from substrait_agg.commit.files import DRAFT, LocalFiles
from substrait_agg.commit.publishing import (
    committed_by_another,
    settle,
    sweep_drafts,
    tidying,
    writing,
)
from substrait_agg.commit.refusals import not_a_checkpoint, rollback_unfinished, version_unknown
from substrait_agg.commit.retention import (
    DEFAULT,
    KEEP_VERSIONS,
    KEPT,
    Kept,
    Retention,
    state_files,
    sweep,
)
from substrait_agg.commit.sealed import damaged, unseal
from substrait_agg.commit.settings import SETTINGS, Settings
from substrait_agg.commit.snapshot import (
    FORMAT,
    Snapshot,
    parse_snapshot,
    snapshot_name,
)
from substrait_agg.disk import disk
from substrait_agg.errors import CommitConflict, StateRefused

__all__ = [
    "KEEP_VERSIONS",
    "PLAN",
    "ROLLBACK",
    "Checkpoint",
    "Guarded",
    "PlanDocument",
    "ViewColumn",
    "ViewSort",
    "state_files",
]

ROLLBACK = "rollback.json"
"""What a rollback is about to do, while it does it."""
_SNAPSHOT = re.compile(r"[0-9]{20}\.json")


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
        self._owners = LocalFiles(self.folder / "owners")
        self._outputs = LocalFiles(self.folder / "outputs")
        self._spark = LocalFiles(self.folder / "spark")
        self.fence: Fence = OPEN

    @property
    def root(self) -> LocalFiles:
        """The documents of the checkpoint."""
        return self._root

    @property
    def snapshots(self) -> LocalFiles:
        """The versions."""
        return self._snapshots

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
            raise not_a_checkpoint(self.folder, "this is not a folder")
        # Another run may have made it meanwhile.
        if self._snapshots.names() and not self.exists():
            raise damaged(PLAN, "it is missing, and there are versions")
        names = disk().names(self.folder, folders=True)
        if not all(name.startswith(DRAFT) for name in names) and not self.exists():
            raise not_a_checkpoint(self.folder, "this folder is not empty and holds no checkpoint")

    def check_runnable(self) -> None:
        """Refuse a checkpoint in the middle of a rollback.

        Raises:
            StateRefused: ROLLBACK_UNFINISHED.
        """
        if self._root.exists(ROLLBACK):
            raise rollback_unfinished(self.folder)

    def create(self, document: PlanDocument) -> None:
        """Create the folder with its plan document, or check that the one there is the same.

        Raises:
            StateRefused: PLAN_DIFFERS, KEYS_DIFFER, WEIGHTS_DIFFER, EARLY_RETRACTION_DIFFERS, WATERMARK_DIFFERS or TTL_DIFFERS
                when the folder was made for something else.
        """
        self.check_usable()
        with writing(self.folder, "the checkpoint"):
            # The document comes first: a folder with anything else and without it is not ours.
            self._root.make()
            if not self.exists():
                self._root.publish(PLAN, document_bytes(document, new_identity()))
            for files in (
                self._snapshots,
                self.state,
                self.changes,
                self._owners,
                self._outputs,
                self._spark,
            ):
                files.make()
        self._check_same(document)

    def claim(self) -> None:
        """Take the checkpoint over from whoever has claimed it before: that run stops with a conflict and harms nothing.

        Raises:
            CommitConflict: CHECKPOINT_BUSY.
            RunFailed: CHECKPOINT_NOT_WRITTEN.
        """
        with writing(self.folder, "its claim"):
            self.fence = claim(self._owners, self.identity)

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
            raise not_a_checkpoint(self.folder, "this is not a checkpoint folder")
        return parse_document(self._read(self._root, PLAN, PLAN))

    def _owner(self) -> str | None:
        """The id; None where it cannot be told, which is for readers of the plan document to say."""
        try:
            return self.identity
        except StateRefused:
            return None

    @staticmethod
    def _read(files: LocalFiles, name: str, shown: str) -> bytes:
        try:
            return files.read(name)
        except FileNotFoundError as error:
            raise damaged(shown, "it is missing") from error
        except OSError as error:
            raise damaged(shown, f"it cannot be read ({error})") from error

    def versions(self) -> list[int]:
        """All committed versions, ascending; also what is left where some are missing (`check_versions`)."""
        return [int(name[:20]) for name in self._snapshots.names() if _SNAPSHOT.fullmatch(name)]

    def check_versions(self) -> list[int]:
        """All committed versions that are kept, ascending and without a gap.

        Raises:
            StateRefused: STATE_DAMAGED where one is missing: in between, the oldest, or one whose batch Spark has noted.
        """
        # In this order: a batch that Spark has noted down was committed before, and what is kept is noted before the rest goes.
        noted = self._noted()
        found = self.versions()
        first = self.kept().changes_from
        found = [version for version in found if version >= first]
        for wanted, version in enumerate(found, start=first):
            if wanted != version:
                raise damaged(_shown(wanted), "it is missing")
        if noted is not None:
            newest = self.snapshot(found[-1]) if found else None
            if noted > (-1 if newest is None else newest.batch):
                missing = 0 if newest is None else newest.version + 1
                reason = f"it is missing: Spark has noted its batch {noted} as done"
                raise damaged(_shown(missing), reason)
        return found

    def _noted(self) -> int | None:
        """The newest batch that Spark has noted as done."""
        names = LocalFiles(self.folder / "spark" / "commits").names()
        return max((int(n) for n in names if n.isascii() and n.isdigit()), default=None)

    def latest(self) -> Snapshot | None:
        """The newest version, None before the first commit.

        Raises:
            StateRefused: as `check_versions` and `snapshot`.
        """
        versions = self.check_versions()
        return self.snapshot(versions[-1]) if versions else None

    def snapshot(self, version: int) -> Snapshot:
        """A version.

        Raises:
            StateRefused: VERSION_UNKNOWN, STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        name, shown = snapshot_name(version), _shown(version)
        if version < 0 or not self._snapshots.exists(name):
            raise version_unknown(self.folder, version, self.check_versions())
        content = self._read(self._snapshots, name, shown)
        snapshot = parse_snapshot(content, shown, self._owner())
        if snapshot.version != version:
            raise damaged(shown, f"it holds version {snapshot.version}")
        if self._known_checksum(version - 1) not in (None, snapshot.parent):
            raise damaged(shown, f"it was not made after the version {version - 1} that is here")
        return snapshot

    def _known_checksum(self, version: int) -> int | None:
        """The checksum of a version's document; None where it is not there, or damaged, which is for its readers to say."""
        try:
            return self._checksum_of(version)
        except StateRefused:
            return None

    def _checksum_of(self, version: int) -> int | None:
        """The checksum of a version's document; None where it is not there.

        Raises:
            StateRefused: STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        name, shown = snapshot_name(version), _shown(version)
        if version < 0 or not self._snapshots.exists(name):
            return None
        opened = unseal(self._read(self._snapshots, name, shown), shown, format=FORMAT)
        if opened.body.get("version") != version:
            raise damaged(shown, f"it holds version {opened.body.get('version')}")
        return opened.crc

    def publish(self, snapshot: Snapshot) -> None:
        """Commit: before this returns nothing has happened, afterwards everything has.

        Raises:
            CommitConflict: another driver published this version, or has taken over.
            RunFailed: STATE_NOT_SHARED, CHECKPOINT_NOT_WRITTEN: nothing was committed. COMMIT_UNKNOWN: the next run finds out.
            StateRefused: STATE_DAMAGED where the version before cannot be read; nothing was committed.
        """
        # What tells this attempt from every other, should its outcome have to be found out.
        attempt, before = uuid.uuid4().hex, self._checksum_of(snapshot.version - 1) or 0
        content = replace(snapshot, attempt=attempt, parent=before).to_bytes(self.identity)
        with writing(self.folder, f"version {snapshot.version}"):
            self.fence.check()
            settle(
                self.state, (run for o in snapshot.operators for run in o.runs), snapshot.version
            )
            late = (late.file for late in snapshot.late)
            settle(self.changes, (*snapshot.changes, *late), snapshot.version)
            published = self._snapshots.publish(snapshot_name(snapshot.version), content)
        if not published:
            raise committed_by_another(self.folder, snapshot.version)

    def conflict(self, version: int) -> CommitConflict | None:
        """What has to be said where making `version` failed because another run has gone on; None where none has."""
        try:
            self.fence.check()
            there = self._snapshots.exists(snapshot_name(version))
        except CommitConflict as error:
            return error
        except OSError:
            return None
        return committed_by_another(self.folder, version) if there else None

    def tidy(
        self,
        newest: Snapshot,
        served: Iterable[str] = (),
        *,
        sweep: bool,
        whole: bool = False,
        retention: Retention = DEFAULT,
    ) -> None:
        """Delete change files that have `served`, and `sweep`. What cannot be deleted stays, with a warning."""
        with tidying(self.folder):
            for name in served:
                self.changes.delete(name)
            if sweep:
                self.sweep(newest, retention, whole=whole)

    def sweep(
        self, newest: Snapshot, retention: Retention = DEFAULT, *, whole: bool = False
    ) -> None:
        """Delete what failed attempts left behind, and state of versions that are not to be kept (`retention.sweep`)."""
        sweep(self, newest, retention, whole=whole)
        sweep_drafts(self.fence, (self._root, self._snapshots))

    def kept(self) -> Kept:
        """What of old versions is still there.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        if not self._root.exists(KEPT):
            first = min(self.versions(), default=0)
            return Kept(first, first)
        return Kept.of(self._read(self._root, KEPT, KEPT), self._owner())

    def keep(self, kept: Kept) -> None:
        """Note what of old versions is still there; before the rest is deleted."""
        with self.fence.held():  # a run that wakes up must not put back what a newer one has noted
            self._root.replace(KEPT, kept.to_bytes(self.identity))

    def settings(self) -> Settings:
        """What is set for the next runs.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        if not self._root.exists(SETTINGS):
            return Settings()
        return Settings.of(self._read(self._root, SETTINGS, SETTINGS), self._owner())

    def set(self, settings: Settings) -> None:
        """Set something for the next runs."""
        self._root.replace(SETTINGS, settings.to_bytes(self.identity))


def _shown(version: int) -> str:
    return f"snapshots/{snapshot_name(version)}"
