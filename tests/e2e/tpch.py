"""What TPC-H queries 1 and 6 must show over given rows: sums by DuckDB, averages from its exact sums."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from substrait_agg.plan.types import decimal
from tests.e2e.rows import Bag
from tests.operator.measures_values import as_type

PLANS = Path(__file__).parents[2] / "plans" / "tpch"

_SUMS = """
    SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
        sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
        sum(l_discount), count(*)
    FROM lineitem WHERE l_shipdate <= CAST(? AS DATE) GROUP BY ALL
"""
_REVENUE = """
    SELECT sum(l_extendedprice * l_discount) FROM lineitem
    WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
        AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24
"""


@dataclass(frozen=True)
class Producer:
    """A producer's plans: what differs between them.

    Attributes:
        folder: under ``plans/tpch``.
        until: last ship date that query 1 counts.
        sums: (precision, scale) of the four sums of query 1.
        average: (precision, scale) of its averages.
        revenue: (precision, scale) of the sum of query 6.
    """

    folder: str
    until: str
    sums: tuple[tuple[int, int], ...]
    average: tuple[int, int]
    revenue: tuple[int, int]

    def plan(self, query: str) -> Path:
        """The file of a query."""
        return PLANS / self.folder / f"{query}.bin"

    def types(self, query: str) -> list[pa.DataType]:
        """Column types of the view."""
        if query == "q06":
            return [pa.decimal128(*self.revenue)]
        averages = [pa.decimal128(*self.average)] * 3
        return [pa.string()] * 2 + [pa.decimal128(*t) for t in self.sums] + averages + [pa.int64()]

    def expected(self, query: str, rows: pa.Table) -> Bag:
        """The view over `rows`."""
        return self.query_6(rows) if query == "q06" else self.query_1(rows)

    def query_1(self, rows: pa.Table) -> Bag:
        """Query 1; averages are rounded half away from zero, once, from the exact quotient."""
        found: Bag = Counter()
        for flag, status, *sums, discount, count in _duckdb(rows, _SUMS, [self.until]):
            totals = (sums[0], sums[1], discount)
            scale = self.average[1]
            averages = [as_type(Fraction(t) / count, decimal(38, scale), "") for t in totals]
            found[flag, status, *sums, *averages, count] += 1
        return found

    def query_6(self, rows: pa.Table) -> Bag:
        """Query 6: one row, null while no row qualifies."""
        return Counter(_duckdb(rows, _REVENUE, []))


def _duckdb(rows: pa.Table, query: str, parameters: list[str]) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("lineitem", rows)
        found: list[tuple[Any, ...]] = connection.execute(query, parameters).fetchall()
    return found


def _datafusion(folder: str) -> Producer:
    sums = ((25, 2), (25, 2), (38, 4), (38, 6))
    return Producer(folder, "1998-08-03", sums, average=(19, 6), revenue=(38, 4))


PRODUCERS: dict[str, Producer] = {
    "datafusion-55": _datafusion(""),
    "datafusion-45": _datafusion("datafusion-45"),
    "isthmus": Producer(
        "isthmus", "1998-09-01", ((15, 2), (15, 2), (19, 4), (19, 6)), (15, 2), (19, 4)
    ),
    "substrait-python": Producer(
        "substrait-python", "1998-09-02", ((38, 2), (38, 2), (38, 4), (38, 6)), (38, 2), (38, 4)
    ),
}
