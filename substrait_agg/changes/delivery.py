"""Delivery to all outputs of a run."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, TextIO

from substrait_agg.changes.files import Record
from substrait_agg.changes.outputs import OutputSpec, open_output
from substrait_agg.changes.posts import Post, Readable
from substrait_agg.changes.sinks import Callback, Place, Sink
from substrait_agg.changes.targets import SparkTarget
from substrait_agg.commit.fence import OPEN, Fence
from substrait_agg.locations import Location, located
from substrait_agg.metrics.progress import SinkProgress


class Delivery:
    """Brings sinks up to date with a view, each from where it is; only committed versions are delivered.

    Its own methods deliver in the thread that calls them and raise what a sink raises; `changes.courier.Couriers` deliver
    in threads of their own.

    Args:
        outputs: KIND[=LOCATION] texts, `OutputSpec` or `Sink` objects.
        checkpoint: the folder of the view.
        since: the version that the checkpoint had when the run began, None for a new one: sinks that keep no
            position start after it.
        on_changes: called with (changes, version) like a sink, at least once per version.
        stdout: the stream for outputs without a location.
        frame: makes a Spark DataFrame of a table, for sinks that need one.
        writer: opens outputs that Spark writes.
        fence: tells whether this run still owns the checkpoint.

    Raises:
        UsageError: an output is not known, or holds something else.
        StateRefused: an output or its record is damaged.
    """

    def __init__(
        self,
        outputs: Iterable[str | OutputSpec | Sink],
        *,
        checkpoint: str | Location,
        since: int | None = None,
        on_changes: Callable[[Any, int], None] | None = None,
        stdout: TextIO | None = None,
        frame: Callable[[Any], Any] | None = None,
        writer: Callable[[SparkTarget, Place], Sink] | None = None,
        fence: Fence = OPEN,
    ) -> None:
        self.place = Place(located(checkpoint), stdout or sys.stdout, frame, writer, fence)
        with ExitStack() as opened:
            sinks: list[tuple[str, Sink]] = []
            for output in outputs:
                name, sink = open_output(output, self.place)
                opened.callback(sink.close)
                sinks.append((name, sink))
            if on_changes is not None:
                path = self.place.checkpoint / "outputs" / "on-changes.json"
                record = Record(path, "on_changes", fence)
                sinks.append(("on_changes", Callback(on_changes, record, since)))
            self.posts = _posts(sinks, since, fence)
            opened.pop_all()

    def deliver(self, view: Readable, *, show: bool = False, progress: Any = None) -> None:
        """Deliver every version of `view` that a sink has not had.

        Args:
            view: a view opened after the versions were committed.
            show: also hand the view to the sinks that show every version (a run without an end).
            progress: how far the run is, for the sinks that tell it.
        """
        for post in self.posts:
            post.catch_up(view, show=show, progress=progress)

    def finish(self, view: Readable) -> None:
        """Deliver what is left, then hand every sink the view."""
        self.deliver(view)
        for post in self.posts:
            post.finish(view)

    def progress(self, newest: int) -> tuple[SinkProgress, ...]:
        """How far every sink is, where the newest version is `newest`."""
        return tuple(post.progress(newest) for post in self.posts)

    def close(self) -> None:
        """Let go of the files of all sinks."""
        for post in self.posts:
            post.sink.close()


def _posts(sinks: Iterable[tuple[str, Sink]], since: int | None, fence: Fence) -> tuple[Post, ...]:
    seen: Counter[str] = Counter()
    posts = []
    for name, sink in sinks:
        seen[name] += 1
        number = f"#{seen[name]}" if seen[name] > 1 else ""
        posts.append(Post(sink, f"{name}{number}", since, fence))
    return tuple(posts)
