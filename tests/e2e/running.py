"""Runs on the shared Spark that keep the view of every version, and the check of all versions
against expected views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import substrait_agg as sa
from tests.e2e.rows import Bag, bag, running_sums
from tests.local.run import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from substrait_agg.spark.execution.strategy import BatchStrategy

Views = dict[int, Bag]


def starting(spark: SparkSession | None) -> Callable[..., Any]:
    """A function that starts a run as `substrait_agg.run` does, on Spark or on the local executor."""
    return run if spark is None else partial(sa.run, spark=spark)


def maintain(
    spark: SparkSession | None,
    plan: Any,
    sources: dict[str, Any],
    checkpoint: Path | str,
    **options: Any,
) -> Views:
    """Run to the end, without `spark` on the local executor; the view of every version that the run committed."""
    views: Views = {}

    def keep(progress: Any) -> None:
        views[progress.version] = bag(sa.open_view(checkpoint).to_arrow(progress.version))

    start = starting(spark)
    start(plan, sources, checkpoint=checkpoint, progress=keep, **options).wait()
    return views


def check_versions(checkpoint: Path | str, views: Views, wanted: Sequence[Bag]) -> None:
    """Check that every version of the view, and the sum of the changes up to it, equals the
    expected rows.
    """
    view = sa.open_view(checkpoint)
    assert view.versions() == sorted(views) == list(range(len(wanted)))
    sums = running_sums(view.changes(), view.versions())
    for version, rows in enumerate(wanted):
        assert views[version] == rows, _difference(
            f"view of version {version}", views[version], rows
        )
        assert sums[version] == rows, _difference(f"changes to {version}", sums[version], rows)


def _difference(what: str, found: Bag, wanted: Bag) -> str:
    lines = [f"found  {row} x{n}" for row, n in sorted((found - wanted).items(), key=str)]
    lines += [f"wanted {row} x{n}" for row, n in sorted((wanted - found).items(), key=str)]
    return "\n".join([what, *lines[:20]])


@contextmanager
def observed_strategy() -> Iterator[list[BatchStrategy]]:
    """Collect the final strategy of each operator in each batch."""
    from tests.executors import watched

    seen: list[BatchStrategy] = []
    with watched(lambda executor, job, _: seen.append(executor.strategies[job.node.id])):
        yield seen
