"""Run batches one after the other: what is new, read it, compute, publish, go on.

The positions of the sources are in the version that a batch makes, and nowhere else. A batch that was not
published has not happened: the next run looks for what is new again, and may cut its batches differently.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from pyspark.sql import SparkSession

from substrait_agg.spark.admission.read_limits import AdmissionControl
from substrait_agg.spark.positions.sources import BatchRead, Sources
from substrait_agg.spark.session.errors import GONE_ERRORS, spark_gone, spark_lost
from substrait_agg.spark.session.session import active_session

SHORTEST_PAUSE = 0.01
"""Seconds between two looks for new rows, at least."""
LONGEST_PAUSE = 1.0
"""Seconds between two looks of a run without an interval, at most."""
REST = 400
"""How much longer a pause takes than the work before it, so that an idle run uses less than 1 % of a core."""
SHORT_REST = 50
"""The same for `AWAKE_SECONDS` after a batch, when more rows are likely."""
AWAKE_SECONDS = 2.0
CHECK_SECONDS = 5.0
"""Seconds between two checks that Spark answers and that no other run has taken over."""
_PATIENCE = 0.1
"""Seconds between two looks for the end of a query, and between two interruptions of jobs."""


class Loop:
    """The thread that runs the batches of a run.

    Args:
        spark: the session of the batches.
        sources: the sources of the run.
        admission: limits what a batch reads.
        interval: seconds between batches; None: until all that is there now has been read.
        compute: computes a batch and commits it.
        emit: emits groups that are due without rows; returns the next instant, in microseconds since 1970.
        end: emits all groups that wait, at the end of the input.
        clock: returns the current instant, in microseconds since 1970.
        check: raises if another run has taken over the checkpoint.
    """

    def __init__(
        self,
        spark: SparkSession,
        sources: Sources,
        admission: AdmissionControl,
        interval: float | None,
        compute: Callable[[BatchRead], None],
        emit: Callable[[], int | None],
        end: Callable[[], None],
        clock: Callable[[], int],
        check: Callable[[], None],
    ) -> None:
        self._spark, self._sources, self._admission = spark, sources, admission
        self._interval, self._compute, self._emit, self._end = interval, compute, emit, end
        self._clock, self._check = clock, check
        self._due: int | None = None
        self._stopped, self._checked = False, time.monotonic()
        self._worked = -AWAKE_SECONDS
        self.error: Exception | None = None
        self._group = f"substrait-agg-{id(self):x}"
        self._thread = threading.Thread(target=self._run, name="batches", daemon=True)

    def begin(self, due: int | None) -> None:
        """Begin to run batches.

        Args:
            due: when groups become due that no rows touch, in microseconds since 1970.
        """
        self._due = due
        self._thread.start()

    def emit_at(self, due: int | None) -> None:
        """Emit groups at an instant, unless they are emitted earlier."""
        self._due = min((at for at in (self._due, due) if at is not None), default=None)

    def wait(self) -> None:
        """Wait until the last batch."""
        self._thread.join()

    def stop(self) -> None:
        """Stop, and discard the batch in progress."""
        self._stopped = True
        self._sources.wake()
        while self._thread.is_alive() and self._thread is not threading.current_thread():
            # A Spark that is gone runs no jobs.
            with suppress(*GONE_ERRORS):
                self._spark.sparkContext.cancelJobGroup(self._group)
            self._thread.join(_PATIENCE)

    @property
    def is_stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._stopped

    def _run(self) -> None:
        try:
            with active_session(self._spark):
                self._begin_sources()
                self._run_batches()
        except Exception as error:  # noqa: BLE001 - `wait` of the run raises it
            # `stop` discards the batch in progress, and interrupts it.
            self.error = None if self._stopped else error

    def _begin_sources(self) -> None:
        self._spark.sparkContext.setJobGroup(
            self._group, "substrait-agg: batches", interruptOnCancel=True
        )
        interval = (
            None if self._interval is None else f"{round(self._interval * 1000)} milliseconds"
        )
        self._sources.begin(interval)
        self._sources.look()

    def _run_batches(self) -> None:
        cpu = time.thread_time()
        while not self._stopped:
            began = time.monotonic()
            has_run = self._run_next()
            if self._interval is None:
                if not has_run and self._sources.has_ended:
                    self._end()
                    return
                self._pause(0 if has_run else _PATIENCE)
                continue
            self._check_alive()
            before, cpu = cpu, time.thread_time()
            rest = 0.0 if has_run else self._rest(cpu - before)
            self._pause(max(rest, self._interval - (time.monotonic() - began)))
            self._sources.look()

    def _rest(self, cpu: float) -> float:
        """Return how long to rest after a look that took processor time, in seconds."""
        is_awake = time.monotonic() - self._worked < AWAKE_SECONDS
        rest = (SHORT_REST if is_awake else REST) * cpu
        return min(max(rest, SHORTEST_PAUSE), LONGEST_PAUSE)

    def _run_next(self) -> bool:
        """Run a batch if there is anything to read, else emit groups that are due; return whether one ran."""
        read = self._sources.next(self._admission.begin())
        if read.is_empty:
            if self._due is not None and self._clock() >= self._due:
                self._due = None
                self.emit_at(self._emit())
            return False
        began = time.monotonic()
        self._compute(read)
        self._worked = time.monotonic()
        self._admission.end(self._worked - began, self._sources.sizes(read))
        return True

    def _pause(self, seconds: float) -> None:
        """Wait for the next batch, until groups are due or `stop` is called."""
        end = time.monotonic() + seconds
        while not self._stopped and (left := end - time.monotonic()) > 0:
            due = LONGEST_PAUSE if self._due is None else (self._due - self._clock()) / 1e6
            if due <= 0:
                return
            if self._sources.wait(min(left, due, LONGEST_PAUSE)):
                return
            self._check_alive()

    def _check_alive(self) -> None:
        """Check that Spark answers and reads, and that no other run has taken over, once in a while."""
        if time.monotonic() - self._checked >= CHECK_SECONDS:
            self._check()
            if spark_gone():
                raise spark_lost()
            if self._interval is not None:
                self._sources.check_alive()
            self._checked = time.monotonic()
