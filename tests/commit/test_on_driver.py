"""What the system refuses to a task on the driver is told as it is of one in a worker."""

from __future__ import annotations

import errno
from typing import Any
from unittest.mock import Mock, patch

import pytest

from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.errors import RunFailed
from substrait_agg.operator.common.emission import ALL
from substrait_agg.operator.registry import operator_of
from substrait_agg.spark.execution.operator_job import OperatorJob, run_job
from substrait_agg.spark.execution.strategy import BatchStrategy
from tests.crash.settings import chained


def test_a_full_disk_under_a_small_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that came to the driver: nothing is committed, and the code says what is to be done."""

    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    node = chained().flow.operators[0]
    state = OperatorState()
    job = OperatorJob(node, operator_of(node), "nowhere", 2, state, 1, ALL, (), final=False)
    nothing: Any = None
    monkeypatch.setattr("substrait_agg.spark.execution.operator_job.size_of", lambda *_: 0)
    monkeypatch.setattr("substrait_agg.spark.execution.operator_job.is_small", lambda *_: True)
    monkeypatch.setattr("substrait_agg.spark.execution.operator_job.on_driver", lambda *_: [])
    with (
        patch("substrait_agg.spark.execution.operator_job.run_task", full),
        pytest.raises(RunFailed) as refused,
    ):
        run_job(nothing, job, Mock(), BatchStrategy(), Mock())
    assert refused.value.code == "CHECKPOINT_NOT_WRITTEN"
