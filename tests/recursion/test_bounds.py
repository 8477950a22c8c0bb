"""A recursion has the levels and the rows that Spark lets it have; what it cannot compute is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import substrait_agg as sa
from tests.local.run import LocalRun, run
from tests.spark_plans import plan_query

pytestmark = pytest.mark.usefixtures("spark")

SCHEMA = {"edges": pa.schema([("a", pa.int32()), ("b", pa.int32())])}
NUMBERS = (
    "WITH RECURSIVE r(n) MAX RECURSION LEVEL {level} AS (SELECT a FROM edges UNION ALL SELECT n + 1 FROM r"
    " WHERE n < 5) SELECT n FROM r"
)
PATHS = (
    "WITH RECURSIVE r(a, b) AS (SELECT a, b FROM edges UNION ALL"
    " SELECT r.a, e.b FROM r JOIN edges e ON r.b = e.a) SELECT a, b FROM r"
)
STEP = "WITH RECURSIVE r(a, d) AS (SELECT a, 1 FROM edges UNION ALL {step}) SELECT count(*) AS n FROM r"


def add(folder: Path, *rows: tuple[int, int, int]) -> None:
    """Add a batch of edges with weights."""
    (folder / "edges").mkdir(exist_ok=True)
    number = len(list((folder / "edges").iterdir()))
    columns = {n: pa.array([row[i] for row in rows], pa.int32()) for i, n in enumerate("abw")}
    pq.write_table(pa.table(columns), folder / "edges" / f"{number}.parquet")


def started(query: str, folder: Path, **options: object) -> LocalRun:
    sources = {"edges": f"parquet:{folder / 'edges'}?weight=w&batch-files=1"}
    return run(sa.sql(query, sources), sources, checkpoint=folder / "ckpt", **options)


def view(folder: Path) -> list[tuple[int, ...]]:
    rows = sa.open_view(folder / "ckpt").to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("level", [5, 6])
def test_as_many_levels_are_computed_as_spark_computes(
    level: int, spark: SparkSession, tmp_path: Path
) -> None:
    add(tmp_path, (1, 2, 1))
    started(NUMBERS.format(level=level), tmp_path).wait()
    rows = of_spark(spark, NUMBERS.format(level=level))
    assert view(tmp_path) == rows == [(1,), (2,), (3,), (4,), (5,)]


@pytest.mark.parametrize("level", [3, 4])
def test_more_levels_fail_as_in_spark(level: int, spark: SparkSession, tmp_path: Path) -> None:
    add(tmp_path, (1, 2, 1))
    with pytest.raises(Py4JJavaError, match="RECURSION_LEVEL_LIMIT_EXCEEDED"):
        of_spark(spark, NUMBERS.format(level=level))
    with pytest.raises(sa.RunFailed) as failed:
        started(NUMBERS.format(level=level), tmp_path).wait()
    assert failed.value.code == "RECURSION_LEVELS_EXCEEDED"


def of_spark(spark: SparkSession, query: str) -> list[tuple[int, ...]]:
    """Return the rows of a query over one edge."""
    session = spark.newSession()
    session.sql("CREATE TEMPORARY VIEW edges AS SELECT 1 AS a, 2 AS b")
    return sorted(tuple(row) for row in session.sql(query).collect())


def test_a_cycle_fails_and_the_run_goes_on_once_it_is_gone(tmp_path: Path) -> None:
    """Levels beyond the greatest one that come and go within a batch are no failure."""
    add(tmp_path, (1, 2, 1), (2, 3, 1))
    batches = started(PATHS, tmp_path)
    assert batches.batch()
    add(tmp_path, (3, 1, 1))
    with pytest.raises(sa.RunFailed) as failed:
        batches.batch()
    assert failed.value.code == "RECURSION_LEVELS_EXCEEDED"
    assert view(tmp_path) == [(1, 2), (1, 3), (2, 3)]
    (tmp_path / "edges" / "1.parquet").unlink()
    add(tmp_path, (3, 1, 1), (1, 2, -1))
    started(PATHS, tmp_path).wait()
    assert view(tmp_path) == [(2, 1), (2, 3), (3, 1)]


def test_a_batch_that_changes_too_many_rows_fails(tmp_path: Path) -> None:
    add(tmp_path, *((i, i + 1, 1) for i in range(20)))
    plan = sa.load(plan_query(PATHS, SCHEMA).content.replace('"1000000"', '"100"'))
    sources = {"edges": f"parquet:{tmp_path / 'edges'}?weight=w"}
    with pytest.raises(sa.RunFailed) as failed:
        run(plan, sources, checkpoint=tmp_path / "ckpt").wait()
    assert failed.value.code == "RECURSION_ROWS_EXCEEDED"


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (
            "SELECT a, d + 1 FROM r WHERE a NOT IN (SELECT a + 1 FROM r)",
            "an aggregate",
        ),
        (
            "(SELECT a, d + 1 FROM r WHERE d < 4 EXCEPT ALL SELECT b, 3 FROM edges)",
            "minus primary all",
        ),
    ],
)
def test_what_a_step_cannot_compute_is_refused(step: str, words: str) -> None:
    with pytest.raises(sa.PlanRefused, match=words) as refused:
        sa.explain(plan_query(STEP.format(step=step), SCHEMA))
    assert refused.value.code == "RECURSION_NOT_SUPPORTED"


def test_another_recursion_needs_a_new_checkpoint(tmp_path: Path) -> None:
    add(tmp_path, (1, 2, 1), (2, 3, 1))
    started(PATHS, tmp_path).wait()
    with pytest.raises(sa.StateRefused) as refused:
        started(PATHS.replace("r.b = e.a", "r.b = e.a AND e.b < 9"), tmp_path, evolve=True)
    assert refused.value.code == "EVOLVE_REFUSED"


def test_a_recursion_is_not_computed_again_from_all_rows(tmp_path: Path) -> None:
    add(tmp_path, (1, 2, 1), (2, 3, 1))
    with pytest.raises(sa.SubstraitAggError) as refused:
        started(PATHS, tmp_path, refresh="full")
    assert refused.value.code == "REFRESH_NOT_FULL"


def test_the_state_is_that_of_a_run_over_all_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Spark computes the same, and again, from a checkpoint that it continues."""
    sources = {"edges": f"parquet:{tmp_path / 'edges'}?weight=w&batch-files=1"}
    add(tmp_path, (1, 2, 1), (2, 3, 1), (2, 4, 1), (4, 5, 1))
    for _ in range(2):
        plan = sa.sql(PATHS, sources, spark=spark)
        sa.run(plan, sources, checkpoint=tmp_path / "ckpt", spark=spark).wait()
        add(tmp_path, (2, 3, -1), (5, 6, 1), (0, 1, 1))
    expected = [
        (0, 1),
        (0, 2),
        (0, 4),
        (0, 5),
        (0, 6),
        (1, 2),
        (1, 4),
        (1, 5),
        (1, 6),
        (2, 4),
        (2, 5),
        (2, 6),
    ]
    assert view(tmp_path) == [*expected, (4, 5), (4, 6), (5, 6)]
    (tmp_path / "edges" / "2.parquet").unlink()
    findings = sa.open_state(tmp_path / "ckpt").verify(deep=True, sources=sources).findings
    assert not [finding for finding in findings if finding.code != "FILE_LEFT_OVER"]
