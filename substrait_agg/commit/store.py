"""A checkpoint folder: its plan document, its versions, publishing the next one, sweeping what no version names.

Layout: ``plan.json`` (what is computed), ``snapshots/<version>.json`` (the commits), ``state/`` (runs), ``changes/`` (change
files), ``spark/`` (Spark's own offsets and commits), ``outputs/`` (how far each output got), ``owners/`` (which run goes on).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from substrait_agg.commit.fence import OPEN, Fence, claim
from substrait_agg.commit.files import DRAFT, LocalFiles
from substrait_agg.commit.publishing import committed_by_another, settle, sweep_drafts, writing
from substrait_agg.commit.retention import (
    DEFAULT,
    KEEP_VERSIONS,
    KEPT,
    Kept,
    Retention,
    state_files,
    sweep,
)
from substrait_agg.commit.settings import SETTINGS, Settings
from substrait_agg.commit.shapes import OperatorShape
from substrait_agg.commit.snapshot import (
    FORMAT,
    Snapshot,
    damaged,
    parse_snapshot,
    snapshot_name,
)
from substrait_agg.disk import disk
from substrait_agg.errors import CommitConflict, StateRefused
from substrait_agg.notices import notice

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

PLAN = "plan.json"
ROLLBACK = "rollback.json"
"""What a rollback is about to do, while it does it."""


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of the view: the operator's column and the name shown."""

    source: str
    name: str


@dataclass(frozen=True, slots=True)
class ViewSort:
    """A key of the order in which the view is shown."""

    ordinal: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Guarded:
    """Where an operator keeps the rows that wait for their insertion.

    Attributes:
        operator: its id.
        tree: ordinal of its tree of whole rows; -1 where its groups are the rows.
        keys: number of key columns.
        types: Arrow schema of the keys and of the values that it reads of a row, serialised, base64.
    """

    operator: int
    tree: int
    keys: int
    types: str


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """What a checkpoint computes: written once, before its first version.

    Attributes:
        plan: fingerprint of the plan.
        layout: per operator what its state layout depends on besides the plan: the kind of its weights.
        columns: columns of the view.
        types: Arrow schema of the view, serialised, base64.
        sorts: order in which the view is shown.
        keys: number of key columns of the last operator.
        operators: number of operators.
        early: per operator what becomes of retractions that come before their insertion.
        guarded: the operators that keep such rows aside.
        watermarks: the columns that have a watermark, ``TABLE.COLUMN``.
        forget: what becomes of the rows shown of idle groups; empty where none are forgotten.
        upserts: of each source of upserts its table, key and order.
        shapes: per operator what the columns of its state mean; empty in checkpoints that do not tell.
    """

    plan: str
    layout: tuple[str, ...]
    columns: tuple[ViewColumn, ...]
    types: str
    sorts: tuple[ViewSort, ...]
    keys: int
    operators: int
    early: tuple[str, ...] = ()
    guarded: tuple[Guarded, ...] = ()
    watermarks: tuple[str, ...] = ()
    forget: str = ""
    upserts: tuple[str, ...] = ()
    shapes: tuple[OperatorShape, ...] = ()


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
            StateRefused: NOT_A_CHECKPOINT when it has content but no plan document.
        """
        if self.exists():
            return
        if self.folder.exists() and not self.folder.is_dir():
            raise self._not_a_checkpoint("this is not a folder")
        names = disk().names(self.folder, folders=True)
        if not all(name.startswith(DRAFT) for name in names):
            raise self._not_a_checkpoint("this folder is not empty and holds no checkpoint")

    def check_runnable(self) -> None:
        """Refuse a checkpoint in the middle of a rollback.

        Raises:
            StateRefused: ROLLBACK_UNFINISHED.
        """
        if self._root.exists(ROLLBACK):
            raise StateRefused(
                "ROLLBACK_UNFINISHED",
                "a rollback was begun and not finished",
                help="run the same state rollback again: it goes on where it was",
                path=str(self.folder),
            )

    def create(self, document: PlanDocument) -> None:
        """Create the folder with its plan document, or check that the one there is the same.

        Raises:
            StateRefused: PLAN_DIFFERS, KEYS_DIFFER, WEIGHTS_DIFFER, EARLY_RETRACTION_DIFFERS, WATERMARK_DIFFERS or TTL_DIFFERS
                when the folder was made for something else.
        """
        self.check_usable()
        body = {"format": FORMAT, "plan": _as_json(document)}
        with writing(self.folder, "the checkpoint"):
            # The document comes first: a folder with anything else and without it is not ours.
            self._root.make()
            if not self.exists():
                self._root.publish(PLAN, json.dumps(body, indent=1).encode())
            for files in (self._snapshots, self.state, self.changes, self._owners):
                files.make()
        self._check_same(document)

    def claim(self) -> None:
        """Take the checkpoint over from whoever has claimed it before: that run stops with a conflict and harms nothing.

        Raises:
            CommitConflict: CHECKPOINT_BUSY.
            RunFailed: CHECKPOINT_NOT_WRITTEN.
        """
        with writing(self.folder, "its claim"):
            self.fence = claim(self._owners)

    def check(self, document: PlanDocument) -> None:
        """As `create`, without writing anything."""
        self.check_usable()
        if self.exists():
            self._check_same(document)

    def _check_same(self, document: PlanDocument) -> None:
        there = self.document()
        if there.plan != document.plan:
            raise StateRefused(
                "PLAN_DIFFERS",
                f"the checkpoint was made for another plan ({there.plan[:12]}, not {document.plan[:12]})",
                help="use a checkpoint folder of its own for each plan",
                path=str(self.folder),
            )
        if there.upserts != document.upserts:
            raise StateRefused(
                "KEYS_DIFFER",
                f"the checkpoint was made for {_keys(there)}, not for {_keys(document)}",
                help="give the same key= and order= of the sources as before, or a new --checkpoint",
                path=str(self.folder),
            )
        self._check_time(there, document)
        # The policy has a say in the layout, and no meaning where nothing is retracted.
        if there.early != document.early and _retracting(there) == _retracting(document):
            raise StateRefused(
                "EARLY_RETRACTION_DIFFERS",
                f"the checkpoint was made to {_policy(there)} early retractions, not to {_policy(document)} them",
                help="give the same --early-retraction as before, or a new --checkpoint",
                path=str(self.folder),
            )
        if there.layout != document.layout:
            raise StateRefused(
                "WEIGHTS_DIFFER",
                f"the checkpoint was made for sources with weights {', '.join(there.layout)},"
                f" not {', '.join(document.layout)}",
                help="give the same weight= or op= keys as before, or a new --checkpoint",
                path=str(self.folder),
            )

    def _check_time(self, there: PlanDocument, document: PlanDocument) -> None:
        """Groups that are closed or forgotten cannot be opened again, nor the time be told of groups that kept none."""
        for code, option, before, now in (
            ("WATERMARK_DIFFERS", "--watermark", there.watermarks, document.watermarks),
            ("TTL_DIFFERS", "--ttl", there.forget, document.forget),
        ):
            if before != now:
                raise StateRefused(
                    code,
                    f"the checkpoint was made with {option} of {_listed(before)}, not of {_listed(now)}",
                    help=f"give {option} as before (durations may change), or a new --checkpoint",
                    path=str(self.folder),
                )

    def document(self) -> PlanDocument:
        """The plan document.

        Raises:
            StateRefused: NOT_A_CHECKPOINT, STATE_DAMAGED.
        """
        if not self.exists():
            raise self._not_a_checkpoint("this is not a checkpoint folder")
        try:
            return _document(json.loads(self._root.read(PLAN))["plan"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise damaged(PLAN, str(error)) from error

    def _not_a_checkpoint(self, reason: str) -> StateRefused:
        return StateRefused(
            "NOT_A_CHECKPOINT",
            reason,
            help="name the folder given to run --checkpoint, or an empty or new folder to begin one",
            path=str(self.folder),
        )

    def versions(self) -> list[int]:
        """All committed versions, ascending."""
        names = (name.removesuffix(".json") for name in self._snapshots.names())
        return sorted(int(name) for name in names if name.isdigit())

    def latest(self) -> Snapshot | None:
        """The newest version, None before the first commit."""
        versions = self.versions()
        return self.snapshot(versions[-1]) if versions else None

    def snapshot(self, version: int) -> Snapshot:
        """A version.

        Raises:
            StateRefused: VERSION_UNKNOWN, STATE_DAMAGED.
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
        snapshot = parse_snapshot(self._snapshots.read(name), name)
        if snapshot.version != version:
            raise damaged(name, f"it holds version {snapshot.version}")
        return snapshot

    def publish(self, snapshot: Snapshot) -> None:
        """Commit: before this returns nothing has happened, afterwards everything has.

        Raises:
            CommitConflict: another driver published this version, or has taken over.
            RunFailed: STATE_NOT_SHARED, CHECKPOINT_NOT_WRITTEN: nothing was committed. COMMIT_UNKNOWN: the next run finds out.
        """
        # What tells this attempt from every other, should its outcome have to be found out.
        content = replace(snapshot, attempt=uuid.uuid4().hex).to_bytes()
        self.fence.check()
        with writing(self.folder, f"version {snapshot.version}"):
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
        try:
            for name in served:
                self.changes.delete(name)
            if sweep:
                self.sweep(newest, retention, whole=whole)
        except OSError as error:
            notice(
                "CHECKPOINT_NOT_SWEPT",
                f"files that are not needed any more could not be removed: {error}",
                help="the run goes on; they are removed later",
                path=str(self.folder),
            )

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
        if self._root.exists(KEPT):
            return Kept.of(self._root.read(KEPT))
        first = min(self.versions(), default=0)
        return Kept(first, first)

    def keep(self, kept: Kept) -> None:
        """Note what of old versions is still there; before the rest is deleted."""
        self._root.replace(KEPT, kept.to_bytes())

    def settings(self) -> Settings:
        """What is set for the next runs.

        Raises:
            StateRefused: STATE_DAMAGED.
        """
        there = self._root.exists(SETTINGS)
        return Settings.of(self._root.read(SETTINGS)) if there else Settings()

    def set(self, settings: Settings) -> None:
        """Set something for the next runs."""
        self._root.replace(SETTINGS, settings.to_bytes())


def _listed(given: str | tuple[str, ...]) -> str:
    return (given if isinstance(given, str) else ", ".join(given)) or "nothing"


def _retracting(document: PlanDocument) -> tuple[bool, ...]:
    """Which operators take rows away."""
    return tuple(kind != "one" for kind in document.layout)


def _keys(document: PlanDocument) -> str:
    return f"the keys {'; '.join(document.upserts)}" if document.upserts else "sources without keys"


def _policy(document: PlanDocument) -> str:
    return next((word for word in document.early if word != "carry"), "carry")


def _as_json(document: PlanDocument) -> dict[str, Any]:
    return {
        "plan": document.plan,
        "layout": list(document.layout),
        "columns": [[c.source, c.name] for c in document.columns],
        "types": document.types,
        "sorts": [[s.ordinal, s.descending, s.nulls_first] for s in document.sorts],
        "keys": document.keys,
        "operators": document.operators,
        "early": list(document.early),
        "guarded": [[g.operator, g.tree, g.keys, g.types] for g in document.guarded],
        "watermarks": list(document.watermarks),
        "forget": document.forget,
        "upserts": list(document.upserts),
        "shapes": [shape.to_dict() for shape in document.shapes],
    }


def _document(body: dict[str, Any]) -> PlanDocument:
    return PlanDocument(
        plan=str(body["plan"]),
        layout=tuple(str(kind) for kind in body["layout"]),
        columns=tuple(ViewColumn(str(s), str(n)) for s, n in body["columns"]),
        types=str(body["types"]),
        sorts=tuple(ViewSort(int(o), bool(d), bool(n)) for o, d, n in body["sorts"]),
        keys=int(body["keys"]),
        operators=int(body["operators"]),
        early=tuple(str(word) for word in body.get("early", ["carry"] * int(body["operators"]))),
        guarded=tuple(
            Guarded(int(o), int(t), int(k), str(s)) for o, t, k, s in body.get("guarded", ())
        ),
        watermarks=tuple(str(label) for label in body.get("watermarks", ())),
        forget=str(body.get("forget", "")),
        upserts=tuple(str(text) for text in body.get("upserts", ())),
        shapes=tuple(OperatorShape.of(shape) for shape in body.get("shapes", ())),
    )
