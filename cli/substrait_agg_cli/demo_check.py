"""Check the demo: compare every value of its views with the results of DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Any

MAX_DIGITS = 76

Columns = dict[str, list[Any]]
"""Values by column."""


@dataclass(frozen=True, slots=True)
class ColumnCheck:
    """The comparison of a column of the view: its differences as (row, view, DuckDB)."""

    name: str
    different: tuple[tuple[int, object, object], ...]

    @property
    def ok(self) -> bool:
        """Whether every value is equal."""
        return not self.different


@dataclass(frozen=True)
class DemoQuery:
    """A query of the demo.

    Attributes:
        name: its name in the output, and of its plan and its checkpoint.
        title: what it computes.
        tables: the tables that it reads.
        shown: columns that the demo prints.
        sql: the query for DuckDB, with exact sums and counts instead of averages, which are floats
            in DuckDB.
        averages: column of the plan that is an average -> its sum.
    """

    name: str
    title: str
    tables: tuple[str, ...]
    shown: tuple[str, ...]
    sql: str
    averages: Mapping[str, str] = field(default_factory=dict)

    def by_duckdb(self, connection: Any) -> Columns:
        """Run the query over the current tables of a DuckDB connection."""
        cursor = connection.execute(self.sql)
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}

    def expected(self, values: Columns, schema: Any) -> Columns:
        """Return DuckDB's `values` as the columns of the view's `schema`.

        An average is the exact sum divided by the count, rounded once, half away from zero, to the
        scale of the view's column.
        """
        values = dict(values)
        for name, total in self.averages.items():
            scale = schema.field(name).type.scale
            pairs = zip(values[total], values["count_order"], strict=True)
            values[name] = [rounded_quotient(s, n, scale) for s, n in pairs]
        return {name: values[name] for name in schema.names}


QUERIES = (
    DemoQuery(
        name="q01",
        title="Q1: aggregate of lineitem",
        tables=("lineitem",),
        shown=(
            "l_returnflag",
            "l_linestatus",
            "sum_qty",
            "sum_charge",
            "avg_disc",
            "count_order",
        ),
        sql="""
SELECT l_returnflag, l_linestatus,
    sum(l_quantity) AS sum_qty,
    sum(l_extendedprice) AS sum_base_price,
    sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
    sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
    sum(l_discount) AS sum_disc,
    count(*) AS count_order
FROM lineitem
WHERE l_shipdate <= DATE '1998-08-03'
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus
""",
        averages={"avg_qty": "sum_qty", "avg_price": "sum_base_price", "avg_disc": "sum_disc"},
    ),
    DemoQuery(
        name="q03",
        title="Q3: customer, orders and lineitem joined, the ten orders with the most revenue",
        tables=("customer", "orders", "lineitem"),
        shown=("l_orderkey", "revenue", "o_orderdate", "o_shippriority"),
        sql="""
SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
WHERE c_mktsegment = 'BUILDING'
    AND o_orderdate < DATE '1995-03-15'
    AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority
ORDER BY revenue DESC, o_orderdate, l_orderkey
LIMIT 10
""",
    ),
)


def rounded_quotient(total: Decimal, count: int, scale: int) -> Decimal:
    """Return the exact quotient, rounded once, half away from zero."""
    with localcontext() as context:
        context.prec = MAX_DIGITS
        unit = Decimal(1).scaleb(-scale)
        # Integer division of the doubled quotient rounds only once.
        twice = abs(total) * 2 * Decimal(10) ** scale
        units = (twice + count) // (2 * count)
        return (units * unit).copy_sign(total)


def compare(
    actual: Mapping[str, Sequence[Any]], expected: Mapping[str, Sequence[Any]]
) -> list[ColumnCheck]:
    """Compare every column of the view, value by value.

    A missing or surplus row is a difference.
    """
    return [
        ColumnCheck(
            name,
            tuple(
                (row, a, b)
                for row, (a, b) in enumerate(_pad(actual[name], values))
                if type(a) is not type(b) or a != b
            ),
        )
        for name, values in expected.items()
    ]


def _pad(actual: Sequence[Any], expected: Sequence[Any]) -> list[tuple[Any, Any]]:
    size = max(len(actual), len(expected))
    return [
        (actual[i] if i < len(actual) else None, expected[i] if i < len(expected) else None)
        for i in range(size)
    ]


def changes_add_up(changes: Any, rows: Sequence[tuple[Any, ...]]) -> bool:
    """Return whether the changes of all versions consolidate to exactly the rows of the view."""
    weights: dict[tuple[Any, ...], int] = {}
    for *row, _version, weight in zip(*(c.to_pylist() for c in changes.columns), strict=True):
        weights[tuple(row)] = weights.get(tuple(row), 0) + weight
    for shown in rows:
        weights[shown] = weights.get(shown, 0) - 1
    return not any(weights.values())
