"""The queries of the benchmarks as Pathway expresses them.

Pathway has no decimals and no dates here: amounts are floats, and dates are texts, which have the
same order. It has no ORDER BY with LIMIT: the first rows are those of the sorted tuple of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pathway as pw

Tables = Mapping[str, Any]

RANKS = {
    "": None,
    "_low": (None, 10_000),
    "_middle": (10_000, 1_000_000),
    "_high": (1_000_000, None),
}
"""Suffix of a measure of q15 and q16 -> the prices that it counts, from and below."""
NO_VALUE = -1
"""Stands for rows that a filtered distinct count leaves out; no bidder or auction has it."""


def count_sum_avg(tables: Tables) -> Any:
    """Return counts, sums and averages per key."""
    return (
        tables["t"]
        .groupby(pw.this.k)
        .reduce(
            pw.this.k,
            n=pw.reducers.count(),
            s=pw.reducers.sum(pw.this.i),
            a=pw.reducers.avg(pw.this.x),
        )
    )


def churn(tables: Tables) -> Any:
    """Return extremes and distinct values per group, over the distinct pairs of group and value."""
    pairs = tables["churn"].groupby(pw.this.g, pw.this.v).reduce(pw.this.g, pw.this.v)
    return pairs.groupby(pw.this.g).reduce(
        pw.this.g,
        low=pw.reducers.min(pw.this.v),
        high=pw.reducers.max(pw.this.v),
        n=pw.reducers.count(),
        s=pw.reducers.sum(pw.this.v),
    )


def _with_day(tables: Tables) -> Any:
    return tables["bids"].with_columns(day=pw.this.datetime.str.slice(0, 10))


def _within(price: Any, rank: tuple[int | None, int | None]) -> Any:
    low, high = rank
    if low is None:
        return price < high
    return price >= low if high is None else (price >= low) & (price < high)


def _ranked(bids: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the measures of q15 and q16, and counts of the rows that filtered ones leave out."""
    measures, omitted = dict[str, Any](), dict[str, Any]()
    for suffix, rank in RANKS.items():
        if rank is None:
            measures["bids"] = pw.reducers.count()
            measures["bidders"] = pw.reducers.count_distinct(bids.bidder)
            measures["auctions"] = pw.reducers.count_distinct(bids.auction)
            continue
        chosen = _within(bids.price, rank)
        measures[f"bids{suffix}"] = pw.reducers.sum(pw.if_else(chosen, 1, 0))
        omitted[f"omitted{suffix}"] = pw.reducers.sum(pw.if_else(chosen, 0, 1))
        for name, column in (("bidders", bids.bidder), ("auctions", bids.auction)):
            values = pw.if_else(chosen, column, NO_VALUE)
            measures[f"{name}{suffix}"] = pw.reducers.count_distinct(values)
    return measures, omitted


def _without_omitted(table: Any) -> Any:
    """Subtract `NO_VALUE` from the distinct counts that have seen it."""
    corrected = {
        f"{name}{suffix}": table[f"{name}{suffix}"]
        - pw.if_else(table[f"omitted{suffix}"] > 0, 1, 0)
        for suffix, rank in RANKS.items()
        for name in ("bidders", "auctions")
        if rank is not None
    }
    names = [f"omitted{suffix}" for suffix, rank in RANKS.items() if rank is not None]
    return table.with_columns(**corrected).without(*names)


def q15(tables: Tables) -> Any:
    """Return the counts of a day."""
    bids = _with_day(tables)
    measures, omitted = _ranked(bids)
    return _without_omitted(bids.groupby(pw.this.day).reduce(pw.this.day, **measures, **omitted))


def q16(tables: Tables) -> Any:
    """Return the counts of a channel and day."""
    bids = _with_day(tables)
    measures, omitted = _ranked(bids)
    newest = pw.reducers.max(pw.this.datetime)
    grouped = bids.groupby(pw.this.channel, pw.this.day)
    return _without_omitted(
        grouped.reduce(pw.this.channel, pw.this.day, newest=newest, **measures, **omitted)
    )


def q17(tables: Tables) -> Any:
    """Return counts and prices of an auction and day."""
    bids = _with_day(tables)
    counts = {
        f"bids{suffix}": pw.reducers.sum(pw.if_else(_within(bids.price, rank), 1, 0))
        for suffix, rank in RANKS.items()
        if rank is not None
    }
    return bids.groupby(pw.this.auction, pw.this.day).reduce(
        pw.this.auction,
        pw.this.day,
        bids=pw.reducers.count(),
        **counts,
        low=pw.reducers.min(pw.this.price),
        high=pw.reducers.max(pw.this.price),
        mean=pw.reducers.avg(pw.this.price),
        total=pw.reducers.sum(pw.this.price),
    )


def tpch_q01(tables: Tables) -> Any:
    """Return the pricing summary."""
    lines = tables["lineitem"].filter(pw.this.l_shipdate <= "1998-09-02")
    lines = lines.with_columns(price=pw.this.l_extendedprice * (1 - pw.this.l_discount))
    lines = lines.with_columns(charge=pw.this.price * (1 + pw.this.l_tax))
    return lines.groupby(pw.this.l_returnflag, pw.this.l_linestatus).reduce(
        pw.this.l_returnflag,
        pw.this.l_linestatus,
        sum_qty=pw.reducers.sum(pw.this.l_quantity),
        sum_base_price=pw.reducers.sum(pw.this.l_extendedprice),
        sum_disc_price=pw.reducers.sum(pw.this.price),
        sum_charge=pw.reducers.sum(pw.this.charge),
        avg_qty=pw.reducers.avg(pw.this.l_quantity),
        avg_price=pw.reducers.avg(pw.this.l_extendedprice),
        avg_disc=pw.reducers.avg(pw.this.l_discount),
        count_order=pw.reducers.count(),
    )


def tpch_q03(tables: Tables) -> Any:
    """Return the ten unshipped orders with the greatest revenue."""
    customers = tables["customer"].filter(pw.this.c_mktsegment == "BUILDING")
    orders = tables["orders"].filter(pw.this.o_orderdate < "1995-03-15")
    lines = tables["lineitem"].filter(pw.this.l_shipdate > "1995-03-15")
    of_customers = customers.join(orders, customers.c_custkey == orders.o_custkey).select(
        orders.o_orderkey, orders.o_orderdate, orders.o_shippriority
    )
    joined = of_customers.join(lines, of_customers.o_orderkey == lines.l_orderkey).select(
        lines.l_orderkey,
        of_customers.o_orderdate,
        of_customers.o_shippriority,
        price=lines.l_extendedprice * (1 - lines.l_discount),
    )
    grouped = joined.groupby(
        pw.this.l_orderkey, pw.this.o_orderdate, pw.this.o_shippriority
    ).reduce(
        pw.this.l_orderkey,
        pw.this.o_orderdate,
        pw.this.o_shippriority,
        revenue=pw.reducers.sum(pw.this.price),
    )
    row = pw.make_tuple(
        -pw.this.revenue, pw.this.o_orderdate, pw.this.l_orderkey, pw.this.o_shippriority
    )
    first = _first(grouped, row, 10, tuple[float, str, int, int])
    return first.select(
        l_orderkey=pw.this.row[2],
        revenue=-pw.this.row[0],
        o_orderdate=pw.this.row[1],
        o_shippriority=pw.this.row[3],
    )


def tpch_q05(tables: Tables) -> Any:
    """Return the revenue of local suppliers of Asia."""
    regions = tables["region"].filter(pw.this.r_name == "ASIA")
    nations, suppliers = tables["nation"], tables["supplier"]
    customers, lines = tables["customer"], tables["lineitem"]
    dates = (pw.this.o_orderdate >= "1994-01-01") & (pw.this.o_orderdate < "1995-01-01")
    orders = tables["orders"].filter(dates)
    asian = nations.join(regions, nations.n_regionkey == regions.r_regionkey).select(
        nations.n_nationkey, nations.n_name
    )
    sold = suppliers.join(asian, suppliers.s_nationkey == asian.n_nationkey).select(
        suppliers.s_suppkey, suppliers.s_nationkey, asian.n_name
    )
    bought = orders.join(customers, orders.o_custkey == customers.c_custkey).select(
        orders.o_orderkey, customers.c_nationkey
    )
    shipped = lines.join(bought, lines.l_orderkey == bought.o_orderkey).select(
        lines.l_suppkey,
        bought.c_nationkey,
        price=lines.l_extendedprice * (1 - lines.l_discount),
    )
    joined = shipped.join(
        sold, shipped.l_suppkey == sold.s_suppkey, shipped.c_nationkey == sold.s_nationkey
    ).select(sold.n_name, shipped.price)
    return joined.groupby(pw.this.n_name).reduce(
        pw.this.n_name, revenue=pw.reducers.sum(pw.this.price)
    )


def tpch_q06(tables: Tables) -> Any:
    """Return the revenue that a discount costs."""
    lines = tables["lineitem"].filter(
        (pw.this.l_shipdate >= "1994-01-01")
        & (pw.this.l_shipdate < "1995-01-01")
        & (pw.this.l_discount >= 0.05)
        & (pw.this.l_discount <= 0.07)
        & (pw.this.l_quantity < 24)
    )
    return lines.reduce(revenue=pw.reducers.sum(pw.this.l_extendedprice * pw.this.l_discount))


def tpch_q10(tables: Tables) -> Any:
    """Return the twenty customers that returned most."""
    dates = (pw.this.o_orderdate >= "1993-10-01") & (pw.this.o_orderdate < "1994-01-01")
    orders = tables["orders"].filter(dates)
    lines = tables["lineitem"].filter(pw.this.l_returnflag == "R")
    customers, nations = tables["customer"], tables["nation"]
    returned = lines.join(orders, lines.l_orderkey == orders.o_orderkey).select(
        orders.o_custkey, price=lines.l_extendedprice * (1 - lines.l_discount)
    )
    known = customers.join(nations, customers.c_nationkey == nations.n_nationkey).select(
        customers.c_custkey, customers.c_name, customers.c_acctbal, nations.n_name,
        customers.c_address, customers.c_phone, customers.c_comment,
    )  # fmt: skip
    joined = returned.join(known, returned.o_custkey == known.c_custkey).select(
        *pw.right, returned.price
    )
    keys = (
        pw.this.c_custkey, pw.this.c_name, pw.this.c_acctbal, pw.this.n_name, pw.this.c_address,
        pw.this.c_phone, pw.this.c_comment,
    )  # fmt: skip
    grouped = joined.groupby(*keys).reduce(*keys, revenue=pw.reducers.sum(pw.this.price))
    row = pw.make_tuple(-pw.this.revenue, *keys)
    first = _first(grouped, row, 20, tuple[float, int, str, float, str, str, str, str])
    return first.select(
        c_custkey=pw.this.row[1], c_name=pw.this.row[2], revenue=-pw.this.row[0],
        c_acctbal=pw.this.row[3], n_name=pw.this.row[4], c_address=pw.this.row[5],
        c_phone=pw.this.row[6], c_comment=pw.this.row[7],
    )  # fmt: skip


def _first(table: Any, row: Any, count: int, kind: Any) -> Any:
    """Return the first rows of a table, in the order of a tuple, as the column ``row``."""
    whole = table.reduce(rows=pw.reducers.sorted_tuple(row))
    cut = pw.apply_with_type(lambda rows: rows[:count], list[kind], pw.this.rows)
    return whole.select(row=cut).flatten(pw.this.row)


QUERIES: Mapping[str, Callable[[Tables], Any]] = {
    "count_sum_avg": count_sum_avg, "churn": churn, "q15": q15, "q16": q16, "q17": q17,
    "tpch_q01": tpch_q01, "tpch_q03": tpch_q03, "tpch_q05": tpch_q05, "tpch_q06": tpch_q06,
    "tpch_q10": tpch_q10,
}  # fmt: skip
"""Query -> the table of its answer, from the tables that it reads."""
