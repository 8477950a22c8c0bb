"""Random queries of several relations over changing tables: each version equals DuckDB, or Spark where both differ.

``python -m tests.random_queries SEED`` runs the case of a seed, and prints its query, tables and difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from tests.random_queries.checking import Outcomes, check
from tests.sampling import sample

CHUNK = 20
"""Cases of a test."""
CASES = 10_000
ASKED = 20
"""Of so many cases one is compared with Spark in any case."""
MOST_REFUSED = 3
"""Of the cases of a chunk."""
CHUNKS = [range(first, first + CHUNK) for first in range(0, CASES, CHUNK)]


@pytest.mark.parametrize(
    "seeds", sample(CHUNKS, *CHUNKS[:2]), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}"
)
def test_every_version_has_the_answer_of_duckdb_and_spark(
    seeds: Sequence[int], spark: SparkSession
) -> None:
    outcomes = Outcomes()
    for seed in seeds:
        check(seed, outcomes, spark, ask_spark=seed % ASKED == 0)
    assert not outcomes.wrong, "\n\n".join(outcomes.wrong)
    assert sum(map(len, outcomes.refused.values())) <= MOST_REFUSED, str(outcomes)
    assert outcomes.ran > CHUNK // 2, str(outcomes)
