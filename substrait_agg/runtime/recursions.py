"""The bounds of recursions: their levels, and the rows that a batch changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from substrait_agg.errors import RunFailed
from substrait_agg.flow.graph.aggregate import Recursion
from substrait_agg.flow.graph.nodes import Flow
from substrait_agg.required import require
from substrait_agg.runtime.job import JobResult, counters_of


def recursions_by_end(flow: Flow) -> Mapping[int, Sequence[Recursion]]:
    """Return the recursions whose rounds end with an operator, by its id; inner ones come first."""
    ends: dict[int, list[Recursion]] = {}
    for node in reversed(flow.operators):
        if isinstance(node, Recursion):
            ends.setdefault(require(node.loop_end), []).append(node)
    return ends


def check_levels(recursion: Recursion, result: JobResult) -> None:
    """Check that no row is left at the level without a next one.

    Raises:
        RunFailed: RECURSION_LEVELS_EXCEEDED.
    """
    if _count("beyond", result) > 0:
        raise RunFailed(
            "RECURSION_LEVELS_EXCEEDED",
            f"a recursion has rows after {recursion.limit} levels; nothing of the batch was committed",
            help="end the recursion by a condition on its columns, or write MAX RECURSION LEVEL behind its name",
            path=recursion.path,
        )


def check_rows(recursion: Recursion, result: JobResult) -> None:
    """Check that the rounds of a batch have not changed too many rows.

    Raises:
        RunFailed: RECURSION_ROWS_EXCEEDED.
    """
    rows = _count("inserted", result) + _count("retracted", result)
    if rows > recursion.most_rows:
        raise RunFailed(
            "RECURSION_ROWS_EXCEEDED",
            f"a batch changes more than {recursion.most_rows} rows of a recursion; nothing of the batch was committed",
            help="use smaller batches, or set spark.sql.cteRecursionRowLimit before the view is planned",
            path=recursion.path,
        )


def _count(counter: str, result: JobResult) -> int:
    return sum(counters.get(counter, 0) for counters in counters_of([result]))
