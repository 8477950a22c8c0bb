"""Roll back to a version: remove later versions.

A version has the positions of the sources, so the next run reads the input after it again.

The rollback writes its plan first (``rollback.json``). From then on no run starts until the
rollback is finished. Its steps can be repeated, so running a killed rollback again finishes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from substrait_agg.commit.documents.envelope import refuse_damage, seal, unseal
from substrait_agg.commit.documents.file_names import snapshot_name, version_of
from substrait_agg.commit.documents.json_codec import build, encode
from substrait_agg.commit.documents.plan_document import PLANS, document_name
from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.locking import lock_for_tool
from substrait_agg.commit.log.reader import ROLLBACK
from substrait_agg.commit.log.sweep import change_files, state_files
from substrait_agg.errors import StateRefused
from substrait_agg.tools.rollback.sinks import OutputAhead, cut_output, losses

ROLLBACK_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Rollback:
    """The plan of a rollback.

    Attributes:
        to: the newest version after the rollback.
        newest: the newest version before it.
        outputs: the outputs that have received later versions.
    """

    to: int
    newest: int
    outputs: tuple[OutputAhead, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        values: dict[str, Any] = encode(self)
        return values

    def to_bytes(self, checkpoint: str) -> bytes:
        """Return the plan as a sealed document."""
        return seal(self.to_json(), format=ROLLBACK_FORMAT, checkpoint=checkpoint)

    @staticmethod
    def of(content: bytes, checkpoint: str) -> Rollback:
        """Read the plan from `to_bytes`.

        The document is sealed, because the rollback cuts off outputs as it says.

        Raises:
            StateRefused: STATE_DAMAGED, STATE_FORMAT_UNKNOWN.
        """
        opened = unseal(content, ROLLBACK, format=ROLLBACK_FORMAT, checkpoint=checkpoint)
        try:
            return build(Rollback, opened.body)
        except (ValueError, TypeError) as error:
            raise refuse_damage(ROLLBACK, f"it cannot be read ({error})") from error


def rollback(
    checkpoint: Checkpoint,
    to: int,
    *,
    force: bool = False,
    dry_run: bool = False,
    no_run: bool = False,
) -> Rollback:
    """Roll back to version `to`.

    Args:
        checkpoint: the checkpoint.
        to: a version whose state is kept.
        force: roll back even if outputs have received later versions. Outputs of text and of files
            of changes are cut back to `to`. Other outputs keep what they have received, and also
            receive the new versions.
        dry_run: only return what would be done.
        no_run: the user confirms that no run is active, for checkpoints that cannot be locked.

    Raises:
        StateRefused: CHECKPOINT_BUSY, CHECKPOINT_NOT_LOCKED, VERSION_UNKNOWN, VERSION_EXPIRED,
            STATE_DAMAGED, OUTPUT_AHEAD, OUTPUT_DAMAGED, OUTPUT_RECORD_DAMAGED,
            ROLLBACK_UNFINISHED. Nothing has been changed.
    """
    with lock_for_tool(checkpoint.folder, alone=no_run):
        if checkpoint.root.exists(ROLLBACK):
            plan = _begin(checkpoint, to)
        else:
            plan = _plan(checkpoint, to, force=force)
            if dry_run:
                return plan
            checkpoint.root.replace(ROLLBACK, plan.to_bytes(checkpoint.identity))
        if not dry_run:
            _apply(checkpoint, plan)
        return plan


def _begin(checkpoint: Checkpoint, to: int) -> Rollback:
    try:
        content = checkpoint.root.read(ROLLBACK)
    except OSError as error:
        raise refuse_damage(ROLLBACK, f"it cannot be read ({error})") from error
    plan = Rollback.of(content, checkpoint.identity)
    if plan.to == to:
        return plan
    raise StateRefused(
        "ROLLBACK_UNFINISHED",
        f"a rollback to version {plan.to} was started and not finished",
        help=f"finish it first with --to {plan.to}",
        path=str(checkpoint.folder),
    )


def _plan(checkpoint: Checkpoint, to: int, *, force: bool) -> Rollback:
    target, newest = checkpoint.snapshot(to), checkpoint.newest_snapshot()
    if newest is None:
        raise TypeError("a version without a newest one")
    _check_state(checkpoint, target)
    outputs = losses(checkpoint, to) if newest.version > to else []
    refused = outputs if not force else [o for o in outputs if o.way == "stuck"]
    if refused:
        raise _outputs_ahead(refused, to, force=force)
    return Rollback(to, newest.version, tuple(outputs))


def _check_state(checkpoint: Checkpoint, target: Snapshot) -> None:
    """Check that the state of a version is kept and undamaged."""
    checkpoint.check_kept(target.version)
    for run in target.state_files:
        checkpoint.state.forget(run.name)  # check the file in the store, not its local copy
        try:
            whole = checkpoint.state.is_whole(run.name, run.bytes, run.crc)
        except OSError as error:
            raise refuse_damage(run.name, str(error)) from error
        if not whole:
            raise refuse_damage(run.name, "its size or checksum is not the one in the snapshot")


def _outputs_ahead(refused: list[OutputAhead], to: int, *, force: bool) -> StateRefused:
    names = "; ".join(f"{o.output} (version {o.version})" for o in refused)
    if force:
        help = (
            "such a table cannot take a version twice: restore the table as it was at that version, and remove "
            "its record in outputs/"
        )
    else:
        help = (
            "with --force, the later versions are removed from text outputs and files of changes; tables of "
            "PostgreSQL are written again; other outputs keep them, and later runs append to them"
        )
    message = f"outputs have versions after {to}: {names}"
    return StateRefused("OUTPUT_AHEAD", message, help=help, path=refused[0].output)


def _apply(checkpoint: Checkpoint, plan: Rollback) -> None:
    # The lock may not show a run that is suspended or on another machine. From here on, such a run
    # stops with a conflict.
    checkpoint.claim()
    for output in plan.outputs:
        cut_output(checkpoint.folder, output, plan.to, checkpoint.fence)
    target = checkpoint.snapshot(plan.to)
    retention = checkpoint.retention_state()
    checkpoint.keep(replace(retention, swept=min(retention.swept, plan.to)))
    # Newest first: each remaining version has all versions before it.
    for version in reversed(checkpoint.versions()):
        if version > plan.to:
            checkpoint.snapshots.delete(snapshot_name(version))
    _delete_files(checkpoint, target)
    # The deletions must be durable before the plan of the rollback is deleted.
    for folder in (checkpoint.snapshots, checkpoint.state, checkpoint.changes):
        folder.sync()
    checkpoint.root.delete(ROLLBACK)
    checkpoint.root.sync()


def _delete_files(checkpoint: Checkpoint, target: Snapshot) -> None:
    """Delete state and changes of later versions, and the documents of plans without versions."""
    for storage, named in (
        (checkpoint.state, state_files(target)),
        (checkpoint.changes, change_files(target)),
    ):
        for name in storage.names():
            written = version_of(name)
            if written is not None and written > target.version and name not in named:
                storage.delete(name)
    left = [checkpoint.snapshot(version) for version in checkpoint.versions()]
    plans = {document_name(plan) for s in left for plan in (s.plan, s.plan_before) if plan}
    for name in checkpoint.root.names():
        if PLANS.fullmatch(name) and name not in plans:
            checkpoint.root.delete(name)
