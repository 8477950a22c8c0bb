"""Open the outputs of a run and deliver to them."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, TextIO

from substrait_agg.changes.delivery.output_cursor import OutputCursor, ReadableView
from substrait_agg.changes.outputs.outputs import OutputSpec, open_output
from substrait_agg.changes.outputs.sinks import Callback, Sink, SinkContext
from substrait_agg.changes.records import Record
from substrait_agg.changes.targets.spark import SparkTarget
from substrait_agg.commit.log.fence import NO_FENCE, Fence
from substrait_agg.files.locations import Location, location_of
from substrait_agg.metrics.progress import SinkProgress


class Delivery:
    """Delivers committed versions to sinks, each from its own position.

    The methods of this class deliver in the calling thread and raise what a sink raises.
    `changes.delivery.output_worker.OutputWorkers` delivers in background threads.

    Args:
        outputs: KIND[=LOCATION] texts, `OutputSpec` or `Sink` objects.
        checkpoint: the folder of the view.
        since: the newest version when the run began, None for a new checkpoint. Sinks that keep no
            position start after it.
        on_changes: called with (changes, version) like a sink, at least once per version.
        stdout: the stream for outputs without a location.
        frame: converts a table to a Spark DataFrame, for sinks that need one.
        writer: opens outputs that Spark writes.
        fence: checks whether this run still owns the checkpoint.
        view: name of the view; empty for the view of one plan without a name.

    Raises:
        UsageError: an output is unknown, or its location holds other data.
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
        writer: Callable[[SparkTarget, SinkContext], Sink] | None = None,
        fence: Fence = NO_FENCE,
        view: str = "",
    ) -> None:
        self.context = SinkContext(
            location_of(checkpoint), stdout or sys.stdout, frame, writer, fence, view
        )
        with ExitStack() as opened:
            sinks: list[tuple[str, Sink]] = []
            for output in outputs:
                name, sink = open_output(output, self.context)
                opened.callback(sink.close)
                sinks.append((name, sink))
            if on_changes is not None:
                digest = f"-{hashlib.sha256(view.encode()).hexdigest()[:16]}" if view else ""
                path = self.context.checkpoint / "outputs" / f"on-changes{digest}.json"
                record = Record(path, "on_changes", fence, view)
                name = f"{view}=on_changes" if view else "on_changes"
                sinks.append((name, Callback(on_changes, record, since)))
            self.cursors = _cursors(sinks, since, fence)
            opened.pop_all()

    def deliver(self, view: ReadableView, *, show: bool = False, progress: Any = None) -> None:
        """Deliver every version of `view` that a sink has not received.

        Args:
            view: a view opened after the versions were committed.
            show: whether to pass the view also to the sinks that show every version (a run without
                an end).
            progress: progress of the run, for the sinks that display it.
        """
        for cursor in self.cursors:
            cursor.catch_up(view, show=show, progress=progress)

    def finish(self, view: ReadableView) -> None:
        """Deliver the remaining versions, then pass the view to every sink."""
        self.deliver(view)
        for cursor in self.cursors:
            cursor.finish(view)

    def progress(self, newest: int) -> tuple[SinkProgress, ...]:
        """Return the progress of every sink."""
        return tuple(cursor.progress(newest) for cursor in self.cursors)

    def close(self) -> None:
        """Close all sinks."""
        for cursor in self.cursors:
            cursor.sink.close()


def _cursors(
    sinks: Iterable[tuple[str, Sink]], since: int | None, fence: Fence
) -> tuple[OutputCursor, ...]:
    seen: Counter[str] = Counter()
    posts = []
    for name, sink in sinks:
        seen[name] += 1
        number = f"#{seen[name]}" if seen[name] > 1 else ""
        posts.append(OutputCursor(sink, f"{name}{number}", since, fence))
    return tuple(posts)
