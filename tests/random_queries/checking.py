"""Runs a random query over versions of random tables, and compares the view with DuckDB and Spark."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import substrait_agg as sa
from substrait_agg.bind.rewrite import table_reads
from substrait_agg.operator.common.names import WEIGHT
from tests.local.run import quick_disk, run
from tests.random_queries.dialects import Text
from tests.random_queries.queries import Queries
from tests.random_queries.tables import SCHEMAS, instants, versions
from tests.spark_plans import plan_query
from tests.sql.results import changed, chosen, started

VERSIONS = 4
CLOCK = "system.clock"
CLOCK_SCHEMA = pa.schema([("today", pa.date32()), ("now", pa.timestamp("us", "UTC"))])
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
        instants: the time of each version.
    """

    seed: int
    query: Text
    rows: Mapping[str, pa.Table]
    alive: Sequence[Mapping[str, set[int]]]
    instants: Sequence[datetime]

    def tables(self, version: int) -> dict[str, pa.Table]:
        """Return the rows of a version."""
        return {name: chosen(self.rows[name], self.alive[version][name]) for name in SCHEMAS}

    def changes(self, version: int) -> dict[str, pa.Table]:
        """Return the changes of each table from the version before."""
        before = self.alive[version - 1] if version else dict.fromkeys(SCHEMAS, ())
        return {n: changed(self.rows[n], before[n], self.alive[version][n]) for n in SCHEMAS}

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
    return case_over(seed, Queries(seed).whole())


def case_over(seed: int, query: Text) -> Case:
    """Return a query over the tables of a seed."""
    return Case(seed, query, *versions(seed, VERSIONS), instants(seed, VERSIONS))


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
        tables, query = case.tables(version), case.query.at(case.instants[version])
        expected = of_duckdb(query.duck, tables)
        if view == expected and not (ask_spark and version == VERSIONS - 1):
            continue
        theirs = of_spark(spark, query.spark, tables)
        if view != theirs:
            outcomes.wrong.append(case.describe(differing(view, theirs), version))
            return
        if view != expected:
            _note(outcomes.passed_over, "DuckDB differs from Spark", case.seed)
            return
    outcomes.ran += 1


def maintained(plan: sa.Plan, case: Case, folder: Path) -> list[Bag]:
    """Return the rows of a view at each version."""
    if case.query.is_recursive:
        return list(_of_recursion(plan, case, folder))
    run = started(plan, {**SCHEMAS, CLOCK: CLOCK_SCHEMA}, folder)
    views = []
    for version in range(len(case.alive)):
        changes = dict(case.changes(version))
        if case.query.has_time:
            changes[CLOCK] = ticks(case.instants[: version + 1])
        with quick_disk():
            run.batch(changes)
        view: Bag = Counter()
        for row, n in run.view.items():
            view[tuple(map(plain, row))] += n
        views.append(view)
    return views


def _of_recursion(plan: sa.Plan, case: Case, folder: Path) -> Iterator[Bag]:
    """Yield the rows of a view; the rounds of a recursion need a whole run."""
    tables = {read.table[0] for read in table_reads(plan.bind().root)}
    sources = {n: f"parquet:{folder / n}?weight=change&batch-files=1" for n in tables}
    for version in range(len(case.alive)):
        changes = case.changes(version)
        for name in tables:
            (folder / name).mkdir(exist_ok=True)
            rows = changes[name]
            file = rows.rename_columns([*rows.column_names[:-1], "change"])
            pq.write_table(file, folder / name / f"{version}.parquet")
    batches = run(plan, sources, checkpoint=folder / "checkpoint", partitions=2)
    for _ in case.alive:
        assert batches.batch()
        view = sa.open_view(folder / "checkpoint").to_arrow()
        yield bag(list(zip(*(column.to_pylist() for column in view.columns), strict=True)))


def ticks(instants: Sequence[datetime]) -> pa.Table:
    """Return the change of the clock to the last instant from the one before."""
    moments, weights = instants[-2:], [-1, 1][-len(instants[-2:]) :]
    columns = {
        "today": [m.date() for m in moments],
        "now": [m.replace(tzinfo=UTC) for m in moments],
    }
    table = pa.table(columns, schema=CLOCK_SCHEMA)
    return table.append_column(WEIGHT, pa.array(weights, pa.int64()))


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
