"""The counters and timers of a task."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from substrait_agg.operator.common.names import WEIGHT
from substrait_agg.state.run import RunFile, RunWriter

COUNTERS = (
    "input_rows", "partial_rows", "touched", "emitted", "retracted", "inserted", "early", "quarantined",
    "waiting", "probes", "matches", "run_probes", "page_reads", "merges", "merged_rows", "merged_bytes", "written_bytes",
    "merge_us", "fold_us", "lookup_us", "write_us",
)  # fmt: skip
"""Counters of rows, groups, files and bytes, and timers in microseconds.

``quarantined`` and ``waiting`` are differences: by how much the number of such rows or groups
grows.
"""


class TaskCounters(dict[str, int]):
    """The counters of one task by name."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COUNTERS, 0))

    @contextmanager
    def timed(self, counter: str) -> Iterator[None]:
        """Add the time of a block, in microseconds."""
        began = time.monotonic_ns()
        yield
        self[counter] += (time.monotonic_ns() - began) // 1000

    def add(self, counters: Mapping[str, int]) -> None:
        """Add counters by name."""
        for name, count in counters.items():
            self[name] += count

    def changed(self, changes: pa.Table) -> None:
        """Count the rows of changes."""
        weights = changes.column(WEIGHT).to_numpy()
        self["retracted"] += int((weights < 0).sum())
        self["inserted"] += int((weights > 0).sum())

    def merged(self, runs: Iterable[RunFile | None]) -> None:
        """Count the runs that merges wrote."""
        for run in runs:
            if run is not None:
                self["merges"] += 1
                self["merged_rows"] += run.rows
                self["merged_bytes"] += run.bytes
                self["written_bytes"] += run.bytes

    def closed(self, writer: RunWriter) -> RunFile | None:
        """Close a run, and measure the time."""
        with self.timed("write_us"):
            run = writer.close()
        self["written_bytes"] += run.bytes if run is not None else 0
        return run
