"""Debezium change events of a table whose primary key is known: what they say of a row besides what it is now does not matter.

An update needs no row before, a delete only the key in it. A tombstone, the message without a value that follows a delete, is
a deletion itself where it carries the key: in a compacted topic it is all that is left of the delete.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from substrait_agg.flow.graph import Keyed, TableOrigin
from substrait_agg.spark.bad_rows import FILE, POSITION
from substrait_agg.spark.upserts import order_types, unchanged_column

MESSAGE_KEY = "key"
"""The column of message keys of Kafka."""

UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium writes in place of a large value of PostgreSQL that an update did not change."""


def texts(events: DataFrame, value: str, keyed: Keyed | None) -> DataFrame:
    """The events as JSON texts ``t``, and where they are from; tombstones as deletes where they tell the key, and without text otherwise.

    With an order that the envelope tells, tombstones say nothing: they have no envelope.
    """
    text = F.col(value).cast("string")
    place = [F.col(name) for name in (FILE, POSITION) if name in events.columns]
    if keyed is None or keyed.paths or MESSAGE_KEY not in events.columns:
        return events.select(text.alias("t"), *place)
    key = F.col(MESSAGE_KEY).cast("string")
    inner = F.when(
        F.get_json_object(key, "$.schema").isNotNull(), F.get_json_object(key, "$.payload")
    ).otherwise(key)
    told = F.when(
        F.json_object_keys(inner).isNotNull(),
        F.concat(F.lit('{"op":"d","before":'), inner, F.lit("}")),
    )
    return events.select(F.coalesce(text, told).alias("t"), *place)


def order_fields(keyed: Keyed | None) -> list[st.StructField]:
    """The fields of an envelope that order its events, as they are parsed: numbers as text, like all of them."""
    fields: dict[str, list[str]] = {}
    for path in keyed.paths if keyed else ():
        block, _, name = path.rpartition(".")
        fields.setdefault(block or name, []).extend([name] if block else [])
    return [
        st.StructField(
            name,
            st.StructType([st.StructField(n, st.StringType()) for n in dict.fromkeys(inside)])
            if inside
            else st.StringType(),
        )
        for name, inside in fields.items()
    ]


def order_columns(keyed: Keyed | None) -> list[Column]:
    """The values that order events; null where they are not there, or are no numbers where they have to be."""
    if keyed is None:
        return []
    return [
        F.col(path).try_cast(type_).alias(name)
        for path, (name, type_) in zip(keyed.paths, order_types(keyed), strict=True)
    ]


def removed(origin: TableOrigin, keyed: Keyed, row: st.StructType) -> Column:
    """The key that an event takes away, as a row with nothing else in it: that of a delete, or that a row had before."""
    names = [origin.names[k] for k in keyed.keys]
    before, after = F.col("before"), F.col("after")
    told = reduce(lambda a, b: a & b, (before.getField(n).isNotNull() for n in names))
    moved = reduce(
        lambda a, b: a | b, (~before.getField(n).eqNullSafe(after.getField(n)) for n in names)
    )
    other = (F.col("op") == "u") & F.coalesce(told & moved, F.lit(False))
    parts = (
        (before.getField(f.name) if f.name in names else F.lit(None).cast(f.dataType)).alias(f.name)
        for f in row.fields
    )
    made = F.struct(F.struct(*parts).alias("row"), F.lit(-1).cast("bigint").alias("weight"))
    return F.when((F.col("op") == "d") | other, made)


def unavailable(row: Column, name: str) -> Column:
    """Whether a row leaves out a column because it did not change; never null."""
    return F.coalesce(row.getField(name).cast("string") == UNAVAILABLE, F.lit(False))


def unchanged(origin: TableOrigin, row: Column) -> list[Column]:
    """Per column that can be left out whether it is."""
    partial = origin.keyed.partial if origin.keyed else ()
    return [
        unavailable(row, origin.names[place]).alias(unchanged_column(i))
        for i, place in enumerate(partial)
    ]
