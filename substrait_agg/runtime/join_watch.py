"""Watch the joins of a run while they are computed: how many rows they have, and whether too many."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread

from substrait_agg.commit.tasks.join_rows import JoinRows
from substrait_agg.explanation.names import clean
from substrait_agg.flow.graph.graph import FeedbackOrigin, OperatorOrigin, Origin, TableOrigin
from substrait_agg.flow.graph.join import Join
from substrait_agg.flow.graph.nodes import Port
from substrait_agg.metrics.progress import JoinProgress
from substrait_agg.runtime.job import JobResult, OperatorJob

REPORT_SECONDS = 5.0
"""Time between two reports of a join that is being computed."""


class JoinWatch:
    """Watches joins, one at a time.

    Args:
        most: the most rows that a join may produce in a batch; 0 for any number.
        report: called every few seconds while a join produces rows, in a thread; None for nobody.
        seconds: time between two calls.
    """

    def __init__(
        self,
        most: int = 0,
        report: Callable[[], None] | None = None,
        seconds: float = REPORT_SECONDS,
    ) -> None:
        self._most, self._report, self._seconds = most, report, seconds
        self._now: tuple[int, JoinRows] | None = None

    @property
    def progress(self) -> JoinProgress | None:
        """Return the join that is being computed; None without one, or if it has no rows yet."""
        now = self._now
        rows = 0 if now is None else now[1].total()
        return None if now is None or not rows else JoinProgress(now[0], now[1].name, rows)

    @contextmanager
    def watch(self, job: OperatorJob) -> Iterator[OperatorJob]:
        """Watch an operator during a block, which runs the job that this yields."""
        if not isinstance(job.node, Join):
            yield job
            return
        with tempfile.NamedTemporaryFile(prefix="substrait-agg-") as file:
            rows = JoinRows(name_of(job.node), self._most, file.name)
            self._now = (job.node.id, rows)
            try:
                with self._report_progress():
                    yield replace(job, join_rows=rows)
            finally:
                self._now = None

    def check(self, job: OperatorJob, result: JobResult) -> None:
        """Check the rows of all tasks: those on other machines do not know each other's.

        Raises:
            RunFailed: JOIN_ROWS_TOO_MANY.
        """
        if job.join_rows is not None:
            job.join_rows.check(sum(file.rows for task in result.tasks for file in task.changes))

    @contextmanager
    def _report_progress(self) -> Iterator[None]:
        """Report during a block. An error of the report fails the block, as after a version."""
        if self._report is None:
            yield
            return
        report, ended, failures = self._report, Event(), list[Exception]()

        def tell() -> None:
            """Report at intervals until the block ends."""
            try:
                while not ended.wait(self._seconds):
                    if self.progress is not None:
                        report()
            except Exception as error:  # noqa: BLE001 - it is raised by the thread of the batch
                failures.append(error)

        thread = Thread(target=tell, name="join-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        if failures:
            raise failures[0]


def name_of(node: Join) -> str:
    """Return the name of a join in messages: its inputs, and its operator and place as in `explain`."""
    left, right = map(_side, node.inputs)
    return f"the {node.kind} join of {left} with {right} (operator {node.id}, at {node.path})"


def _side(port: Port) -> str:
    return ", ".join(dict.fromkeys(_origin(branch.origin) for branch in port.branches))


def _origin(origin: Origin) -> str:
    if isinstance(origin, TableOrigin):
        return f"table {clean('.'.join(origin.table))}"
    if isinstance(origin, OperatorOrigin | FeedbackOrigin):
        return f"operator {origin.operator}"
    return "rows of the plan"
