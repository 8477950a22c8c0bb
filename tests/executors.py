"""Executors for tests: computation on the driver of a Spark run, and a record of its jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession

from substrait_agg.commit.documents.snapshot import OperatorState
from substrait_agg.runtime.executor import BranchInput
from substrait_agg.runtime.job import JobResult, OperatorJob
from substrait_agg.spark.execution.driver import Driver
from substrait_agg.spark.query import start
from substrait_agg.spark.query.spark_executor import SparkExecutor

ON_SPARK = Driver(batch_bytes=0, rows=0)
"""Everything is computed in Spark jobs."""


@dataclass(frozen=True)
class RandomDriver(Driver):
    """Some of the small batches are computed on the driver, some on Spark, whose jobs take longer."""

    turns: Random = Random(0)  # noqa: RUF009 - it is replaced
    share: float = 0.7
    """Of the batches that the driver may take."""

    def takes_rows(
        self, spark: SparkSession, size: int, state: OperatorState, *, times: int = 1
    ) -> bool:
        """Take some of the batches that the limits allow."""
        allowed = super().takes_rows(spark, size, state, times=times)
        return self.turns.random() < self.share and allowed

    def takes_sums(self, spark: SparkSession, state: OperatorState) -> bool:
        """Take some of the batches that the limits allow."""
        return self.turns.random() < self.share and super().takes_sums(spark, state)


class WatchedExecutor(SparkExecutor):
    """An executor that calls a function after every job.

    Args:
        session: the session of the run.
        driver: what the driver computes itself.
        watch: takes the executor, the job and its result.
    """

    def __init__(
        self,
        session: SparkSession,
        driver: Driver,
        watch: Callable[[SparkExecutor, OperatorJob, JobResult], Any],
    ) -> None:
        super().__init__(session, driver)
        self._watch = watch

    def run(
        self,
        job: OperatorJob,
        inputs: Sequence[DataFrame],
        changes: Sequence[BranchInput[DataFrame]] = (),
    ) -> JobResult:
        """Run an operator, and call the function."""
        result = super().run(job, inputs, changes)
        self._watch(self, job, result)
        return result


@contextmanager
def executors(make: Callable[[SparkSession], SparkExecutor]) -> Iterator[None]:
    """Have runs on Spark use executors made by a function."""
    with patch.object(start, "SparkExecutor", make):
        yield


@contextmanager
def drivers(driver: Driver) -> Iterator[None]:
    """Make runs on Spark compute the batches that `driver` selects on the driver."""
    with executors(lambda session: SparkExecutor(session, driver)):
        yield


@contextmanager
def watched(watch: Callable[[SparkExecutor, OperatorJob, JobResult], Any]) -> Iterator[None]:
    """Call a function after every job of a run on Spark."""
    make: Callable[[SparkSession], SparkExecutor] = vars(start)["SparkExecutor"]
    with executors(lambda session: WatchedExecutor(session, make(session).driver, watch)):
        yield
