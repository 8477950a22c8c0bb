"""What Spark answers to a query at each version, the maintained view has as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import substrait_agg as sa
from tests.spark_sql import tables
from tests.spark_sql.queries import SHARE, Query, queries
from tests.spark_sql.results import Rows, SparkAnswers, are_same, maintained, planned

VIEWS = 35
"""Most views of one run."""


def _batches(share: Sequence[Query]) -> list[Sequence[Query]]:
    return [share[i : i + VIEWS] for i in range(0, len(share), VIEWS)]


ALWAYS = queries()[::SHARE]
LATER = [query for query in queries() if query not in ALWAYS]


@pytest.fixture(scope="module")
def oracle(spark: SparkSession) -> SparkAnswers:
    """Give what answers queries with Spark."""
    return SparkAnswers(spark)


@pytest.mark.parametrize(
    "batch",
    [
        *_batches(ALWAYS),
        *(pytest.param(batch, marks=pytest.mark.soak) for batch in _batches(LATER)),
    ],
    ids=lambda batch: f"{batch[0].kind}-{batch[0].number}",
)
def test_views_have_the_answers_of_spark(
    batch: Sequence[Query], oracle: SparkAnswers, spark: SparkSession, tmp_path: Path
) -> None:
    """A query that is refused has the code that its file says, and a remedy."""
    plans: dict[str, sa.Plan] = {}
    wrong: list[str] = []
    for i, query in enumerate(batch):
        try:
            plans[f"v{i}"] = planned(query, spark)
        except (sa.SqlRefused, sa.PlanRefused) as error:
            wrong += _unexpected(query, error)
    for name, found in maintained(plans, tmp_path, spark).items():
        query = batch[int(name[1:])]
        if query.refused or isinstance(found, Exception):
            wrong.append(f"{query}\n  is not refused, or fails: {found}")
        else:
            wrong += _differences(query, found, oracle)
    assert not wrong, "\n\n".join(wrong)


def _unexpected(query: Query, error: sa.SqlRefused | sa.PlanRefused) -> Iterator[str]:
    if not error.help or (error.code != query.refused and not query.is_open):
        yield f"{query}\n  {error}"


def _differences(query: Query, found: Sequence[Rows], oracle: SparkAnswers) -> Iterator[str]:
    if len(found) != tables.VERSIONS:
        yield f"{query}\n  has {len(found)} versions"
    for version, rows in enumerate(found):
        expected = oracle.rows(query, version)
        if not are_same(rows, expected, rounded=query.is_rounded):
            yield f"{query}\n  version {version}: {rows}\n  Spark: {expected}"


def test_a_frequency_below_zero_fails_as_in_spark(
    oracle: SparkAnswers, spark: SparkSession, tmp_path: Path
) -> None:
    text = "SELECT percentile(id, 0.3, -k) FROM t"
    query = Query("aggregate", 0, text, refused="", is_open=False, is_rounded=False)
    with pytest.raises(Exception, match="NEGATIVE_VALUES_IN_FREQUENCY_EXPRESSION"):
        oracle.rows(query, 0)
    (error,) = maintained({"v": planned(query, spark)}, tmp_path, spark).values()
    assert isinstance(error, sa.RunFailed)
    assert "a frequency of a percentile is below 0" in str(error)
