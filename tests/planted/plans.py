"""Plans of the real packages: they get planted mistakes, and pass without them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import substrait.dataframe as sub
from datafusion import SessionContext
from datafusion.substrait import Serde
from substrait.builders import type as types

SCHEMA = pa.schema(
    [
        ("id", pa.int64()), ("g", pa.string()), ("h", pa.string()), ("i", pa.int32()), ("l", pa.int64()),
        ("x", pa.float64()), ("m", pa.decimal128(15, 2)), ("s", pa.string()), ("d", pa.date32()),
        ("ts", pa.timestamp("us")), ("b", pa.bool_()),
    ]
)  # fmt: skip

QUERIES: dict[str, str] = {
    "measures": """
select g, h, sum(m) filter (where b), count(distinct s), sum(m * (1 - m)), avg(x),
  string_agg(s, ',' order by id desc), array_agg(s order by id), min(i), max(d), stddev(x), bool_and(b),
  corr(x, x), count(*)
from t where i in (1, 2, 3, 5, 8) and d < date '1998-09-02' group by g, h having count(*) > 1 order by g, h desc""",
    "ordered": """
select b, percentile_cont(0.25) within group (order by x), first_value(s order by id), median(l),
  string_agg(distinct s, ',' order by s), array_agg(l order by ts) filter (where x > 0) from t group by b""",
    "rollup": """
select g, h, sum(l), count(*) from t where x > 0.5 or s like 'a%' group by rollup (g, h)""",
    "project": """
select g, case when sum(l) > 0 then 'up' else 'down' end c, sum(l) * 2 t, cast(max(l) as double) z
from t group by g""",
    "union": """
select g, count(*), sum(m) from (select g, m from t where i > 0 union all select upper(g), m from t where b) u
group by g""",
    "nested": """
select n, count(*), sum(v) from (select g, count(*) n, sum(l) v from t group by g) q group by n""",
    "values": "select k, sum(v) from (values ('a', 1), ('b', 2)) as q (k, v) group by k",
    "windows": """
select g, max(p), max(n), max(s) from (
  select g, lag(l, 2) over (partition by g order by id) p, ntile(3) over (partition by g order by id) n,
    sum(l) over (partition by g order by id rows between 2 preceding and current row) s from t) q
group by g""",
    "rows": "select id, g, l * 2 from t where not (x > 0) order by id",
}  # fmt: skip
"""SQL for DataFusion."""


@cache
def session() -> SessionContext:
    """One DataFusion session with the empty table ``t``."""
    made = SessionContext()
    made.register_record_batches("t", [[pa.RecordBatch.from_pylist([], schema=SCHEMA)]])
    return made


def datafusion_plan(sql: str) -> bytes:
    """The plan that DataFusion makes of a query over ``t``."""
    return bytes(Serde.serialize_bytes(sql, session()))


# --- substrait-python --------------------------------------------------------------------------

MONEY = types.decimal(2, 15)
COLUMNS: dict[str, Any] = {
    "id": types.i64(), "g": types.string(), "h": types.string(), "i": types.i32(), "l": types.i64(),
    "x": types.fp64(), "m": MONEY, "s": types.string(), "d": types.date(),
    "ts": types.precision_timestamp(6), "b": types.boolean(),
}  # fmt: skip

col, f, lit = sub.col, sub.f, sub.lit


def _table() -> Any:
    struct = types.struct(list(COLUMNS.values()), nullable=False)
    return sub.read_named_table("t", types.named_struct(names=list(COLUMNS), struct=struct))


def _measures() -> Any:
    one, day = lit(Decimal("1.00"), MONEY), lit(dt.date(1998, 9, 2))
    made = (
        f.sum(col("m"), alias="a").filter(col("b")),
        f.count(col("s"), alias="n").distinct(),
        f.sum(col("m") * (one - col("m")), alias="p"),
        f.avg(col("x"), alias="mean"),
        f.string_agg(col("s"), lit(","), alias="all").order_by(col("id"), descending=True),
        f.min(col("i"), alias="least"),
        f.max(col("d"), alias="last"),
        f.std_dev(sub.enum("SAMPLE"), col("x"), alias="spread"),
        f.bool_and(col("b"), alias="every"),
        f.corr(col("x"), col("x"), alias="related"),
        f.sum(col("l"), alias="total", overflow="ERROR"),
        f.count(alias="rows"),
    )
    wanted = _table().filter(col("i").is_in([1, 2, 3, 5, 8]) & (col("d") < day))
    return wanted.group_by("g", "h").agg(*made).filter(col("rows") > 1).sort("g", "h")


def _ordered() -> Any:
    texts = f.string_agg(col("s"), lit(","), alias="t").distinct().order_by(col("s"))
    several = f.string_agg(col("s"), lit(";"), alias="u").order_by(col("ts")).filter(col("x") > 0)
    return _table().group_by("b").agg(texts, several, f.any_value(col("l"), alias="any"))


def _rollup() -> Any:
    wanted = _table().filter((col("x") > 0.5) | f.like(col("s"), lit("a%")))
    return wanted.rollup("g", "h").agg(f.sum(col("l"), alias="v"), f.count(alias="n"))


def _project() -> Any:
    total, most = f.sum(col("l"), alias="v"), f.max(col("l"), alias="w")
    return (
        _table()
        .group_by("g")
        .agg(total, most)
        .select(
            col("g"),
            sub.when(col("v") > 0).then("up").otherwise("down").alias("c"),
            (col("v") * 2).alias("t"),
            col("w").cast(types.fp64()).alias("z"),
        )
    )


def _union() -> Any:
    positive = _table().filter(col("i") > 0).select("g", "m")
    others = _table().filter(col("b")).select(f.upper(col("g")).alias("g"), "m")
    measures = f.count(alias="n"), f.sum(col("m"), alias="v")
    return positive.union(others).group_by("g").agg(*measures)


def _nested() -> Any:
    inner = _table().group_by("g").agg(f.count(alias="n"), f.sum(col("l"), alias="v"))
    return inner.group_by("n").agg(f.count(alias="groups"), f.sum(col("v"), alias="total"))


def _values() -> Any:
    rows = [{"k": "a", "v": 1}, {"k": "b", "v": 2}]
    struct = types.struct([types.string(), types.i64()], nullable=False)
    schema = types.named_struct(names=["k", "v"], struct=struct)
    return sub.from_records(rows, schema).group_by("k").agg(f.sum(col("v"), alias="total"))


def _rows() -> Any:
    kept = _table().filter(~(col("x") > 0))
    size = col("i").switch({1: "one", 2: "two"}, "more").alias("k")
    return kept.select("id", "g", (col("l") * 2).alias("t"), size).sort("id")


FRAMES: dict[str, Callable[[], Any]] = {
    "measures": _measures, "ordered": _ordered, "rollup": _rollup, "project": _project,
    "union": _union, "nested": _nested, "values": _values, "rows": _rows,
}  # fmt: skip
"""Dataframes of substrait-python."""


@cache
def base_plans() -> dict[str, dict[str, bytes]]:
    """Producer -> name -> the plan as protobuf."""
    return {
        "DataFusion": {name: datafusion_plan(sql) for name, sql in QUERIES.items()},
        "substrait-python": {
            name: frame().to_plan().SerializeToString(deterministic=True)
            for name, frame in FRAMES.items()
        },
    }
