"""Check that Spark's own logs in a checkpoint agree with its versions."""

from __future__ import annotations

from pathlib import Path

from substrait_agg.commit.documents.snapshot import Snapshot
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.log.query_logs import batches, check_recorded_logs, query_id, read_offsets
from substrait_agg.commit.log.saved_logs import load, saved_name
from substrait_agg.tools.checks.findings import FindingCollector

TOGETHER = "restore the whole checkpoint folder from one copy, or start a new checkpoint"


def check_logs(checkpoint: Checkpoint, newest: Snapshot, findings: FindingCollector) -> None:
    """Check that Spark's logs continue where the newest version ends."""
    if newest.query is None:
        return
    if checkpoint.spark.is_remote:
        _check_saved(checkpoint, newest, findings)
        return
    folder = Path(checkpoint.spark_folder)
    if query_id(folder) != newest.query:
        message = "Spark's logs are missing, or belong to another query"
        findings.fault("OFFSETS_LOST", "spark/metadata", message, TOGETHER)
        return
    path = f"spark/offsets/{newest.batch}"
    with findings.caught("OFFSETS_LOST", path):
        if read_offsets(folder, newest.batch) is None:
            message = f"the log of Spark has no entry for batch {newest.batch}, which is committed"
            findings.fault("OFFSETS_LOST", path, message, TOGETHER)
    for log in newest.logs:
        with findings.caught("STATE_DAMAGED", f"spark/{log.name}"):
            check_recorded_logs(folder, (log,))
    planned, done = batches(folder / "offsets"), batches(folder / "commits")
    last = max([*(batch - 1 for batch in planned[-1:]), *done[-1:]], default=-1)
    # A run may be active: all batches that Spark records as done by now are committed by now.
    newest = checkpoint.snapshot(checkpoint.versions()[-1])
    if last > newest.batch:
        message = (
            f"Spark has finished batch {last}, but the newest version has batch {newest.batch}"
        )
        findings.fault("OFFSETS_DIFFER", "spark/offsets", message, TOGETHER)


def _check_saved(checkpoint: Checkpoint, newest: Snapshot, findings: FindingCollector) -> None:
    """Check the saved copies of Spark's logs.

    The content of those of the newest version is checked, and the existence of those of the
    versions that a rollback can choose.
    """
    for log in newest.logs:
        with findings.caught("OFFSETS_LOST", f"spark/{saved_name(log)}"):
            load(checkpoint.spark, log)
    names = set(checkpoint.spark.names())
    first = checkpoint.retention_state().state_from
    for version in checkpoint.versions():
        if first <= version < newest.version:
            for log in checkpoint.snapshot(version).logs:
                if saved_name(log) not in names:
                    path = f"spark/{saved_name(log)}"
                    findings.fault("OFFSETS_LOST", path, f"version {version} needs it", TOGETHER)
