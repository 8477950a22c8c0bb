"""Verify a whole checkpoint and report all damage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pyarrow.parquet as pq

from substrait_agg.commit.documents.file_names import snapshot_name
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.snapshot import ChangeFile, Snapshot
from substrait_agg.commit.log.checkpoint import PLAN, Checkpoint, PlanDocument
from substrait_agg.commit.log.retention import RetentionState
from substrait_agg.commit.log.sweep import (
    change_files,
    state_files,
    unneeded_changes,
    unneeded_state,
)
from substrait_agg.commit.runtime.change_writer import VERSION
from substrait_agg.commit.view.view import View
from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.state.run import HASH_MAX, RunFile
from substrait_agg.tools.checks.findings import Finding, Findings, Verdict
from substrait_agg.tools.checks.orphan_files import report_orphan_files
from substrait_agg.tools.checks.spark_logs import check_logs
from substrait_agg.tools.checks.trees import all_trees, shape_of
from substrait_agg.tools.rollback.sinks import check_records
from substrait_agg.tools.verify.counts import check_levels, check_operator
from substrait_agg.tools.verify.runs import check_ranges, check_run
from substrait_agg.tools.verify.view import check_view


def verify(checkpoint: Checkpoint) -> Verdict:
    """Verify a checkpoint. A run may be active.

    Raises:
        StateRefused: NOT_A_CHECKPOINT. Damage is in the verdict instead.
    """
    for _ in range(3):
        before = checkpoint.versions()
        verdict = _Verification(checkpoint).verdict()
        # Deletions and commits of a concurrent run may look like damage. Verify again.
        if verdict.ok or checkpoint.versions() == before:
            break
    return verdict


class _Verification:
    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._found = Findings()
        self._documents: dict[str, PlanDocument | None] = {}
        self._looked_at: set[tuple[str, int, int, int]] = set()
        self._checked: Counter[str] = Counter(versions=0, files=0, rows=0, bytes=0, changes=0)

    def verdict(self) -> Verdict:
        found = self._found
        document = self._document()
        kept = RetentionState()
        with found.caught("STATE_DAMAGED", "kept.json"):
            kept = self._checkpoint.retention_state()
        with found.caught("STATE_DAMAGED", "settings.json"):
            self._checkpoint.settings()
        snapshots = self._snapshots(kept)
        self._check_predecessors(snapshots, document)
        for snapshot in snapshots:
            self._change_files(snapshot)
        for snapshot in snapshots:
            if snapshot.version >= kept.state_from:
                self._state(snapshot)
        if snapshots:
            with found.caught("OFFSETS_LOST", "spark"):
                check_logs(self._checkpoint, snapshots[-1], found)
            self._whole(document, snapshots)
        else:
            with found.caught("STATE_DAMAGED", "snapshots"):
                self._checkpoint.check_versions()
        if document is not None:
            check_records(self._checkpoint.folder, found)
        self._forget_swept(snapshots)
        report_orphan_files(self._checkpoint, found)
        if snapshots:
            self._leftovers(kept, snapshots[-1].version)
        ordered = sorted(found, key=_rank)
        return Verdict(str(self._checkpoint.folder), tuple(ordered), dict(self._checked))

    def _forget_swept(self, snapshots: Sequence[Snapshot]) -> None:
        """Ignore files deleted during verification."""
        kept = RetentionState()
        with self._found.caught("STATE_DAMAGED", "kept.json"):
            kept = self._checkpoint.retention_state()
        runs = {s.version: {f"state/{name}" for name in state_files(s)} for s in snapshots}
        needed = {path for v, paths in runs.items() if v >= kept.state_from for path in paths}
        gone = {path for paths in runs.values() for path in paths} - needed
        for snapshot in snapshots:
            if snapshot.version < kept.changes_from:
                gone |= {f"changes/{name}" for name in change_files(snapshot)}
        gone |= {f"snapshots/{snapshot_name(v)}" for v in range(kept.changes_from)}
        self._found.forget(gone)

    def _document(self) -> PlanDocument | None:
        document: list[PlanDocument | None] = [None]
        with self._found.caught("STATE_DAMAGED", PLAN):
            document.append(self._checkpoint.document())
        return document[-1]

    def _document_of(self, plan: str, path: str) -> PlanDocument | None:
        if plan not in self._documents:
            self._documents[plan] = None
            with self._found.caught("CHAIN_BROKEN", path):
                self._documents[plan] = self._checkpoint.document_of(plan)
        return self._documents[plan]

    def _snapshots(self, kept: RetentionState) -> list[Snapshot]:
        """Return all versions that can be read."""
        known = self._checkpoint.versions()
        read = []
        for version in known:
            path = f"snapshots/{snapshot_name(version)}"
            with self._found.caught("STATE_DAMAGED", path):
                read.append(self._checkpoint.snapshot(version))
        self._checked["versions"] = len(read)
        if known and known[0] > kept.changes_from:
            self._missing(range(kept.changes_from, known[0]))
        for before, after in pairwise(known):
            self._missing(range(before + 1, after))
        return read

    def _missing(self, versions: range) -> None:
        for version in versions[:10]:
            message = f"version {version} is missing, newer ones are there"
            self._found.fault("SNAPSHOT_MISSING", f"snapshots/{snapshot_name(version)}", message)

    def _check_predecessors(
        self, snapshots: Sequence[Snapshot], document: PlanDocument | None
    ) -> None:
        """Check that each version follows its predecessor, with the same plan and query."""
        for snapshot in snapshots:
            path = f"snapshots/{snapshot_name(snapshot.version)}"
            of = document if document is None else self._document_of(snapshot.plan, path)
            if of is not None and len(snapshot.operators) != of.operators:
                message = f"it has {len(snapshot.operators)} operators, the plan {of.operators}"
                self._found.fault("CHAIN_BROKEN", path, message)
        for before, after in pairwise(snapshots):
            path = f"snapshots/{snapshot_name(after.version)}"
            if after.begun != after.version and (before.plan, before.begun) != (
                after.plan,
                after.begun,
            ):
                message = (
                    f"it is of plan {after.plan[:12]}, the version before of {before.plan[:12]}"
                )
                self._found.fault("CHAIN_BROKEN", path, message)
            if before.query is not None and after.query != before.query:
                self._found.fault("CHAIN_BROKEN", path, "it was made by another streaming query")
            elif not before.batch <= after.batch <= before.batch + 1:
                message = f"it is of batch {after.batch}, the version before of {before.batch}"
                self._found.fault("CHAIN_BROKEN", path, message)
            watermarks = (before.watermark, after.watermark)
            if None not in watermarks and watermarks[1] < watermarks[0]:  # type: ignore[operator]
                self._found.fault("CHAIN_BROKEN", path, "its watermark is behind the one before")

    def _change_files(self, snapshot: Snapshot) -> None:
        records = {bad.file.name for bad in snapshot.bad}
        for change in snapshot.change_files:
            path = f"changes/{change.name}"
            if self._is_whole(self._checkpoint.changes, change, path):
                with self._found.caught("CHANGES_DAMAGED", path):
                    columns = [VERSION] if change.name in records else [VERSION, WEIGHT]
                    self._change_rows(change, snapshot.version, path, columns)

    def _change_rows(self, change: ChangeFile, version: int, path: str, columns: list[str]) -> None:
        with self._checkpoint.changes.map(change.name) as source:
            table = pq.read_table(source, columns=columns)
        if table.num_rows != change.rows:
            message = f"it has {table.num_rows} rows, the snapshot says {change.rows}"
            self._found.fault("CHANGES_DAMAGED", path, message)
        if set(table.column(VERSION).unique().to_pylist()) - {version}:
            message = f"it has changes of other versions than {version}"
            self._found.fault("CHANGES_DAMAGED", path, message)

    def _is_whole(self, storage: FolderFiles, file: ChangeFile | RunFile, path: str) -> bool:
        self._checked["files"] += 1
        self._checked["bytes"] += file.bytes
        with self._found.caught("FILE_DAMAGED", path):
            if not storage.exists(file.name):
                self._found.fault("FILE_MISSING", path, "a version names it, and it is not there")
                return False
            storage.forget(file.name)  # check the file in the store, not its local copy
            if storage.is_whole(file.name, file.bytes, file.crc):
                return True
            size = storage.size(file.name)
            what = (
                f"{size} bytes instead of {file.bytes}"
                if size != file.bytes
                else "another checksum"
            )
            self._found.fault("FILE_DAMAGED", path, f"it has {what}")
        return False

    def _state(self, snapshot: Snapshot) -> None:
        path = f"snapshots/{snapshot_name(snapshot.version)}"
        for tree in all_trees(snapshot):
            check_ranges(tree.runs, path, self._found, HASH_MAX)
            for run in tree.runs:
                told = (run.name, run.rows, run.bytes, run.crc)
                if told in self._looked_at:
                    continue
                self._looked_at.add(told)
                where = f"state/{run.name}"
                if self._is_whole(self._checkpoint.state, run, where):
                    with self._found.caught("RUN_DAMAGED", where):
                        self._checked["rows"] += check_run(
                            self._checkpoint.state, run, where, self._found, ordered=tree.ordered
                        )

    def _whole(self, document: PlanDocument | None, snapshots: list[Snapshot]) -> None:
        """Run the checks that need several files, if each of these files is undamaged."""
        newest = snapshots[-1]
        needed = {f"state/{run.name}" for operator in newest.operators for run in operator.runs}
        faulty = self._found.faulty
        path = f"snapshots/{snapshot_name(newest.version)}"
        if document is None or needed & faulty or path in faulty:
            return
        with self._found.caught("STATE_DAMAGED", path):
            self._levels(document, newest, path)
        # If Spark is ahead, versions are missing. The view of the remaining ones is not checked.
        ahead = "spark/offsets" in faulty
        if not ahead and not any(
            p.startswith(("changes/", "snapshots/", "state/")) for p in faulty
        ):
            with self._found.caught("STATE_DAMAGED", path):
                self._checked["changes"] = check_view(self._checkpoint, snapshots, self._found)

    def _levels(self, document: PlanDocument, newest: Snapshot, path: str) -> None:
        levels = {"waiting": 0}
        for ordinal, state in enumerate(newest.operators):
            shape = shape_of(document, ordinal)
            levels["waiting"] += check_operator(
                self._checkpoint.state, state, shape, path, self._found
            )
        if document.guarded:
            aside = View(self._checkpoint).quarantined(newest.version)
            levels["quarantined"] = -sum(aside.column(WEIGHT).to_pylist())
        check_levels(newest, levels, path, self._found)

    def _leftovers(self, kept: RetentionState, newest: int) -> None:
        """Report files of failed attempts, and state that the next sweep deletes."""
        everything = RetentionState(kept.state_from, kept.changes_from, -1)
        help = "nothing to do: it is not used, and the next sweep or state vacuum deletes it"
        with self._found.caught("STATE_DAMAGED", "snapshots"):
            for folder, names in (
                ("state", unneeded_state(self._checkpoint, everything, newest)),
                ("changes", unneeded_changes(self._checkpoint, everything, newest)),
            ):
                for name in names:
                    self._found.note(
                        "FILE_LEFT_OVER", f"{folder}/{name}", "no version names it", help
                    )


def _rank(finding: Finding) -> tuple[bool, str, str]:
    return finding.level != "error", finding.path, finding.code
