"""The learned limit of a batch is stored with its version, and the next run begins with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from substrait_agg.commit.documents.snapshot import AdmissionRecord
from substrait_agg.run_options import RunOptions
from substrait_agg.spark.admission.read_limits import (
    FIRST_BYTES,
    AdmissionControl,
    first_bytes,
    with_first_limits,
)
from substrait_agg.spark.sources.specs import SourceSpec, as_spec
from tests.local.run import LocalRun
from tests.views.plans import ALL, BATCHES, sources, write_batches

NO_SPARK: Any = None


@pytest.mark.parametrize(
    ("stored", "target", "limit"),
    [
        (None, 2.0, FIRST_BYTES),
        (AdmissionRecord(), 2.0, FIRST_BYTES),
        (AdmissionRecord(90_000, 2_000_000), 2.0, 90_000),
        (AdmissionRecord(90_000, 2_000_000), 0.5, 22_500),
        (AdmissionRecord(90_000, 2_000_000), 20.0, 900_000),
        (AdmissionRecord(3, 60_000_000), 0.001, 1),
        (AdmissionRecord(1 << 62, 1), 3600.0, 1 << 62),
        (AdmissionRecord(-5, 2_000_000), 2.0, FIRST_BYTES),
        (AdmissionRecord(90_000, -1), 2.0, FIRST_BYTES),
        (AdmissionRecord(0, 2_000_000), 2.0, FIRST_BYTES),
    ],
)
def test_a_run_begins_with_the_stored_limit_in_proportion_to_its_target(
    stored: AdmissionRecord | None, target: float, limit: int
) -> None:
    """A limit that cannot be one is ignored."""
    assert first_bytes(target, stored) == limit
    assert AdmissionControl(NO_SPARK, target, [False], stored).limit == limit


def test_the_files_of_the_first_batch_and_the_controller_have_the_same_limit() -> None:
    stored, options = AdmissionRecord(90_000, 2_000_000), RunOptions(checkpoint="c", latency="2s")
    given = {"a": "parquet:a", "b": "csv:b", "c": "parquet:c?static=true"}
    specs = with_first_limits(given, options, stored)
    assert [_spec(specs[name]).first_bytes for name in given] == [45_000, 45_000, None]
    control = AdmissionControl(NO_SPARK, 2.0, [False, False], stored)
    assert sum(control.limits.sources) == control.record.bytes == 90_000
    assert control.record == stored


def _spec(source: object) -> SourceSpec:
    assert isinstance(source, str | SourceSpec)
    return as_spec(source)


def test_a_version_stores_the_limit_and_the_next_run_begins_with_it(tmp_path: Path) -> None:
    """Of several views; a run without a target keeps the limit, and an older version has its own."""
    write_batches(tmp_path, BATCHES)
    options: dict[str, Any] = {"checkpoint": tmp_path / "checkpoint"}

    def started(**more: Any) -> LocalRun:
        return LocalRun(ALL, sources(tmp_path), **options, **more)

    def first_limits(run: LocalRun) -> list[int | None]:
        return [_spec(source).first_bytes for source in run._checked.sources.values()]

    run = started(latency="2s")
    assert first_limits(run) == [FIRST_BYTES // 2] * 2
    for limit in (90_000, 70_000):
        run._batches.admission = AdmissionRecord(limit, 2_000_000)
        assert run.batch()
    run._close()
    store = run._checked.store
    assert [store.snapshot(version).admission.bytes for version in (0, 1, 2)] == [0, 90_000, 70_000]
    run = started()
    assert first_limits(run) == [None, None]
    assert run.batch()
    run._close()
    run = started(latency="1s")
    assert first_limits(run) == [17_500, 17_500]
    assert run._batches.admission == AdmissionRecord(70_000, 2_000_000)
    run.wait()
    snapshot = store.newest_snapshot()
    assert snapshot is not None
    assert snapshot.admission == AdmissionRecord(70_000, 2_000_000)
    assert b'"admission"' not in replace(snapshot, admission=AdmissionRecord()).to_bytes()
