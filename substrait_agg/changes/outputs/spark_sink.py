"""A sink that passes the changes of every version to a function as a DataFrame.

This module does not import Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from substrait_agg.changes.outputs.sinks import SinkContext
from substrait_agg.changes.outputs.versioned_sink import VersionedSink


class SparkSink(VersionedSink):
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

    def __init__(self, write: Callable[[Any, int], None], name: str = "spark-sink") -> None:
        super().__init__(name, f"spark=function {name}")
        self._write = write
        self._frame: Callable[[Any], Any] | None = None

    def _read_position(self, place: SinkContext) -> int | None:
        self._frame = place.frame
        return super()._read_position(place)

    def _deliver(self, changes: Any, version: int) -> None:
        if self._frame is None:
            raise TypeError("the sink has nothing to make DataFrames with")
        if changes.num_rows:
            self._take(self._frame, changes, version)

    def _take(self, frame: Callable[[Any], Any], changes: Any, version: int) -> None:
        self._write(frame(changes), version)
