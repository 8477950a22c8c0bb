"""Listeners are called in order, from one thread, and never block the run."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import substrait_agg as sa
from substrait_agg.metrics import Progress, listener
from substrait_agg.metrics.listener import Announcer
from substrait_agg.metrics.observers import Observers


@dataclass
class RecordingListener(sa.RunListener):
    """Records its calls, and the thread of each."""

    calls: list[str] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self.threads.add(threading.get_ident())

    def on_started(self, event: Any) -> None:
        self._note(f"started at {event.progress.version}")

    def on_progress(self, event: Any) -> None:
        self._note(f"version {event.progress.version}")

    def on_idle(self, event: Any) -> None:
        self._note(f"idle at {event.progress.version}")

    def on_terminated(self, event: Any) -> None:
        self._note(f"ended by {event.error}")


def until(what: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_everything_is_heard_in_order() -> None:
    heard = RecordingListener()
    observers = Observers(listener=heard)
    observers.begin(lambda: Progress(version=7), lambda: False)
    for version in (8, 9):
        observers.committed(Progress(version=version))
    observers.end(ValueError("full"))
    observers.end()
    assert heard.calls == ["started at 7", "version 8", "version 9", "ended by full"]
    assert len(heard.threads) == 1
    assert threading.get_ident() not in heard.threads


def test_a_run_without_work_is_idle_and_one_in_a_long_batch_is_not() -> None:
    heard, busy = RecordingListener(), [True]
    announcer = Announcer(heard, lambda: Progress(version=3), lambda: busy[0], "r", idle_after=0.02)
    time.sleep(0.1)
    assert heard.calls == []
    busy[0] = False
    until(lambda: heard.calls.count("idle at 3") > 1)
    announcer.announce_end(Progress(), None)
    assert heard.calls[-1] == "ended by None"


def test_what_a_listener_raises_is_logged_and_the_rest_is_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(RecordingListener):
        def on_progress(self, event: Any) -> None:
            super().on_progress(event)
            raise ValueError("no")

    heard = Broken()
    observers = Observers(listener=heard)
    with caplog.at_level(logging.WARNING, "substrait_agg"):
        observers.begin(Progress, lambda: False)
        observers.committed(Progress(version=0))
        observers.committed(Progress(version=1))
        observers.end()
    assert heard.calls[1:] == ["version 0", "version 1", "ended by None"]
    codes = [record.msg.code for record in caplog.records]  # type: ignore[union-attr]
    assert codes == ["LISTENER_FAILED"] * 2
    assert all(record.exc_info for record in caplog.records)


def test_a_listener_that_hangs_does_not_keep_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "LAST_CALL", 0.05)
    gate = threading.Event()

    ended: list[bool] = []

    class Hanging:
        def on_started(self, _event: Any) -> None:
            ended.append(gate.wait(60))

    observers = Observers(listener=Hanging())
    observers.begin(Progress, lambda: False)
    observers.end()
    assert not ended, "the run waited for the listener"
    gate.set()


def test_an_object_may_have_only_some_of_the_methods() -> None:
    observers = Observers(listener=object())
    observers.begin(Progress, lambda: False)
    observers.committed(Progress())
    observers.end()
