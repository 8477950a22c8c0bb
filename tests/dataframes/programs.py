"""DataFrame programs of usual kinds, over the tables `sales` and `labels`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

    Program = Callable[[DataFrame, DataFrame], DataFrame]


def near(column: Column) -> Column:
    """A float whose last digits depend on the order of additions."""
    return F.round(column, 6)


def by_name() -> WindowSpec:
    return Window.partitionBy("name").orderBy("n")


def with_discount(table: DataFrame) -> DataFrame:
    return table.withColumn("less", F.col("price") * Decimal("0.9"))


ROWS: dict[str, Program] = {
    "select": lambda t, _: t.select("id", "name", t.x, F.col("price")),
    "select expressions": lambda t, _: t.selectExpr("id + 1 AS next", "upper(name) AS u", "x * 2 AS double"),
    "with a column": lambda t, _: t.withColumn("total", F.col("price") * F.col("id")).select("id", "total"),
    "with columns": lambda t, _: t.withColumns({"a": F.col("n") + 1, "b": F.lower("name")}).select("a", "b"),
    "renamed": lambda t, _: t.withColumnRenamed("n", "number").select("number", "ok"),
    "dropped": lambda t, _: t.drop("tags", "place", "marks", "at"),
    "filter": lambda t, _: t.filter((F.col("n") > 4) & ~F.col("ok")).select("n"),
    "where text": lambda t, _: t.where("name LIKE 'A%' OR name IS NULL").select("id", "name"),
    "between and in": lambda t, _: t.where(F.col("n").between(3, 12) & F.col("id").isin(1, 2, 3)).select("n", "id"),
    "when otherwise": lambda t, _: t.select("n", F.when(F.col("n") > 10, "high").when(F.col("n") > 5, "mid").otherwise("low").alias("c")),
    "casts": lambda t, _: t.select(F.col("n").cast("string"), F.col("price").cast("double").alias("p"), F.col("x").cast("decimal(12,3)").alias("d")),
    "try cast": lambda t, _: t.select("n", F.col("name").try_cast("int").alias("i"), F.expr("try_cast(CAST(n AS STRING) AS DATE)").alias("d")),
    "nulls dropped": lambda t, _: t.na.drop(subset=["name", "x"]).select("n"),
    "nulls dropped by number": lambda t, _: t.select("id", "name", "x", "n").dropna(thresh=3),
    "nulls filled": lambda t, _: t.select("n", "name", "x", "ok").na.fill({"name": "?", "x": 0.0, "ok": False}),
    "replaced": lambda t, _: t.select("n", "name").replace({"a": "A", "b": "B"}, subset=["name"]),
    "texts": lambda t, _: t.select("n", F.concat_ws("-", "name", F.col("id").cast("string")).alias("a"), F.regexp_replace("name", "[a-b]", "*").alias("b"),
                                   F.lpad("name", 4, "_").alias("c"), F.split("name", "b").alias("d"), F.initcap("name").alias("e"), F.trim(F.lit(" x ")).alias("f")),
    "dates": lambda t, _: t.select("n", F.date_add("day", 3).alias("a"), F.add_months("day", 1).alias("b"), F.last_day("day").alias("c"), F.datediff(F.lit("2024-03-01").cast("date"), "day").alias("d"),
                                   F.date_trunc("MONTH", "at").alias("e"), F.dayofweek("day").alias("f"), F.quarter("day").alias("g"), F.date_format("at", "yyyy/MM/dd HH").alias("h")),
    "times": lambda t, _: t.select("n", F.hour("at").alias("a"), F.unix_timestamp("at").alias("b"), F.to_date("at").alias("c"), (F.col("at") + F.expr("INTERVAL 90 MINUTES")).alias("d")),
    "hashes": lambda t, _: t.select("n", F.md5(F.col("name").cast("binary")).alias("a"), F.sha2("name", 256).alias("b"), F.crc32(F.col("name").cast("binary")).alias("c"),
                                    F.xxhash64("name", "id").alias("d"), F.hash("n").alias("e")),
    "numbers": lambda t, _: t.select("n", F.sqrt("n").alias("a"), F.pmod("n", F.lit(3)).alias("b"), F.greatest("n", "id").alias("c"), F.floor("x").alias("d"),
                                     F.ceil("price").alias("e"), F.signum("x").alias("f"), F.hex("n").alias("g"), F.round(F.log1p("n"), 6).alias("h")),
    "structs": lambda t, _: t.select("n", F.struct("id", "name").alias("s"), F.col("place.city"), F.col("place").getField("zip").alias("z")),
    "fields of structs": lambda t, _: t.withColumn("place", F.col("place").withField("zip", F.col("id")).dropFields("city")).select("n", "place"),
    "arrays": lambda t, _: t.select("n", F.size("tags").alias("a"), F.array_contains("tags", "x").alias("b"), F.array_distinct("tags").alias("c"), F.sort_array("tags").alias("d"),
                                    F.try_element_at("tags", F.lit(1)).alias("e"), F.slice("tags", 1, 1).alias("f"), F.array_join("tags", "+").alias("g")),
    "maps": lambda t, _: t.select("n", F.map_keys("marks").alias("a"), F.col("marks")["k"].alias("b"), F.size("marks").alias("c"), F.map_entries("marks").alias("d")),
    "made maps": lambda t, _: t.select("n", F.create_map(F.lit("a"), "id", F.lit("b"), "n").alias("m")),
    "higher order": lambda t, _: t.select("n", F.transform("tags", F.upper).alias("a"), F.filter("tags", lambda v: v != "x").alias("b"), F.exists("tags", lambda v: v == "y").alias("c"),
                                          F.aggregate("tags", F.lit(0), lambda total, v: total + F.length(v)).alias("d"), F.forall("tags", lambda v: v > "a").alias("e")),
    "json": lambda t, _: t.select("n", F.to_json(F.struct("id", "name")).alias("a"), F.get_json_object(F.lit('{"k": 1}'), "$.k").alias("b")),
    "read json": lambda t, _: t.select("n", F.from_json(F.concat(F.lit('{"v": '), F.col("n").cast("string"), F.lit("}")), "v int").alias("j")),
    "conditions": lambda t, _: t.select("n", F.coalesce("name", F.lit("?")).alias("a"), F.nullif("id", F.lit(2)).alias("b"), F.ifnull("x", F.lit(1.5)).alias("c"), F.nvl2("name", F.lit(1), F.lit(0)).alias("d")),
    "transform": lambda t, _: t.transform(with_discount).select("n", "less"),
    "hints": lambda t, u: t.repartition(4, "id").coalesce(1).join(u.hint("broadcast"), "id").select("n", "label"),
    "explode": lambda t, _: t.select("n", F.explode("tags").alias("tag")),
    "explode outer": lambda t, _: t.select("n", F.explode_outer("tags").alias("tag")).groupBy("tag").count(),
    "positions": lambda t, _: t.select("n", F.posexplode("tags").alias("p", "tag")),
    "explode a map": lambda t, _: t.select("n", F.explode("marks").alias("k", "v")),
    "melt": lambda t, _: t.select("n", "id", F.length("name").alias("len")).melt(["n"], ["id", "len"], "what", "value"),
}  # fmt: skip

GROUPS: dict[str, Program] = {
    "count": lambda t, _: t.groupBy("name").count(),
    "aggregates": lambda t, _: t.groupBy("name").agg(F.sum("n").alias("s"), F.avg("price").alias("a"), F.min("day").alias("mi"), F.max("at").alias("ma"), F.count("x").alias("c")),
    "shorthands": lambda t, _: t.groupBy("id").sum("n"),
    "agg of a mapping": lambda t, _: t.groupBy("id").agg({"n": "max", "price": "sum"}),
    "no key": lambda t, _: t.agg(F.sum("price").alias("p"), F.countDistinct("name").alias("d"), F.max("x").alias("m")),
    "keys of expressions": lambda t, _: t.groupBy(F.year("day").alias("y"), (F.col("n") % 2).alias("odd")).agg(F.sum("n").alias("s")),
    "expressions of aggregates": lambda t, _: t.groupBy("name").agg((F.max("n") - F.min("n")).alias("span"), (F.sum("price") / F.count("price")).alias("mean")),
    "having": lambda t, _: t.groupBy("name").agg(F.sum("n").alias("s")).where("s > 10"),
    "counts if": lambda t, _: t.groupBy("name").agg(F.count_if(F.col("ok")).alias("c"), F.expr("sum(n) FILTER (WHERE ok)").alias("s"), F.sum(F.when(F.col("ok"), 1).otherwise(0)).alias("w")),
    "spread": lambda t, _: t.groupBy("ok").agg(near(F.stddev("n")).alias("a"), near(F.var_pop("n")).alias("b"), near(F.corr("n", "id")).alias("c"), near(F.covar_samp("n", "id")).alias("d")),
    "skewness": lambda t, _: t.groupBy("ok").agg(near(F.skewness("n")).alias("a"), near(F.kurtosis("n")).alias("b")),
    "collected": lambda t, _: t.groupBy("name").agg(F.sort_array(F.collect_list("n")).alias("l"), F.sort_array(F.collect_set("id")).alias("s")),
    "joined texts": lambda t, _: t.groupBy("id").agg(F.expr("listagg(name, ',') WITHIN GROUP (ORDER BY name)").alias("j")),
    "percentiles": lambda t, _: t.groupBy("ok").agg(F.median("n").alias("m"), F.percentile("n", 0.25).alias("p")),
    "greatest by": lambda t, _: t.groupBy("name").agg(F.max_by("id", "n").alias("a"), F.min_by("day", "n").alias("b")),
    "logic": lambda t, _: t.groupBy("name").agg(F.bool_and("ok").alias("a"), F.bool_or("ok").alias("b"), F.every("ok").alias("c"), F.bit_xor("n").alias("d")),
    "sum of distinct": lambda t, _: t.groupBy("name").agg(F.sum_distinct("id").alias("s"), F.countDistinct("id", "ok").alias("c")),
    "approximate": lambda t, _: t.groupBy("ok").agg(F.approx_count_distinct("name").alias("c")),
    "regression": lambda t, _: t.groupBy("ok").agg(near(F.regr_slope("n", "id")).alias("a"), F.regr_count("n", "id").alias("b")),
    "pivot": lambda t, _: t.groupBy("name").pivot("ok", [True, False]).agg(F.sum("n")),
    "pivot of several": lambda t, _: t.groupBy("ok").pivot("id", [1, 2]).agg(F.sum("n").alias("s"), F.count("n").alias("c")),
    "cube": lambda t, _: t.cube("name", "ok").agg(F.sum("n").alias("s"), F.grouping_id().alias("g")),
    "rollup": lambda t, _: t.rollup("id", "ok").agg(F.count("*").alias("c"), F.grouping("ok").alias("g")),
    "grouping sets": lambda t, _: t.groupingSets([["name"], ["ok"], []], "name", "ok").agg(F.sum("n").alias("s")),
    "distinct": lambda t, _: t.select("name", "ok").distinct(),
    "no duplicates": lambda t, _: t.select("name", "ok", F.length("name").alias("l")).dropDuplicates(["name", "ok"]),
    "groups of groups": lambda t, _: t.groupBy("name", "id").agg(F.sum("n").alias("s")).groupBy("name").agg(F.max("s").alias("m")),
    "windows of time": lambda t, _: t.groupBy(F.window("at", "1 day").alias("w")).agg(F.sum("n").alias("s")).select("w.start", "s"),
    "describe": lambda t, _: t.groupBy().agg(*(f("n").alias(f.__name__) for f in (F.min, F.max, F.avg, F.count))),
}  # fmt: skip

TABLES: dict[str, Program] = {
    "inner join": lambda t, u: t.join(u, "id").select("n", "label"),
    "left join": lambda t, u: t.join(u, t.id == u.id, "left").select("n", "label"),
    "right join": lambda t, u: t.join(u, t.id == u.id, "right").select("n", "label"),
    "full join": lambda t, u: t.join(u, t.id == u.id, "full").select("n", "label"),
    "cross join": lambda t, _: t.select("n").crossJoin(t.sparkSession.range(2)),
    "semi join": lambda t, u: t.join(u, "id", "left_semi").select("n"),
    "anti join": lambda t, u: t.join(u, "id", "left_anti").select("n"),
    "join of a range": lambda t, u: t.join(u, (t.id == u.id) & (t.n > u.id * 2)).select("n", "label"),
    "join of null-safe keys": lambda t, u: t.join(u, t.id.eqNullSafe(u.id)).select("n", "label"),
    "self join": lambda t, _: t.alias("a").join(t.alias("b"), (F.col("a.id") == F.col("b.id")) & (F.col("a.n") < F.col("b.n"))).select("a.n", F.col("b.n").alias("m")),
    "join of groups": lambda t, u: t.join(u, "id").groupBy("label").agg(F.sum("price").alias("p")),
    "union": lambda t, u: t.select("id").union(u.select("id")),
    "union by name": lambda t, u: t.select("id", "name").unionByName(u.select("label", "id"), allowMissingColumns=True),
    "union of distinct": lambda t, u: t.select("id").union(u.select("id")).distinct(),
    "intersect": lambda t, u: t.select("id").intersect(u.select("id")),
    "intersect all": lambda t, u: t.select("id").intersectAll(u.select("id")),
    "except all": lambda t, u: t.select("id").exceptAll(u.select("id")),
    "subtract": lambda t, u: t.select("id").subtract(u.select("id")),
    "top": lambda t, _: t.orderBy(F.desc("n")).limit(4).select("n", "name"),
    "offset": lambda t, _: t.select("n", "id").orderBy("n").offset(2).limit(3),
    "ranks": lambda t, _: t.select("n", F.row_number().over(by_name()).alias("r"), F.rank().over(Window.partitionBy("id").orderBy("day")).alias("k")),
    "running totals": lambda t, _: t.select("n", F.sum("price").over(by_name()).alias("s"), F.lag("n").over(by_name()).alias("p"), F.lead("n", 1, 0).over(by_name()).alias("q")),
    "shares": lambda t, _: t.select("n", (F.col("n") / F.sum("n").over(Window.partitionBy("id"))).alias("share"), F.ntile(2).over(by_name()).alias("half")),
    "newest of a group": lambda t, _: t.withColumn("r", F.row_number().over(Window.partitionBy("name").orderBy(F.desc("n")))).where("r = 1").select("name", "n"),
    "moving average": lambda t, _: t.select("n", F.avg("n").over(by_name().rowsBetween(-1, 1)).alias("a")),
    "sql": lambda t, _: t.sparkSession.sql("SELECT name, sum(n) AS s FROM sales WHERE id IN (SELECT id FROM labels) GROUP BY name"),
    "sql with names": lambda t, _: t.sparkSession.sql("WITH a AS (SELECT id, max(n) AS m FROM sales GROUP BY id) SELECT l.label, a.m FROM labels l LEFT JOIN a ON l.id = a.id"),
    "correlated": lambda t, _: t.sparkSession.sql("SELECT n, (SELECT count(*) FROM labels l WHERE l.id = s.id) AS c FROM sales s"),
    "constants": lambda t, _: t.join(t.sparkSession.range(3).alias("r"), F.col("r.id") == F.col("n")).select("n", "r.id"),
    "lateral view": lambda t, _: t.sparkSession.sql("SELECT n, tag FROM sales LATERAL VIEW explode(tags) AS tag"),
}  # fmt: skip

PROGRAMS = {**ROWS, **GROUPS, **TABLES}

COMING = frozenset(
    {"explode", "explode outer", "positions", "explode a map", "lateral view", "pivot", "pivot of several",
     "windows of time"}
)  # fmt: skip
"""Programs that may be refused: their operations are not translated yet."""
