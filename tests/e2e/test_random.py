"""Random plans over random changes: every version equals recomputation from all rows so far."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.files import write_in_order
from tests.e2e.random_rows import Case, Nested, change_table, random_case, random_rows, retracted
from tests.e2e.rows import Bag
from tests.e2e.running import Views, check_versions, maintain
from tests.sampling import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WEIGHTS = ["one", "op", "weight"]


def _batches(rng: random.Random, case: Case) -> list[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    batches = []
    for size in (rng.randint(1, 40), 0, rng.randint(20, 60), rng.randint(1, 10)):
        batch = [*random_rows(rng, case, size), *retracted(rng, rows, case)]
        rng.shuffle(batch)
        rows += batch
        batches.append(batch)
    return batches


def _check(
    spark: SparkSession | None, folder: Path, seed: str, weights: str, *, nested: bool = False
) -> None:
    rng = random.Random(seed)
    case = random_case(rng, weights)
    shape = Nested(case) if nested else case
    batches = _batches(rng, case)
    views: Views = {}
    rows: list[dict[str, Any]] = []
    wanted: list[Bag] = [shape.expected(rows)]
    for batch in batches:
        rows += batch
        wanted.append(shape.expected(rows))
    written = 0
    for partitions, count in ((rng.choice([1, 2, 4]), 2), (rng.choice([1, 2, 4]), 1), (2, 1)):
        tables = [change_table(rng, case, b) for b in batches[written : written + count]]
        write_in_order(folder / "in", tables, written)
        written += count
        views |= maintain(
            spark,
            shape.plan(),
            {"t": case.spec(folder / "in")},
            folder / "checkpoint",
            partitions=partitions,
        )
    check_versions(folder / "checkpoint", views, wanted)


@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("weights", WEIGHTS)
def test_every_version_equals_recomputation(
    spark: SparkSession, tmp_path: Path, weights: str, seed: int
) -> None:
    """Keys, values and weights at their edges; batches with and without rows; another number of partitions per run."""
    _check(spark, tmp_path, f"{weights} {seed}", weights)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_aggregates_over_aggregates(tmp_path: Path, seed: int) -> None:
    """The outer one takes the retractions of the inner one, of every type that a measure has."""
    _check(None, tmp_path, f"nested {seed}", "op", nested=True)


@pytest.mark.soak
def test_aggregates_over_aggregates_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    _check(spark, tmp_path, "nested 2", "op", nested=True)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1100))
@pytest.mark.parametrize("weights", WEIGHTS)
def test_many_more(spark: SparkSession, tmp_path: Path, weights: str, seed: int) -> None:
    """The same for many seeds, every third of them an aggregate over an aggregate."""
    _check(spark, tmp_path, f"{weights} {seed}", weights, nested=seed % 3 == 0)
