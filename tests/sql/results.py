"""The results of a query on the local executor and in DuckDB."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

import substrait_agg as sa
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.common.names import WEIGHT
from tests.joins.local_flow import LocalFlow
from tests.spark_plans import plan_query

Row = tuple[Any, ...]


def kept(
    query: str | sa.Plan, batches: Sequence[Mapping[str, pa.Table]], folder: Path
) -> list[Row]:
    """Give the rows of a query after batches of inserted rows, sorted."""
    schemas = {name: table.schema for name, table in batches[0].items()}
    run = started(query, schemas, folder)
    for batch in batches:
        run.batch({name: weighted(table, 1) for name, table in batch.items()})
    return ordered(list(run.view.elements()))


def started(query: str | sa.Plan, schemas: Mapping[str, pa.Schema], folder: Path) -> LocalFlow:
    """Give the flow of a query over tables whose rows may be deleted."""
    plan = plan_query(query, schemas) if isinstance(query, str) else query
    flow = lower(plan.bind(), weights={tuple(name.split(".")): "weighted" for name in schemas})
    folder.mkdir(exist_ok=True, parents=True)
    return LocalFlow(flow, folder)


def weighted(rows: pa.Table, weight: int) -> pa.Table:
    """Give rows as changes of one weight."""
    return rows.append_column(WEIGHT, pa.array([weight] * len(rows), pa.int64()))


def changed(rows: pa.Table, before: Collection[int], after: Collection[int]) -> pa.Table:
    """Give the changes between two sets of rows of a table, each given by the positions of its rows."""
    old, new = {*before} - {*after}, {*after} - {*before}
    return pa.concat_tables([weighted(chosen(rows, old), -1), weighted(chosen(rows, new), 1)])


def chosen(rows: pa.Table, positions: Collection[int]) -> pa.Table:
    """Give the rows at some positions."""
    return rows.take(pa.array(sorted(positions), pa.int64()))


def of_duckdb(query: str, tables: Mapping[str, pa.Table]) -> list[Row]:
    """Give the rows of a query over whole tables by DuckDB, sorted."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        return ordered(connection.execute(query).fetchall())


def of_spark(spark: SparkSession, query: str, tables: Mapping[str, pa.Table]) -> list[Row]:
    """Give the rows of a query over whole tables by Spark, sorted."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    session.conf.set("spark.sql.join.asofJoin.enabled", "true")
    for name, table in tables.items():
        session.createDataFrame(table).createOrReplaceTempView(name)
    return ordered([tuple(row.values()) for row in session.sql(query).toArrow().to_pylist()])


def ordered(rows: list[Row]) -> list[Row]:
    """Give rows sorted, with values that do not depend on how a number is stored."""
    return sorted((tuple(map(plain, row)) for row in rows), key=repr)


def plain(value: Any) -> Any:
    """Give a value as one that compares: numbers with ten digits, lists and structs as tuples."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float | Decimal):
        number = float(value)
        return str(number) if math.isnan(number) or math.isinf(number) else f"{number:.10g}"
    if isinstance(value, dict):
        return tuple(map(plain, value.values()))
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    return getattr(value, "isoformat", lambda: value)()
