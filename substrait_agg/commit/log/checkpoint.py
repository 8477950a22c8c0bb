"""A checkpoint folder: create it, claim it, publish versions.

Layout:

- ``plan.json``: what the plan computes
- ``snapshots/<version>.json``: the commits
- ``state/``: runs
- ``changes/``: change files
- ``outputs/``: how far each output has been delivered
- ``owners/``: the claims of runs
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from substrait_agg.commit.documents.file_names import snapshot_name
from substrait_agg.commit.documents.plan_document import (
    PLAN,
    PlanDocument,
    check_same_document,
    document_bytes,
    new_identity,
    publish_document,
)
from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.evolution.compatibility import check_evolved, check_same
from substrait_agg.commit.evolution.planner import Evolution, UnreadableTables, evolution
from substrait_agg.commit.log.fence import claim
from substrait_agg.commit.log.lease import lease_for_run
from substrait_agg.commit.log.locking import lock_for_run
from substrait_agg.commit.log.publishing import (
    committed_by_another,
    files_to_flush,
    sweep_drafts,
    translate_write_errors,
)
from substrait_agg.commit.log.reader import CheckpointReader
from substrait_agg.commit.log.retention import RetentionState, keep
from substrait_agg.commit.log.settings import SETTINGS, CheckpointSettings
from substrait_agg.commit.log.stores import probe
from substrait_agg.errors import CommitConflict

SET_TRIES = 5


class Checkpoint(CheckpointReader):
    """A checkpoint folder with the operations that write to it; see `CheckpointReader`."""

    def create(
        self,
        document: PlanDocument,
        *,
        evolve: bool = False,
        unreadable: UnreadableTables | None = None,
    ) -> None:
        """Create the folder with its plan document.

        If the folder has a plan document, check that it is the same or that the checkpoint can
        continue with this plan (`check`).

        Raises:
            StateRefused: PLAN_DIFFERS, KEYS_DIFFER, WEIGHTS_DIFFER, EARLY_RETRACTION_DIFFERS,
                WATERMARK_DIFFERS or TTL_DIFFERS when the folder was made for something else.
                EVOLVE_REFUSED with `evolve`.
        """
        self.check_usable()
        with translate_write_errors(self.folder, "the checkpoint"):
            probe(self.root)
            # Write the document first: `check_usable` refuses a folder that has other content but
            # no document.
            self.root.make()
            if not self.exists():
                self.root.publish(PLAN, document_bytes(document, new_identity()))
            for files in (
                self.snapshots,
                self.state,
                self.changes,
                self._owners,
                self._outputs,
            ):
                files.make()
        self._check_same(document, evolve=evolve, unreadable=unreadable)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other runs out for a block.

        Raises:
            StateRefused: CHECKPOINT_BUSY while another run is active or a tool changes the checkpoint.
            RunFailed: CHECKPOINT_NOT_WRITTEN.
        """
        with ExitStack() as opened:
            lock = opened.enter_context(lock_for_run(self.folder))
            if not lock.reaches_all:
                with translate_write_errors(self.folder, "its lease"):
                    opened.enter_context(lease_for_run(self._owners, self.identity))
            yield

    def claim(self) -> None:
        """Claim the checkpoint for this run.

        A run that claimed it before stops with a conflict and changes nothing.

        Raises:
            CommitConflict: CHECKPOINT_BUSY.
            RunFailed: CHECKPOINT_NOT_WRITTEN.
        """
        with translate_write_errors(self.folder, "its claim"):
            self.fence = claim(self._owners, self.identity)

    def check(
        self,
        document: PlanDocument,
        *,
        evolve: bool = False,
        unreadable: UnreadableTables | None = None,
    ) -> Evolution | None:
        """Check a plan document like `create`, without writing anything.

        Args:
            document: the document of the plan.
            evolve: continue the checkpoint with this plan if that is possible.
            unreadable: returns the tables whose rows cannot be read again; None: no rows can be.

        Returns:
            The evolution to this plan. None if there is no checkpoint, or if the plan is the
                current one.
        """
        self.check_usable()
        if not self.exists():
            return None
        return self._check_same(document, evolve=evolve, unreadable=unreadable)

    def _check_same(
        self, document: PlanDocument, *, evolve: bool, unreadable: UnreadableTables | None
    ) -> Evolution | None:
        stored, last = self.document(), self.newest_snapshot()
        if last is not None and last.plan != stored.plan:
            stored = self.document_of(last.plan)
        if stored.plan == document.plan:
            check_same(stored, document, str(self.folder))
            return None
        planned, reasons = evolution(stored, document, last, unreadable)
        return check_evolved(
            stored, document, str(self.folder), planned, reasons=reasons, evolve=evolve
        )

    def add(self, document: PlanDocument) -> None:
        """Write the document of a new plan of the checkpoint, unless it exists.

        Raises:
            RunFailed: CHECKPOINT_NOT_WRITTEN. The document alone changes nothing.
            StateRefused: STATE_DAMAGED if the existing document of that plan is different.
        """
        if document.plan != self._identify()[1].plan:
            with translate_write_errors(self.folder, "the new plan"):
                self.fence.check()
                publish_document(self.root, document, self.identity)
        check_same_document(self.document_of(document.plan), document)

    def publish(self, snapshot: Snapshot) -> None:
        """Commit a version atomically.

        Raises:
            CommitConflict: another driver has published this version, or another run has claimed
                the checkpoint.
            RunFailed: STATE_NOT_SHARED or CHECKPOINT_NOT_WRITTEN: nothing was committed.
                COMMIT_UNKNOWN: the next run finds out.
            StateRefused: STATE_DAMAGED if the preceding version cannot be read. Nothing was
                committed.
        """
        # The attempt id makes the content unique, so that a later read shows which attempt
        # committed.
        attempt, before = uuid.uuid4().hex, self._checksum_of(snapshot.version - 1) or 0
        attempted = replace(snapshot, attempt=attempt, parent=before)
        document = attempted.seal(self.identity)
        with translate_write_errors(self.folder, f"version {snapshot.version}"):
            self.fence.check()
            flushed = [
                *files_to_flush(self.state, snapshot.state_files, snapshot.version),
                *files_to_flush(self.changes, snapshot.change_files, snapshot.version),
            ]
            name = snapshot_name(snapshot.version)
            published = self.snapshots.publish(name, document.content, flushed)
        if not published:
            raise committed_by_another(self.folder, snapshot.version)
        self._remember(attempted, document)

    def conflict(self, version: int) -> CommitConflict | None:
        """Return the conflict error if another run made `version` fail, else None."""
        try:
            self.fence.check()
            exists = self.snapshots.exists(snapshot_name(version))
        except CommitConflict as error:
            return error
        except OSError:
            return None
        return committed_by_another(self.folder, version) if exists else None

    def sweep_drafts(self) -> None:
        """Delete unfinished documents of runs that have ended."""
        sweep_drafts(self.fence, (self.root, self.snapshots))

    def keep(self, noted: RetentionState) -> None:
        """Record which old versions are kept, before the others are deleted.

        Raises:
            CommitConflict: another run has claimed the checkpoint.
            OSError: the record cannot be written, or another process has written one since `noted`
                was computed from `retention_state`.
        """
        following = replace(noted, revision=noted.revision + self.root.is_remote)
        with self.fence.guard():  # a run that was suspended must not overwrite a newer record
            if not keep(self.root, following.revision, following.to_bytes(self.identity)):
                self.fence.check()
                raise BlockingIOError(errno.EAGAIN, "another process is sweeping", str(self.folder))

    def set(self, settings: CheckpointSettings) -> None:
        """Write the settings for the next runs."""
        content = settings.to_bytes(self.identity)
        for left in reversed(range(SET_TRIES)):
            try:
                self.root.replace(SETTINGS, content)
                break
            except FileNotFoundError:
                # A concurrent sweep may delete the draft of this document. Try again.
                if not left:
                    raise
