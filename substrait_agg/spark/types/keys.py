"""One form for all equal values, in types that Spark groups, hashes and compares: keys on their way to the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as st

from substrait_agg.spark.types.cached_transform import CachedTransform

Rewrite = Callable[[Column, st.DataType], Column]


def keyed(frame: CachedTransform, keys: Sequence[str], *, floats: bool) -> CachedTransform:
    """The frame with its key columns in one form per value, maps as arrays of their entries.

    Spark groups by maps too, but then its column of keys has another name, and it does not hash them.

    Args:
        frame: has the columns `keys`.
        keys: names.
        floats: whether keys that are floats are seen to as well; a grouping does that itself.
    """
    changed = {
        field.name: hashable(normalised(F.col(field.name), field.dataType), field.dataType)
        for field in frame.schema.fields
        if field.name in keys and _has_forms(field.dataType) and (floats or not _is_float(field))
    }
    return frame.withColumns(changed)


def restored_keys(frame: CachedTransform, types: Mapping[str, st.DataType]) -> CachedTransform:
    """The frame with the columns that `keyed` made in their own types again.

    Args:
        frame: has the columns that `types` names.
        types: of the columns before `keyed`.
    """
    changed = {n: restored(F.col(n), t) for n, t in types.items() if _has_map(t)}
    return frame.withColumns(changed)


def _is_float(field: st.StructField) -> bool:
    return isinstance(field.dataType, (st.FloatType, st.DoubleType))


def normalised(column: Column, type_: st.DataType) -> Column:
    """The values in the one form that stands for all equal ones, on every level of nesting.

    -0.0 becomes 0.0, every NaN the same bits, and the entries of maps come in order of their keys. A map in which two
    keys become one fails the batch.

    Args:
        column: of the Spark type `type_`.
        type_: unchanged by this.
    """
    if not _has_forms(type_):
        return column
    if isinstance(type_, (st.FloatType, st.DoubleType)):
        nan, zero = F.lit(float("nan")).cast(type_), F.lit(0.0).cast(type_)
        return F.when(F.isnan(column), nan).otherwise(column + zero)
    if isinstance(type_, st.ArrayType):
        element = type_.elementType
        return F.transform(column, lambda x: normalised(x, element))
    if isinstance(type_, st.MapType):
        entries = F.transform(F.map_entries(column), lambda e: _entry(e, type_, normalised))
        return F.map_from_entries(F.array_sort(entries, _by_key))
    return _rebuilt(column, type_, normalised)


def hashable(column: Column, type_: st.DataType) -> Column:
    """`normalised` values in a type that Spark can hash and compare: maps as arrays of their entries."""
    if not _has_map(type_):
        return column
    if isinstance(type_, st.ArrayType):
        element = type_.elementType
        return F.transform(column, lambda x: hashable(x, element))
    if isinstance(type_, st.MapType):
        return F.transform(F.map_entries(column), lambda e: _entry(e, type_, hashable))
    return _rebuilt(column, type_, hashable)


def restored(column: Column, type_: st.DataType) -> Column:
    """What `hashable` made of values of `type_`, as `type_` again."""
    if not _has_map(type_):
        return column
    if isinstance(type_, st.ArrayType):
        element = type_.elementType
        return F.transform(column, lambda x: restored(x, element))
    if isinstance(type_, st.MapType):
        return F.map_from_entries(F.transform(column, lambda e: _entry(e, type_, restored)))
    return _rebuilt(column, type_, restored)


def _entry(entry: Column, type_: st.MapType, rewrite: Rewrite) -> Column:
    key, value = entry.getField("key"), entry.getField("value")
    return F.struct(
        rewrite(key, type_.keyType).alias("key"), rewrite(value, type_.valueType).alias("value")
    )


def _rebuilt(column: Column, type_: st.DataType, rewrite: Rewrite) -> Column:
    fields = type_.fields if isinstance(type_, st.StructType) else []
    parts = (rewrite(column.getField(f.name), f.dataType).alias(f.name) for f in fields)
    return F.when(column.isNotNull(), F.struct(*parts))


def _by_key(left: Column, right: Column) -> Column:
    a, b = left.getField("key"), right.getField("key")
    return F.when(a < b, F.lit(-1)).when(a > b, F.lit(1)).otherwise(F.lit(0))


def _has_forms(type_: st.DataType) -> bool:
    """Whether equal values of the type can differ in form."""
    return isinstance(type_, (st.FloatType, st.DoubleType, st.MapType)) or any(
        map(_has_forms, _inner(type_))
    )


def _has_map(type_: st.DataType) -> bool:
    return isinstance(type_, st.MapType) or any(map(_has_map, _inner(type_)))


def _inner(type_: st.DataType) -> tuple[st.DataType, ...]:
    if isinstance(type_, st.ArrayType):
        return (type_.elementType,)
    return tuple(f.dataType for f in type_.fields) if isinstance(type_, st.StructType) else ()
