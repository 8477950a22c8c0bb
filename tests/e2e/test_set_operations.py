"""Set operations on Spark: two to four inputs, above and below aggregates, against a model and against DuckDB."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.feeds import Feed, check, churn
from tests.e2e.plans import Builder, read, set_operation
from tests.e2e.rows import Bag
from tests.set_operations import COPIES, expected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = {"a": "string", "b": "i32"}


def _feed(seed: int, table: str, how: str = "op", batches: int = 5) -> Feed:
    rng = random.Random(seed)

    def make() -> tuple[Any, ...]:
        return rng.choice(["p", "q", None]), rng.randint(0, 2)

    return Feed(table, COLUMNS, how, churn(rng, make, batches, 8))


@pytest.mark.parametrize("operation", COPIES)
def test_every_operation_at_every_version(
    spark: SparkSession, tmp_path: Path, operation: str
) -> None:
    """Rows come and go in both inputs, some are retracted a batch too early."""
    builder = Builder()
    plan = builder.plan(set_operation(operation, read("t", COLUMNS), read("u", COLUMNS)), "a", "b")

    def wanted(*inputs: Bag) -> Bag:
        return expected(operation, inputs)

    check(spark, tmp_path, plan, [_feed(1, "t"), _feed(2, "u")], wanted)
