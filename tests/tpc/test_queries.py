"""TPC-DS and TPC-H as Spark's SQL: each view equals Spark's own answer at each of three versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import substrait_agg as sa
from substrait_agg.bind.rewrite import table_reads
from substrait_agg.checked_plan import Plan
from substrait_agg.spark.catalyst.sql import PLANNING_CONF
from tests.joins import tpch as tpch_texts
from tests.tpc.data import VERSIONS, Tables, tpcds, tpcds_queries, tpch

pytestmark = pytest.mark.spark

IN_ONE_RUN = 6
"""Views of one run."""
FEW = ("q3", "q19", "q42", "q55")
"""Queries of TPC-DS that every run of the tests has."""

DS = tpcds_queries()
DS_GROUPS = [tuple(DS)[i : i + IN_ONE_RUN] for i in range(0, len(DS), IN_ONE_RUN)]
H = {f"h{number}": tpch_texts.sql(number) for number in tpch_texts.QUERIES}
H_GROUPS = [tuple(H)[i : i + IN_ONE_RUN] for i in range(0, len(H), IN_ONE_RUN)]


@pytest.fixture(scope="session")
def of_tpcds(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Give the tables of TPC-DS."""
    return tpcds(tmp_path_factory.mktemp("tpcds"), "0.01")


@pytest.fixture(scope="session")
def of_tpch(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Give the tables of TPC-H."""
    return tpch(tmp_path_factory.mktemp("tpch"), "0.01")


def test_a_few_queries_of_tpcds_equal_spark(
    spark: SparkSession, of_tpcds: Tables, tmp_path: Path
) -> None:
    _check(spark, of_tpcds, {name: DS[name] for name in FEW}, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("names", DS_GROUPS, ids="-".join)
def test_queries_of_tpcds_equal_spark(
    names: Sequence[str], spark: SparkSession, of_tpcds: Tables, tmp_path: Path
) -> None:
    _check(spark, of_tpcds, {name: DS[name] for name in names}, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("names", H_GROUPS, ids="-".join)
def test_queries_of_tpch_equal_spark(
    names: Sequence[str], spark: SparkSession, of_tpch: Tables, tmp_path: Path
) -> None:
    _check(spark, of_tpch, {name: H[name] for name in names}, tmp_path)


def _check(spark: SparkSession, tables: Tables, texts: Mapping[str, str], folder: Path) -> None:
    """Keep views of queries in one run, and compare each version with what Spark answers."""
    answers = _answers(spark, tables, texts)
    # A query that fails in Spark, by a division by zero, has no answer to keep.
    kept = {name: text for name, text in texts.items() if name in answers}
    schemas = {
        name: pq.read_schema(tables.rows / "1" / f"{name}.parquet") for name in tables.names()
    }
    plans: dict[str, Plan] = {
        name: sa.sql(text, schemas, spark=spark) for name, text in kept.items()
    }
    read = sorted({r.table[-1] for plan in plans.values() for r in table_reads(plan.bind().root)})
    checkpoint = folder / "checkpoint"
    sa.run(plans, tables.sources(read), checkpoint=checkpoint, spark=spark).wait()
    for name in kept:
        view = sa.open_view(checkpoint, name if len(plans) > 1 else "")
        for version in range(1, VERSIONS + 1):
            rows = _rows(view.to_arrow(version=version))
            assert rows == answers[name][version], f"{name} at version {version}"


def _answers(
    spark: SparkSession, tables: Tables, texts: Mapping[str, str]
) -> dict[str, dict[int, Counter[tuple[Any, ...]]]]:
    """Return what Spark answers at each version; a query that fails at one is left out."""
    answers: dict[str, dict[int, Counter[tuple[Any, ...]]]] = {name: {} for name in texts}
    for version, session in _sessions(spark, tables):
        for name in list(answers):
            try:
                rows = session.sql(texts[name].rstrip().rstrip(";")).collect()
            except PySparkException as error:
                if error.getCondition() != "DIVIDE_BY_ZERO":
                    raise
                del answers[name]
                continue
            answers[name][version] = Counter(tuple(map(_rounded, row)) for row in rows)
    return answers


def _sessions(spark: SparkSession, tables: Tables) -> Iterator[tuple[int, SparkSession]]:
    """Yield a session per version in which the tables have the rows of the version."""
    for version in range(1, VERSIONS + 1):
        session = spark.newSession()
        for name, value in PLANNING_CONF.items():
            session.conf.set(name, value)
        for name in tables.names():
            path = str(tables.rows / str(version) / f"{name}.parquet")
            session.read.parquet(path).createOrReplaceTempView(name)
        yield version, session


def _rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    return Counter(tuple(map(_rounded, row)) for row in zip(*columns, strict=True))


def _rounded(value: Any) -> Any:
    """Return a float with 12 digits: Spark's sums of floats depend on the order of the rows."""
    return float(f"{value:.12g}") if isinstance(value, float) else value
