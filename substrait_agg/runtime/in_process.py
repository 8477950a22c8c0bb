"""Compute in this process what tasks compute on Spark. Errors of files are those of a task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from errno import EACCES, EDQUOT, EFBIG, ENOSPC, EPERM, EROFS

import pyarrow as pa

from substrait_agg.commit.tasks.change_writer import Keep
from substrait_agg.commit.tasks.consolidate import (
    Consolidated,
    Consolidation,
    consolidate_in_memory,
)
from substrait_agg.commit.tasks.difference import DifferencePlan, difference
from substrait_agg.commit.tasks.task import run_task
from substrait_agg.commit.tasks.task_plan import TaskPlan, TaskResult
from substrait_agg.errors import RunFailed
from substrait_agg.redaction import clean

NOTHING_COMMITTED = "nothing of the batch was committed"
REFUSALS = (EPERM, EACCES, EFBIG, ENOSPC, EROFS, EDQUOT)
"""Numbers of errors by which a system refuses to write."""


def run_here(
    task: TaskPlan, rows: Iterable[pa.RecordBatch] = (), keep: Keep | None = None
) -> TaskResult:
    """Run a task. The commit flushes the files of all such tasks together.

    Args:
        task: the task.
        rows: its rows.
        keep: as that of `run_task`.

    Raises:
        RunFailed: a value does not fit, or a file cannot be read or written.
    """
    try:
        return run_task(replace(task, flushes=False), rows, keep)
    except OSError as error:
        raise files_failed(error) from error


def difference_here(plan: DifferencePlan) -> Consolidated:
    """Compare two states of an operator.

    Raises:
        RunFailed: a file cannot be read or written.
    """
    try:
        return difference(plan)
    except OSError as error:
        raise files_failed(error) from error


def consolidate_here(work: Consolidation) -> Consolidated | None:
    """Consolidate the changes of a version; None if no rows are equal.

    Raises:
        RunFailed: nothing was committed.
    """
    if work.rows < 2:
        return None
    try:
        return consolidate_in_memory(work)
    except OSError as error:
        raise files_failed(error) from error


def files_failed(error: OSError) -> RunFailed:
    """Return the error for files that a task could not read or write."""
    if error.errno in REFUSALS:
        return not_written(clean(str(error)))
    return computation_failed(clean(str(error)))


def not_written(reason: str) -> RunFailed:
    """Return the error for a checkpoint that a task could not write."""
    return RunFailed(
        "CHECKPOINT_NOT_WRITTEN",
        f"a task could not write in the checkpoint: {reason}",
        help=f"check the free space and the permissions of the folder, then run again; {NOTHING_COMMITTED}",
    )


def computation_failed(reason: str) -> RunFailed:
    """Return the error for a batch that could not be computed."""
    return RunFailed(
        "BATCH_FAILED",
        f"Spark could not compute the batch: {reason}",
        help=f"{NOTHING_COMMITTED}; correct the input or the plan and run again",
    )
