"""Makes `plans/tpch/substrait-python/q01.*` and `q06.*` with the dataframe API of the package ``substrait``.

It needs ``pip install "substrait[extensions]==0.37.1"``; run it without arguments to write the plans again.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import substrait.dataframe as sub
from google.protobuf.json_format import MessageToJson
from substrait.builders import type as types

FOLDER = Path(__file__).parents[2] / "plans" / "tpch" / "substrait-python"

MONEY = types.decimal(2, 15, nullable=False)
LINEITEM = {
    "l_orderkey": types.i64(nullable=False),
    "l_partkey": types.i64(nullable=False),
    "l_suppkey": types.i64(nullable=False),
    "l_linenumber": types.i32(nullable=False),
    "l_quantity": MONEY,
    "l_extendedprice": MONEY,
    "l_discount": MONEY,
    "l_tax": MONEY,
    "l_returnflag": types.string(nullable=False),
    "l_linestatus": types.string(nullable=False),
    "l_shipdate": types.date(nullable=False),
    "l_commitdate": types.date(nullable=False),
    "l_receiptdate": types.date(nullable=False),
    "l_shipinstruct": types.string(nullable=False),
    "l_shipmode": types.string(nullable=False),
    "l_comment": types.string(nullable=False),
}


def _lineitem() -> Any:
    schema = types.named_struct(
        names=list(LINEITEM), struct=types.struct(list(LINEITEM.values()), nullable=False)
    )
    return sub.read_named_table("lineitem", schema)


def q01() -> Any:
    """TPC-H query 1: pricing summary, up to 1998-09-02."""
    price, discount, tax = (sub.col(name) for name in ("l_extendedprice", "l_discount", "l_tax"))
    one = sub.lit(Decimal("1.00"), MONEY)
    discounted = price * (one - discount)
    measures = (
        sub.f.sum(sub.col("l_quantity"), alias="sum_qty"),
        sub.f.sum(price, alias="sum_base_price"),
        sub.f.sum(discounted, alias="sum_disc_price"),
        sub.f.sum(discounted * (one + tax), alias="sum_charge"),
        sub.f.avg(sub.col("l_quantity"), alias="avg_qty"),
        sub.f.avg(price, alias="avg_price"),
        sub.f.avg(discount, alias="avg_disc"),
        sub.f.count(alias="count_order"),
    )
    return (
        _lineitem()
        .filter(sub.col("l_shipdate") <= sub.lit(dt.date(1998, 9, 2)))
        .group_by("l_returnflag", "l_linestatus")
        .agg(*measures)
        .sort("l_returnflag", "l_linestatus")
        .to_plan()
    )


def q06() -> Any:
    """TPC-H query 6: forecast of a change in revenue."""
    shipped, discount = sub.col("l_shipdate"), sub.col("l_discount")
    wanted = (
        (shipped >= sub.lit(dt.date(1994, 1, 1)))
        & (shipped < sub.lit(dt.date(1995, 1, 1)))
        & (discount >= sub.lit(Decimal("0.05"), MONEY))
        & (discount <= sub.lit(Decimal("0.07"), MONEY))
        & (sub.col("l_quantity") < sub.lit(Decimal("24.00"), MONEY))
    )
    revenue = sub.f.sum(sub.col("l_extendedprice") * discount, alias="revenue")
    return _lineitem().filter(wanted).group_by().agg(revenue).to_plan()


def main() -> None:
    """Write both plans as protobuf and as JSON."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, plan in (("q01", q01()), ("q06", q06())):
        (FOLDER / f"{name}.bin").write_bytes(plan.SerializeToString(deterministic=True))
        (FOLDER / f"{name}.json").write_text(MessageToJson(plan) + "\n")


if __name__ == "__main__":
    main()
