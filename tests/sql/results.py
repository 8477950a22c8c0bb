"""The results of a query on the local executor and in DuckDB."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import substrait_agg as sa
from substrait_agg.flow.passes.lower import lower
from substrait_agg.operator.common.names import WEIGHT
from tests.joins.local_flow import LocalFlow

Row = tuple[Any, ...]


def kept(
    query: str | sa.Plan, batches: Sequence[Mapping[str, pa.Table]], folder: Path
) -> list[Row]:
    """Give the rows of a query after batches of inserted rows, sorted."""
    schemas = {name: table.schema for name, table in batches[0].items()}
    plan = sa.sql(query, schemas) if isinstance(query, str) else query
    flow = lower(plan.bound(), weights={(name,): "weighted" for name in schemas})
    folder.mkdir(exist_ok=True, parents=True)
    run = LocalFlow(flow, folder)
    for batch in batches:
        run.batch({n: t.append_column(WEIGHT, pa.array([1] * len(t), pa.int64())) for n, t in batch.items()})  # fmt: skip
    return ordered(list(run.view.elements()))


def of_duckdb(query: str, tables: Mapping[str, pa.Table]) -> list[Row]:
    """Give the rows of a query over whole tables by DuckDB, sorted."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        return ordered(connection.execute(query).fetchall())


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
