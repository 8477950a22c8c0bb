"""The learned limit of a batch is stored with its version, and the next run begins with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from substrait_agg.commit.documents.snapshot import AdmissionRecord
from substrait_agg.spark.admission.read_limits import FIRST_BYTES, AdmissionControl, first_bytes
from substrait_agg.spark.positions.file_source import FileSource
from substrait_agg.spark.positions.listing import LocalListing
from substrait_agg.spark.sources.specs import as_spec
from tests.local.run import LocalRun
from tests.views.plans import ALL, BATCHES, sources, write_batches

NOTHING = AdmissionRecord()
INFINITE = float("inf")


@pytest.mark.parametrize(
    ("stored", "target", "limit"),
    [
        (NOTHING, 2.0, FIRST_BYTES),
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
    stored: AdmissionRecord, target: float, limit: int
) -> None:
    """A limit that cannot be one is ignored."""
    assert first_bytes(target, stored) == limit
    assert AdmissionControl(target, [INFINITE], stored).limit == limit


def test_a_run_without_a_target_has_the_limits_of_the_user_and_keeps_what_was_learned() -> None:
    stored = AdmissionRecord(90_000, 2_000_000)
    control = AdmissionControl(None, [INFINITE, 500.0], stored)
    for _ in range(2):
        assert control.begin() == (INFINITE, 500.0)
        control.end(60.0, (1e9, 100.0))
    assert (control.limit, control.record) == (None, stored)


def test_tables_share_the_limit_and_keep_that_of_the_user() -> None:
    stored = AdmissionRecord(90_000, 2_000_000)
    control = AdmissionControl(1.0, [INFINITE, 5_000.0], stored)
    assert control.begin() == (40_000.0, 5_000.0)
    assert control.record == AdmissionRecord(45_000, 1_000_000)
    assert AdmissionControl(2.0, [INFINITE, INFINITE], stored).begin() == (45_000.0, 45_000.0)


def test_batches_take_whole_files_up_to_a_limit_that_a_restart_keeps(tmp_path: Path) -> None:
    """The second run begins with the limit that the last batch of the first one stored."""
    for number in range(200):
        (tmp_path / f"{number:03}.csv").write_text("1" * (5_000 if number == 20 else 100))

    def files(read: Sequence[str]) -> FileSource:
        spec = as_spec(f"csv:{tmp_path}")
        source = FileSource(LocalListing(spec.location, spec.file_rules, read), spec)
        source.look()
        return source

    def batch(control: AdmissionControl, source: FileSource, seconds_per_byte: float) -> int:
        (limit,) = control.begin()
        assert control.limit == int(limit)
        taken = source.take(limit)
        size = sum(file.size for file in taken)
        assert size <= limit or len(taken) == 1
        following = source._waiting[0].size if source.has_waiting else INFINITE
        assert size + following > limit
        control.end(size * seconds_per_byte, (size,))
        read.extend(file.uri for file in taken)
        return len(taken)

    read: list[str] = []
    stored, source = AdmissionRecord(250, 2_000_000), files(read)
    control = AdmissionControl(2.0, [INFINITE], stored)
    counts = [batch(control, source, 1e-3) for _ in range(8)]
    assert counts[0] == 2
    assert 1 in counts, "the large file is read alone"
    assert max(counts) > 4
    learned = control.record
    control, source = AdmissionControl(2.0, [INFINITE], learned), files(read)
    assert batch(control, source, 1e-1) == learned.bytes // 100
    while source.has_waiting:
        last = batch(control, source, 1e-1)
    assert last == 1, "batches that are too slow become small"
    assert sorted(read) == sorted(path.as_uri() for path in tmp_path.iterdir())


def test_a_version_stores_the_limit_and_the_next_run_begins_with_it(tmp_path: Path) -> None:
    """Of several views; a run without a target keeps the limit, and an older version has its own."""
    write_batches(tmp_path, BATCHES)

    def started() -> LocalRun:
        return LocalRun(ALL, sources(tmp_path), checkpoint=tmp_path / "checkpoint")

    run = started()
    assert run._batches.admission == NOTHING
    for limit in (90_000, 70_000):
        run._batches.admission = AdmissionRecord(limit, 2_000_000)
        assert run.batch()
    run._close()
    store = run._checked.store
    assert [store.snapshot(version).admission.bytes for version in (0, 1, 2)] == [0, 90_000, 70_000]
    run = started()
    learned = run._batches.admission
    assert learned == AdmissionRecord(70_000, 2_000_000)
    assert AdmissionControl(1.0, [INFINITE], learned).begin() == (35_000.0,)
    run.wait()
    snapshot = store.newest_snapshot()
    assert snapshot is not None
    assert snapshot.admission == learned
    assert b'"admission"' not in replace(snapshot, admission=NOTHING).to_bytes()
