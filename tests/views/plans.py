"""A small set of views over orders, and the same views in SQL."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.e2e import plans

ORDERS = {"id": "i64", "customer": "string", "amount": "i64"}
CUSTOMERS = {"name": "string", "region": "string"}

BEGUN = 1_700_000_000
"""The time of the first file, in seconds since 1970."""

SQL = {
    "orders_clean": "SELECT id, customer, amount FROM orders WHERE amount > 0",
    "by_customer": "SELECT customer, count(*) n, sum(amount) total FROM orders_clean GROUP BY customer",
    "with_region": (
        "SELECT region, customer, total FROM by_customer JOIN customers ON customer = name"
    ),
    "by_region": "SELECT region, count(*) customers, max(total) best FROM with_region GROUP BY region",
    "totals": "SELECT total FROM by_customer",
}
"""The views, each after those that it reads."""

COLUMNS = {
    "orders_clean": ORDERS,
    "by_customer": {"customer": "string", "n": "i64!", "total": "i64"},
    "with_region": {"region": "string", "customer": "string", "total": "i64"},
    "by_region": {"region": "string", "customers": "i64!", "best": "i64"},
    "totals": {"total": "i64"},
}


def plan_of(view: str) -> str:
    """The plan of one of the views."""
    b, c = plans.Builder(), plans.column
    relation: Any
    match view:
        case "orders_clean":
            positive = b.call(
                "gt:any_any", plans.COMPARISON, c(2), plans.literal("i64", 0), output="bool"
            )
            relation = plans.filtered(plans.read("orders", ORDERS), positive)
        case "by_customer":
            source = plans.read("orders_clean", ORDERS)
            count = b.measure("count", output="i64!")
            total = b.measure("sum", (c(2), "i64"), output="i64")
            relation = plans.aggregate(source, [c(1)], [count, total])
        case "with_region":
            left = plans.read("by_customer", COLUMNS["by_customer"])
            same = b.call("equal:any_any", plans.COMPARISON, c(0), c(3), output="bool")
            join = plans.joined("inner", left, plans.read("customers", CUSTOMERS), same)
            relation = plans.projected(join, 5, c(4), c(0), c(2))
        case "by_region":
            source = plans.read("with_region", COLUMNS["with_region"])
            count = b.measure("count", output="i64!")
            best = b.measure("max", (c(2), "i64"), output="i64")
            relation = plans.aggregate(source, [c(0)], [count, best])
        case _:
            source = plans.read("by_customer", COLUMNS["by_customer"])
            relation = plans.projected(source, 3, c(2))
    return b.plan(relation, *COLUMNS[view])


ALL = {view: plan_of(view) for view in SQL}

BATCHES: Sequence[Mapping[str, Sequence[tuple[Any, ...]]]] = (
    {
        "orders": [(1, "a", 5, 1), (2, "b", 7, 1), (3, "a", -1, 1), (4, "c", 2, 1)],
        "customers": [("a", "x", 1), ("b", "x", 1), ("c", "y", 1)],
    },
    {"orders": [(1, "a", 5, -1), (1, "a", 9, 1), (5, "b", 1, 1)], "customers": []},
    {"orders": [(4, "c", 2, -1), (6, "d", 3, 1)], "customers": [("b", "x", -1), ("b", "y", 1)]},
    {"orders": [(7, "d", 4, 1), (2, "b", 7, -1)], "customers": [("d", "y", 1)]},
)
"""Per batch the changed rows of each table, with their weights."""


def write_batches(folder: Path, batches: Sequence[Mapping[str, Any]], first: int = 0) -> None:
    """Write a file per table and batch."""
    for number, batch in enumerate(batches, first):
        for name, columns in (("orders", ORDERS), ("customers", CUSTOMERS)):
            (folder / name).mkdir(parents=True, exist_ok=True)
            types = [pa.string() if t == "string" else pa.int64() for t in columns.values()]
            schema = pa.schema([*zip(columns, types, strict=True), ("w", pa.int64())])
            rows = [dict(zip(schema.names, row, strict=True)) for row in batch[name]]
            path = folder / name / f"{number:04}.parquet"
            pq.write_table(pa.Table.from_pylist(rows, schema), path)
            # Spark reads files in the order of their times, in milliseconds.
            os.utime(path, (BEGUN + number, BEGUN + number))


def sources(folder: Path) -> dict[str, str]:
    """The sources of the tables, a file of each per batch."""
    return {
        name: f"parquet:{folder}/{name}?weight=w&batch-files=1" for name in ("orders", "customers")
    }


def expected(batches: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of every view after some batches, as DuckDB computes them."""
    con = duckdb.connect()
    for name, columns in (("orders", ORDERS), ("customers", CUSTOMERS)):
        kinds = ", ".join(
            f"{c} {'varchar' if t == 'string' else 'bigint'}" for c, t in columns.items()
        )
        con.execute(f"CREATE TABLE all_{name} ({kinds}, w bigint)")
        for batch in batches:
            for row in batch[name]:
                marks = ", ".join("?" * len(row))
                con.execute(f"INSERT INTO all_{name} VALUES ({marks})", row)
        names = ", ".join(columns)
        con.execute(
            f"CREATE VIEW {name} AS SELECT {names} FROM all_{name} GROUP BY ALL HAVING sum(w) > 0"
        )
    found = {}
    for view, query in SQL.items():
        con.execute(f"CREATE VIEW {view} AS {query}")
        found[view] = in_order(con.execute(f"SELECT * FROM {view}").fetchall())
    return found


def in_order(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in an order of their own."""
    return sorted(rows, key=repr)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of an Arrow table, in order."""
    return in_order([tuple(row.values()) for row in table.to_pylist()])
