"""A checkpoint folder: its plan document, its versions, publishing the next one, sweeping what no version names.

Layout: ``plan.json`` (what is computed), ``snapshots/<version>.json`` (the commits), ``state/`` (runs), ``changes/`` (change
files), ``spark/`` (Spark's own offsets and commits), ``outputs/`` (how far each output got), ``owners/`` (which run goes on).
"""

from __future__ import annotations

import errno
import uuid
from dataclasses import replace

from substrait_agg.commit.documents.file_names import snapshot_name
from substrait_agg.commit.documents.plan_document import (
    PLAN,
    Guarded,
    PlanDocument,
    ViewColumn,
    ViewSort,
    check_same_document,
    document_bytes,
    new_identity,
    publish_document,
)
from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.evolution.compatibility import check_evolved, check_same
from substrait_agg.commit.evolution.planner import Evolution, evolution
from substrait_agg.commit.log.fence import claim
from substrait_agg.commit.log.publishing import (
    committed_by_another,
    sweep_drafts,
    sync_new_files,
    writing,
)
from substrait_agg.commit.log.reader import Contents
from substrait_agg.commit.log.retention import RetentionState, keep
from substrait_agg.commit.log.settings import SETTINGS, CheckpointSettings
from substrait_agg.commit.log.stores import probe
from substrait_agg.errors import CommitConflict

__all__ = [
    "PLAN",
    "Checkpoint",
    "Guarded",
    "PlanDocument",
    "ViewColumn",
    "ViewSort",
]

SET_TRIES = 5


class Checkpoint(Contents):
    """A checkpoint folder, and what runs and tools do to it; arguments and errors as those of `Contents`."""

    def create(self, document: PlanDocument, *, evolve: bool = False) -> None:
        """Create the folder with its plan document, or check that the one there is the same, or can go on with it (`check`).

        Raises:
            StateRefused: PLAN_DIFFERS, KEYS_DIFFER, WEIGHTS_DIFFER, EARLY_RETRACTION_DIFFERS, WATERMARK_DIFFERS or TTL_DIFFERS
                when the folder was made for something else. EVOLVE_REFUSED with `evolve`.
        """
        self.check_usable()
        with writing(self.folder, "the checkpoint"):
            probe(self._root)
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
        self._check_same(document, evolve=evolve)

    def claim(self) -> None:
        """Take the checkpoint over from whoever has claimed it before: that run stops with a conflict and harms nothing.

        Raises:
            CommitConflict: CHECKPOINT_BUSY.
            RunFailed: CHECKPOINT_NOT_WRITTEN.
        """
        with writing(self.folder, "its claim"):
            self.fence = claim(self._owners, self.identity)

    def check(self, document: PlanDocument, *, evolve: bool = False) -> Evolution | None:
        """As `create`, without writing anything; `evolve` says that the checkpoint is to go on with this plan if it can.

        Returns:
            How it goes on with this plan; None where there is nothing to go on from, or it is the plan in force.
        """
        self.check_usable()
        return self._check_same(document, evolve=evolve) if self.exists() else None

    def _check_same(self, document: PlanDocument, *, evolve: bool) -> Evolution | None:
        there, last = self.document(), self.latest()
        if last is not None and last.plan != there.plan:
            there = self.document_of(last.plan)
        if there.plan == document.plan:
            check_same(there, document, str(self.folder))
            return None
        found, reasons = evolution(there, document, last)
        return check_evolved(
            there, document, str(self.folder), found, reasons=reasons, evolve=evolve
        )

    def add(self, document: PlanDocument) -> None:
        """Write the document of a plan that the checkpoint is about to go on with, unless it is there.

        Raises:
            RunFailed: CHECKPOINT_NOT_WRITTEN. Nothing has happened by the document alone.
            StateRefused: STATE_DAMAGED where there is another one of that plan.
        """
        if document.plan != self._identified()[1].plan:
            with writing(self.folder, "the new plan"):
                self.fence.check()
                publish_document(self._root, document, self.identity)
        check_same_document(self.document_of(document.plan), document)

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
            sync_new_files(
                self.state, (run for o in snapshot.operators for run in o.runs), snapshot.version
            )
            sync_new_files(self.changes, snapshot.change_files, snapshot.version)
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

    def sweep_drafts(self) -> None:
        """Delete unfinished documents of runs that have ended."""
        sweep_drafts(self.fence, (self._root, self._snapshots))

    def keep(self, noted: RetentionState) -> None:
        """Note what of old versions is still there; before the rest is deleted.

        Raises:
            CommitConflict: another run has taken over.
            OSError: it cannot be noted, or somebody else has noted something since `noted` was worked out from `kept`.
        """
        following = replace(noted, revision=noted.revision + self._root.is_remote)
        with self.fence.held():  # a run that wakes up must not put back what a newer one has noted
            if not keep(self._root, following.revision, following.to_bytes(self.identity)):
                self.fence.check()
                raise BlockingIOError(errno.EAGAIN, "somebody else is sweeping", str(self.folder))

    def set(self, settings: CheckpointSettings) -> None:
        """Set something for the next runs."""
        content = settings.to_bytes(self.identity)
        for left in reversed(range(SET_TRIES)):
            try:
                self._root.replace(SETTINGS, content)
                break
            except FileNotFoundError:
                # A run that sweeps in this moment takes the draft for that of one that is no more.
                if not left:
                    raise
