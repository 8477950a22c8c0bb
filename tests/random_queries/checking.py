"""Runs a random query over versions of random tables, and compares the view with DuckDB and Spark."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import substrait_agg as sa
from tests.random_queries.dialects import Text
from tests.random_queries.queries import Queries
from tests.random_queries.tables import SCHEMAS, versions
from tests.spark_plans import plan_query
from tests.sql.results import changed, chosen, started

VERSIONS = 4
Bag = Counter[tuple[Any, ...]]
_PLACE = re.compile(r" at SQL:[0-9:]+")
_CONDITION = re.compile(r"(?<=the condition ).*(?= on every pair)")


@dataclass
class Outcomes:
    """What came of the cases of a run.

    Attributes:
        ran: cases whose versions were all compared.
        refused: by code and reason, the seeds of queries that are refused although Spark plans them.
        passed_over: by reason, the seeds of cases that DuckDB or Spark does not answer, or for which
            DuckDB has another answer than Spark.
        wrong: descriptions of differences.
    """

    ran: int = 0
    refused: dict[str, list[int]] = field(default_factory=dict)
    passed_over: dict[str, list[int]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.ran} cases compared, {len(self.wrong)} differ"]
        for word, kinds in (("refused", self.refused), ("passed over", self.passed_over)):
            lines += [f"{word}: {name}: {len(s)}, seeds {s[:5]}" for name, s in kinds.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class Case:
    """A query, and the rows of its tables at each version.

    Attributes:
        seed: decides about all of it.
        query: the query.
        rows: all rows that a table ever has.
        alive: per version the positions of the rows of each table.
    """

    seed: int
    query: Text
    rows: Mapping[str, pa.Table]
    alive: Sequence[Mapping[str, set[int]]]

    def tables(self, version: int) -> dict[str, pa.Table]:
        """Return the rows of a version."""
        return {name: chosen(self.rows[name], self.alive[version][name]) for name in SCHEMAS}

    def describe(self, difference: str, version: int) -> str:
        """Return all that is needed to understand a difference."""
        tables = [f"{name}: {rows.to_pylist()}" for name, rows in self.tables(version).items()]
        return (
            f"seed {self.seed} (python -m tests.random_queries {self.seed}), version {version}\n"
            f"  {self.query.spark}\n  DuckDB: {self.query.duck}\n  {difference}\n  "
            + "\n  ".join(tables)
        )


def case_of(seed: int) -> Case:
    """Return the case of a seed."""
    rows, alive = versions(seed, VERSIONS)
    return Case(seed, Queries(seed).whole(), rows, alive)


def check(seed: int, outcomes: Outcomes, spark: SparkSession, *, ask_spark: bool) -> None:
    """Run the case of a seed, and count what comes of it."""
    case = case_of(seed)
    try:
        plan = plan_query(case.query.spark, SCHEMAS)
        plan.bind()
    except (sa.SqlRefused, sa.PlanRefused) as error:
        text = _PLACE.sub("", str(error).splitlines()[0])
        _note(outcomes.refused, _CONDITION.sub("...", text)[:120], seed)
        return
    with TemporaryDirectory() as folder:
        try:
            views = maintained(plan, case, Path(folder))
        except Exception as error:  # noqa: BLE001 - any failure is a finding
            outcomes.wrong.append(
                case.describe(f"{type(error).__name__}: {error}"[:600], VERSIONS - 1)
            )
            return
    try:
        _compare(case, views, outcomes, spark, ask_spark=ask_spark)
    except (duckdb.Error, PySparkException, Py4JJavaError) as error:
        name = f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
        _note(outcomes.passed_over, name, seed)


def _compare(
    case: Case, views: Sequence[Bag], outcomes: Outcomes, spark: SparkSession, *, ask_spark: bool
) -> None:
    """Compare the versions of a view. Where DuckDB differs, Spark decides."""
    for version, view in enumerate(views):
        tables = case.tables(version)
        expected = of_duckdb(case.query.duck, tables)
        if view == expected and not (ask_spark and version == VERSIONS - 1):
            continue
        theirs = of_spark(spark, case.query.spark, tables)
        if view != theirs:
            outcomes.wrong.append(case.describe(differing(view, theirs), version))
            return
        if view != expected:
            _note(outcomes.passed_over, "DuckDB differs from Spark", case.seed)
            return
    outcomes.ran += 1


def maintained(plan: sa.Plan, case: Case, folder: Path) -> list[Bag]:
    """Return the rows of a view at each version."""
    run = started(plan, SCHEMAS, folder)
    before: Mapping[str, set[int]] = {name: set() for name in SCHEMAS}
    views = []
    for alive in case.alive:
        run.batch({n: changed(case.rows[n], before[n], alive[n]) for n in SCHEMAS})
        before = alive
        view: Bag = Counter()
        for row, n in run.view.items():
            view[tuple(map(plain, row))] += n
        views.append(view)
    return views


def differing(view: Bag, expected: Bag) -> str:
    """Return the first rows that only one of two answers has."""
    more, less = view - expected, expected - view
    return f"\n  only in the view: {list(more.items())[:4]}\n  missing: {list(less.items())[:4]}"


def of_duckdb(query: str, tables: Mapping[str, pa.Table]) -> Bag:
    """Return the answer of DuckDB."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        return bag(connection.execute(query).fetchall())


def of_spark(spark: SparkSession, query: str, tables: Mapping[str, pa.Table]) -> Bag:
    """Return the answer of Spark."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    for name, table in tables.items():
        session.createDataFrame(table).createOrReplaceTempView(name)
    table = session.sql(query).toArrow()
    columns = [column.to_pylist() for column in table.columns]
    return bag(list(zip(*columns, strict=True)))


def bag(rows: list[tuple[Any, ...]]) -> Bag:
    """Return rows with values that compare."""
    return Counter(tuple(map(plain, row)) for row in rows)


def plain(value: Any) -> Any:
    """Return a value that equals another of the same number; floats are exact, a zero has no sign."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value + 0.0
    if isinstance(value, Decimal):
        return value.normalize() + 0
    if isinstance(value, dict):
        return tuple(map(plain, value.values()))
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat()
    return value


def _note(kinds: dict[str, list[int]], name: str, seed: int) -> None:
    kinds.setdefault(name, []).append(seed)
