"""Views of ibis expressions equal what ibis computes over all rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.sql.results import changed, chosen, kept, of_duckdb, ordered, started

pytestmark = pytest.mark.usefixtures("spark")

SALES = pa.table(
    {
        "region": ["north", "south", "north", None, "east", "south"],
        "customer": [1, 2, 2, 3, None, 1],
        "amount": [10.0, 3.5, 1.25, None, 8.0, 3.5],
        "at": pa.array([0, 61, 3600, 7200, 10, None], pa.timestamp("s")).cast(pa.timestamp("us")),
    }
)
CUSTOMERS = pa.table({"customer": [1, 2, 3], "city": ["Rome", "Oslo", None]})
sales = ibis.table(ibis.Schema.from_pyarrow(SALES.schema), name="sales")
customers = ibis.table(ibis.Schema.from_pyarrow(CUSTOMERS.schema), name="customers")
totals = sales.group_by("region").agg(n=sales.count(), total=sales.amount.sum())
size = ibis.cases((sales.amount > 5, "large"), (sales.amount > 2, "middle"), else_="small")


MICROS = dt.Timestamp(scale=6)


@ibis.udf.scalar.builtin(
    signature=((MICROS, dt.string), dt.Struct({"start": MICROS, "end": MICROS}))
)
def window(time: Any, size: Any) -> Any:
    """Give the window that contains a time."""


EXPRESSIONS: dict[str, Any] = {
    "group by": totals,
    "distinct": sales.select("region").distinct(),
    "number of distinct values": sales.agg(n=sales.customer.nunique(), all=sales.count()),
    "join": sales.join(customers, "customer").group_by("city").agg(total=sales.amount.sum()),
    "left join": sales.left_join(customers, "customer").select("region", "city", "amount"),
    "top-k": totals.order_by(ibis.desc("total"), "region").limit(2),
    "case": sales.group_by(size=size).agg(n=sales.count()),
    "filter aggregate": sales.group_by("region").agg(
        big=sales.amount.sum(where=sales.amount > 3), n=(sales.amount > 3).sum()
    ),
    "union": sales.select("customer").union(customers.select("customer"), distinct=True),
    "having": totals.filter(totals.n > 1).mutate(mean=totals.total / totals.n),
    "semi join": customers.semi_join(sales, "customer"),
    "anti join": sales.anti_join(customers, "customer").select("region"),
    "conditions": sales.select(
        known=sales.region.isin(["north", "east"]), more=sales.amount * 2 + 1, none=sales.amount.isnull()
    ),
    "one value": sales.amount.mean(),
}  # fmt: skip


TABLES = {"sales": SALES, "customers": CUSTOMERS}
VERSIONS: list[dict[str, list[int]]] = [
    {"sales": [0, 1, 2], "customers": [1, 2]},
    {"sales": [0, 1, 2, 3, 4, 5], "customers": [0, 1, 2]},
    {"sales": [1, 3, 5], "customers": [0, 1, 2]},
    {"sales": [0, 1, 2, 4], "customers": [2]},
    {"sales": [], "customers": [0]},
]
"""Per version the rows that each table has: rows come, go, and come back."""


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_equals_ibis_at_every_version(name: str, tmp_path: Path) -> None:
    expression = EXPRESSIONS[name].as_table()
    query = str(ibis.to_sql(expression, dialect="duckdb"))
    plan = sa.load(expression)
    assert plan.bind().names == tuple(expression.columns)
    run = started(plan, {table: rows.schema for table, rows in TABLES.items()}, tmp_path)
    before: dict[str, list[int]] = {table: [] for table in TABLES}
    for number, after in enumerate(VERSIONS):
        run.batch({t: changed(rows, before[t], after[t]) for t, rows in TABLES.items()})
        expected = of_duckdb(query, {t: chosen(rows, after[t]) for t, rows in TABLES.items()})
        assert ordered(list(run.view.elements())) == expected, f"version {number}"
        before = after


@pytest.mark.parametrize(
    ("key", "shown"),
    [(sales["at"].truncate("h"), "date_trunc"), (window(sales["at"], "1 hour"), "tumble(")],
)
def test_windows_over_time_are_keys(key: Any, shown: str) -> None:
    """Spark computes them; the local executor cannot."""
    plan = sa.load(sales.group_by(hour=key).agg(n=sales.count()))
    assert shown in sa.explain(plan).lower()


def test_a_table_in_memory_is_refused() -> None:
    with pytest.raises(sa.UsageError) as caught:
        sa.load(ibis.memtable({"a": [1]}).agg(n=ibis._.count()))
    assert caught.value.code == "PLAN_SOURCE"


def test_what_only_looks_like_a_dataframe_of_spark_is_refused() -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})()
    with pytest.raises(sa.UsageError) as refused:
        sa.load(frame)
    assert refused.value.code == "PLAN_SOURCE"
    assert "pyspark.sql.DataFrame" in str(refused.value.help)


@pytest.mark.parametrize("form", [lambda df: df, lambda df: df.optimized_logical_plan()])
def test_datafusion_objects_are_plans(form: Callable[[Any], Any], tmp_path: Path) -> None:
    import datafusion

    context = datafusion.SessionContext()
    context.register_record_batches("sales", [SALES.to_batches()])
    frame = context.sql("SELECT region, count(*) AS n FROM sales GROUP BY region")
    plan = sa.load(form(frame))
    expected = ordered([("north", 2), ("south", 2), ("east", 1), (None, 1)])
    assert kept(plan, [{"sales": SALES}], tmp_path) == expected
