"""A sink that passes the changes of every version to a function as a DataFrame.

This module does not import Spark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from substrait_agg.changes.outputs.sinks import Sink, SinkContext
from substrait_agg.changes.records import Record
from substrait_agg.commit.log.fence import NO_FENCE, Fence
from substrait_agg.files.locations import Location


class SparkSink(Sink):
    """Calls a function with the changes of every version as a DataFrame.

    The function is called in order, at least once for every version that changed the view, from a
    thread beside the batches. A version counts as delivered when the function returns. It is
    delivered again if the function raises or the run is killed before the position is stored. The
    function should be idempotent by ``__version``, which is the same in every row of the frame.

    Args:
        write: called with (DataFrame, version); the frame has the view's columns, ``__version`` and
            ``__weight``.
        name: key of the position in the checkpoint; sinks of one run need different names.
    """

    takes_changes = True
    keeps_position = True

    def __init__(self, write: Callable[[Any, int], None], name: str = "spark-sink") -> None:
        self.name = name
        self._write = write
        self._identity = f"function {name}"
        self._frame: Callable[[Any], Any] | None = None
        self._record: Record | None = None
        self._position: int | None = None

    def _record_in(self, checkpoint: Location, fence: Fence = NO_FENCE, view: str = "") -> Record:
        digest = hashlib.sha256(f"spark {self._identity}".encode()).hexdigest()[:16]
        path = checkpoint / "outputs" / f"{digest}.json"
        return Record(path, f"spark={self._identity}", fence, view)

    def reached(self, checkpoint: Location, view: str = "") -> int | None:
        """Return the last version delivered to the sink in a checkpoint; write nothing."""
        position = self._record_in(checkpoint, view=view).read()
        return position[0] if position else None

    def begin(self, place: SinkContext) -> None:
        """Set up the conversion to DataFrames, and read the position of earlier runs."""
        self._record = self._record_in(place.checkpoint, place.fence, place.view)
        position = self._record.read()
        self._position = position[0] if position else None
        self._record.take_over(self._position)
        self._frame = place.frame

    @property
    def record(self) -> Record:
        """Return the record of the position; available after `begin`."""
        if self._record is None:
            raise TypeError("the sink has not started")
        return self._record

    @property
    def position(self) -> int | None:
        """Return the last version for which the function returned."""
        return self._position

    def deliver(self, changes: Any, version: int) -> None:
        """Call the function with the changes of a version, if there are any."""
        if self._frame is None:
            raise TypeError("the sink has nothing to make DataFrames with")
        if changes.num_rows:
            self._take(self._frame, changes, version)
        self.record.write(version)

    def _take(self, frame: Callable[[Any], Any], changes: Any, version: int) -> None:
        self._write(frame(changes), version)
