"""Batches that are computed as soon as Spark has written their offsets: by whom, and in which order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Event, active_count
from types import SimpleNamespace
from typing import Any

import pytest

from substrait_agg.spark.offsets.folder_watcher import FolderWatcher
from substrait_agg.spark.query.planned_batches import NeedsSpark, PlannedBatches, SettingsOnly

SECONDS = 30


def write(folder: Path, batch: int) -> None:
    """Write the offsets of a batch as Spark does."""
    draft = folder / f".{batch}.tmp"
    draft.write_text("v1")
    draft.rename(folder / str(batch))
    (folder / f".{batch}.crc").write_bytes(b"")


@contextmanager
def watched(folder: Path, compute: Callable[[int], None]) -> Iterator[PlannedBatches]:
    batches = PlannedBatches(compute)
    batches.begin(folder)
    try:
        yield batches
    finally:
        batches.end()


def test_a_planned_batch_is_computed_once_and_waited_for(tmp_path: Path) -> None:
    begun, may_end, computed = Event(), Event(), list[int]()

    def compute(batch: int) -> None:
        begun.set()
        assert may_end.wait(SECONDS)
        computed.append(batch)

    with watched(tmp_path, compute) as batches:
        write(tmp_path, 1)
        assert begun.wait(SECONDS)
        may_end.set()
        batches.wait(1)
        assert computed == [1]
        assert batches.has_computed(1)
        assert not batches.has_computed(2)


def test_a_batch_that_spark_hands_over_first_is_left_to_it(tmp_path: Path) -> None:
    computed = Queue[int]()
    with watched(tmp_path, computed.put) as batches:
        batches.wait(1)
        write(tmp_path, 1)
        write(tmp_path, 2)
        assert computed.get(timeout=SECONDS) == 2
        batches.wait(2)
        assert not batches.has_computed(1)
        assert batches.has_computed(2)


def test_the_first_batch_of_a_stream_is_computed(tmp_path: Path) -> None:
    """Spark has not created the folder of its offsets yet."""
    folder, computed = tmp_path / "spark" / "offsets", Queue[int]()
    with watched(folder, computed.put):
        write(folder, 0)
        assert computed.get(timeout=SECONDS) == 0


def test_an_error_is_raised_where_spark_hands_the_batch_over(tmp_path: Path) -> None:
    begun = Event()

    def fail(_batch: int) -> None:
        begun.set()
        raise OSError("no space")

    with watched(tmp_path, fail) as batches:
        write(tmp_path, 1)
        assert begun.wait(SECONDS)
        batches.wait(1)
        with pytest.raises(OSError, match="no space"):
            batches.has_computed(1)


def test_batches_that_need_spark_are_tried_more_and_more_rarely(tmp_path: Path) -> None:
    tried = list[int]()
    stand_in: Any = SettingsOnly(SimpleNamespace(conf={"a": "b"}))  # type: ignore[arg-type]
    assert stand_in.sparkSession.conf.get("a") == "b"

    def compute(batch: int) -> None:
        tried.append(batch)
        if batch < 8:
            stand_in.sparkSession.read.parquet("x")

    with watched(tmp_path, compute) as batches:
        for batch in range(20):
            write(tmp_path, batch)
        write(tmp_path, 99)
        while 99 not in tried:
            time.sleep(0.001)
        batches.wait(99)
        assert batches.has_computed(99)
    assert tried == [0, 2, 6, *range(14, 20), 99]


def test_the_end_waits_for_the_batch_in_progress(tmp_path: Path) -> None:
    threads = active_count()
    begun, computed = Event(), list[int]()

    def compute(batch: int) -> None:
        begun.set()
        computed.append(batch)

    with watched(tmp_path, compute):
        write(tmp_path, 1)
        assert begun.wait(SECONDS)
    write(tmp_path, 2)
    assert computed == [1]
    assert active_count() == threads


def test_a_folder_that_cannot_be_watched_leaves_all_batches_to_spark(tmp_path: Path) -> None:
    assert FolderWatcher.of(tmp_path / "missing") is None
    with watched(tmp_path / "missing", lambda _: None) as batches:
        batches.wait(1)
        assert not batches.has_computed(1)


def test_a_stand_in_gives_settings_only() -> None:
    stand_in: Any = SettingsOnly(SimpleNamespace(conf={}))  # type: ignore[arg-type]
    with pytest.raises(NeedsSpark):
        stand_in.range(3)


def test_a_stand_in_reads_a_setting_once() -> None:
    conf = {"a": "b"}
    stand_in: Any = SettingsOnly(SimpleNamespace(conf=conf))  # type: ignore[arg-type]
    assert stand_in.conf.get("a") == "b"
    assert stand_in.conf.get("c") is None
    conf.clear()
    assert stand_in.conf.get("a") == "b"
    assert stand_in.conf.get("c", "d") == "d"
