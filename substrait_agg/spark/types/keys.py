"""Normalise grouping keys: equal values get equal bits, in types that Spark hashes and compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as st

from substrait_agg.spark.types.cached_transform import RecordedTransform

Rewrite = Callable[[Column, st.DataType], Column]


def with_normalised_keys(
    frame: RecordedTransform, keys: Sequence[str], *, floats: bool
) -> RecordedTransform:
    """Return the frame with normalised key columns; maps become arrays of their entries.

    Spark can group by maps, but it then renames the key column, and it cannot hash maps.

    Args:
        frame: a frame with the columns `keys`.
        keys: the names of the key columns.
        floats: whether to normalise float keys as well. Spark's grouping does so itself.
    """
    changed = {
        field.name: hashable(normalise(F.col(field.name), field.dataType), field.dataType)
        for field in frame.schema.fields
        if field.name in keys and _has_forms(field.dataType) and (floats or not _is_float(field))
    }
    return frame.withColumns(changed)


def restored_keys(frame: RecordedTransform, types: Mapping[str, st.DataType]) -> RecordedTransform:
    """Return the frame with the columns of `with_normalised_keys` converted back to their types."""
    changed = {n: restore(F.col(n), t) for n, t in types.items() if _has_map(t)}
    return frame.withColumns(changed)


def _is_float(field: st.StructField) -> bool:
    return isinstance(field.dataType, (st.FloatType, st.DoubleType))


def normalise(column: Column, type_: st.DataType) -> Column:
    """Return values in a form that is the same for all equal values, on every level of nesting.

    -0.0 becomes 0.0, every NaN gets the same bits, and map entries are ordered by key. A map in
    which two keys become equal fails the batch. The result has the type `type_`.
    """
    if not _has_forms(type_):
        return column
    if isinstance(type_, (st.FloatType, st.DoubleType)):
        nan, zero = F.lit(float("nan")).cast(type_), F.lit(0.0).cast(type_)
        return F.when(F.isnan(column), nan).otherwise(column + zero)
    if isinstance(type_, st.MapType):
        entries = F.transform(F.map_entries(column), lambda e: _entry(e, type_, normalise))
        return F.map_from_entries(F.array_sort(entries, _by_key))
    return _rebuilt(column, type_, normalise)


def hashable(column: Column, type_: st.DataType) -> Column:
    """Return `normalise` values in a type that Spark can hash; maps become arrays of entries."""
    if not _has_map(type_):
        return column
    if isinstance(type_, st.MapType):
        return F.transform(F.map_entries(column), lambda e: _entry(e, type_, hashable))
    return _rebuilt(column, type_, hashable)


def restore(column: Column, type_: st.DataType) -> Column:
    """Return a result of `hashable` converted back to `type_`."""
    if not _has_map(type_):
        return column
    if isinstance(type_, st.MapType):
        return F.map_from_entries(F.transform(column, lambda e: _entry(e, type_, restore)))
    return _rebuilt(column, type_, restore)


def _entry(entry: Column, type_: st.MapType, rewrite: Rewrite) -> Column:
    key, value = entry.getField("key"), entry.getField("value")
    return F.struct(
        rewrite(key, type_.keyType).alias("key"), rewrite(value, type_.valueType).alias("value")
    )


def _rebuilt(column: Column, type_: st.DataType, rewrite: Rewrite) -> Column:
    """Return an array or a struct of rewritten values."""
    if isinstance(type_, st.ArrayType):
        element = type_.elementType
        return F.transform(column, lambda x: rewrite(x, element))
    fields = type_.fields if isinstance(type_, st.StructType) else []
    parts = (rewrite(column.getField(f.name), f.dataType).alias(f.name) for f in fields)
    return F.when(column.isNotNull(), F.struct(*parts))


def _by_key(left: Column, right: Column) -> Column:
    left_key, right_key = left.getField("key"), right.getField("key")
    return (
        F.when(left_key < right_key, F.lit(-1))
        .when(left_key > right_key, F.lit(1))
        .otherwise(F.lit(0))
    )


def _has_forms(type_: st.DataType) -> bool:
    """Return whether equal values of the type can have different representations."""
    return isinstance(type_, (st.FloatType, st.DoubleType, st.MapType)) or any(
        map(_has_forms, _inner(type_))
    )


def _has_map(type_: st.DataType) -> bool:
    return isinstance(type_, st.MapType) or any(map(_has_map, _inner(type_)))


def _inner(type_: st.DataType) -> tuple[st.DataType, ...]:
    if isinstance(type_, st.ArrayType):
        return (type_.elementType,)
    return tuple(f.dataType for f in type_.fields) if isinstance(type_, st.StructType) else ()
