"""The queries of the benchmarks: one SQL text for all engines, and what differs where it must.

Ours runs the plan that DataFusion writes from the text (`plans/bench/`), Spark and DuckDB run the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PLANS = Path(__file__).parents[1] / "plans"


@dataclass(frozen=True)
class Query:
    """A query over one table.

    Attributes:
        sql: as DataFusion and DuckDB take it, and Spark unless `spark` is given.
        table: its name.
        spark: for Spark.
        weighted: for Spark, over rows with the weight ``w``; empty where it cannot be said.
        native: why Spark's streaming aggregation cannot run it; empty where it can.
        plan: the plan below ``plans/``; empty: of the query's name in ``plans/bench``.
        expected: for DuckDB, what the view must hold, where that is not `sql`.
        shown: over the view as the table ``view``, what is compared with it.
    """

    sql: str
    table: str = "t"
    spark: str = ""
    weighted: str = ""
    native: str = ""
    plan: str = ""
    expected: str = ""
    shown: str = "SELECT * FROM view"

    def for_spark(self, *, weighted: bool = False) -> str:
        """The text that Spark takes."""
        return (self.weighted if weighted else self.spark) or self.sql


def plan_of(name: str) -> Path:
    """The file of a query's plan."""
    return PLANS / (QUERIES[name].plan or f"bench/{name}.bin")


NO_DISTINCT = "it refuses DISTINCT"
NO_DELETES = "it takes no deletions"
NO_WEIGHTS = "it takes deletions by operation, see @op"

_FUNCTIONS = ("sum", "count", "avg")
_WIDE = [
    f"{_FUNCTIONS[i // 10]}(c{i % 10}) FILTER (WHERE f < {10 * (i * 7 % 10) + 5}) AS m{i}"
    for i in range(30)
]


def _wide(measures: int) -> str:
    return f"SELECT k, {', '.join(_WIDE[:measures])} FROM wide GROUP BY k"


_RANKS = (
    ("", ""),
    ("_low", "price < 10000"),
    ("_middle", "price >= 10000 AND price < 1000000"),
    ("_high", "price >= 1000000"),
)


def _ranked(call: str, name: str) -> str:
    return ", ".join(
        f"{call} FILTER (WHERE {where}) AS {name}{suffix}" if where else f"{call} AS {name}"
        for suffix, where in _RANKS
    )


_BIDS = _ranked("count(*)", "bids")
_DISTINCT = f"{_ranked('count(DISTINCT bidder)', 'bidders')}, {_ranked('count(DISTINCT auction)', 'auctions')}"
_DAY = "CAST(datetime AS DATE)"
_Q15 = f"SELECT {_DAY} AS day, {_BIDS}, {_DISTINCT} FROM bids GROUP BY {_DAY}"
_Q16 = (
    f"SELECT channel, {_DAY} AS day, max(datetime) AS newest, {_BIDS}, {_DISTINCT}"
    f" FROM bids GROUP BY channel, {_DAY}"
)
_Q17 = (
    f"SELECT auction, {_DAY} AS day, {_BIDS}, min(price) AS low, max(price) AS high, avg(price) AS mean,"
    f" sum(price) AS total FROM bids GROUP BY auction, {_DAY}"
)

_Q01_KEYS = "l_returnflag, l_linestatus"
_PRICE = "l_extendedprice * (1 - l_discount)"
_Q01_SUMS = (
    "sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,"
    f" sum({_PRICE}) AS sum_disc_price, sum({_PRICE} * (1 + l_tax)) AS sum_charge"
)
_Q01_WHERE = f"FROM lineitem WHERE l_shipdate <= DATE '1998-08-03' GROUP BY {_Q01_KEYS}"
_Q01 = (
    f"SELECT {_Q01_KEYS}, {_Q01_SUMS}, avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price,"
    f" avg(l_discount) AS avg_disc, count(*) AS count_order {_Q01_WHERE}"
)
_Q06 = (
    "SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem"
    " WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'"
    " AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
)


def _average(column: str) -> str:
    """An average of decimals (15, 2) in millionths, rounded half away from zero, once."""
    return f"(2 * CAST(sum({column}) * 100 AS HUGEINT) * 10000 + count(*)) // (2 * count(*))"


_Q01_EXPECTED = (
    f"SELECT {_Q01_KEYS}, {_Q01_SUMS}, {_average('l_quantity')}, {_average('l_extendedprice')},"
    f" {_average('l_discount')}, count(*) {_Q01_WHERE}"
)
_Q01_SHOWN = (
    "SELECT * REPLACE (CAST(avg_qty * 1000000 AS HUGEINT) AS avg_qty,"
    " CAST(avg_price * 1000000 AS HUGEINT) AS avg_price, CAST(avg_disc * 1000000 AS HUGEINT) AS avg_disc)"
    " FROM (SELECT * FROM view)"
)

QUERIES: dict[str, Query] = {
    "count_sum_avg": Query(
        "SELECT k, count(*) AS n, sum(i) AS s, avg(x) AS a FROM t GROUP BY k",
        weighted="SELECT k, sum(w) AS n, sum(i * w) AS s, sum(x * w) / nullif(sum(w), 0) AS a"
        " FROM t GROUP BY k",
    ),
    "sum_float": Query("SELECT k, sum(x) AS s FROM t GROUP BY k"),
    "sum_int": Query("SELECT k, sum(i) AS s FROM t GROUP BY k"),
    "global": Query("SELECT count(*) AS n, sum(i) AS s, avg(x) AS a FROM t"),
    "churn": Query(
        "SELECT g, min(v) AS low, max(v) AS high, count(DISTINCT v) AS n, sum(DISTINCT v) AS s"
        " FROM churn GROUP BY g",
        table="churn",
        native=NO_DISTINCT,
    ),
    "wide_one": Query(_wide(1), table="wide"),
    "wide_all": Query(_wide(30), table="wide"),
    "cube": Query(
        "SELECT a, b, c, d, count(*) AS n, sum(c0) AS s FROM wide GROUP BY CUBE (a, b, c, d)",
        table="wide",
    ),
    "list_agg": Query(
        "SELECT g, array_agg(v ORDER BY v) AS l FROM lists GROUP BY g",
        spark="SELECT g, sort_array(collect_list(v)) AS l FROM lists GROUP BY g",
        table="lists",
    ),
    "string_agg": Query(
        "SELECT g, string_agg(s, ',' ORDER BY s) AS l FROM lists GROUP BY g",
        spark="SELECT g, array_join(sort_array(collect_list(s)), ',') AS l FROM lists GROUP BY g",
        table="lists",
    ),
    "q15": Query(_Q15, table="bids", native=NO_DISTINCT),
    "q16": Query(_Q16, table="bids", native=NO_DISTINCT),
    "q17": Query(_Q17, table="bids"),
    "q01": Query(
        _Q01, table="lineitem", plan="tpch/q01.bin", expected=_Q01_EXPECTED, shown=_Q01_SHOWN
    ),
    "q06": Query(_Q06, table="lineitem", plan="tpch/q06.bin"),
}
