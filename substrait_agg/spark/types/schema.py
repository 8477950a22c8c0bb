"""Convert Substrait types to Spark types.

| Substrait | Spark | why |
|---|---|---|
| ``u8`` | smallint | Spark has no unsigned types; its Parquet reader does the same |
| ``u16`` | int | as above |
| ``u32`` | bigint | as above |
| ``u64`` | decimal(20,0) | as above |
| ``fixedchar`` ``varchar`` | string | lengths are checked by casts, not by columns |
| ``fixedbinary`` ``uuid`` | binary | bytes keep their order |
| ``interval_year`` | int (months) | PySpark's Arrow exchange has no year-month interval |
| ``precision_timestamp`` to 6 digits | timestamp_ntz | microseconds without a zone |
| ``precision_timestamp_tz`` to 6 digits | timestamp | an instant |
| ``precision_time`` to 6 digits | time(6) | needs Spark 4.1 |
| ``interval_day`` to 6 digits | interval day to second | |
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from substrait_agg.plan.arrow import MAX_DECIMAL_PRECISION, refuse_type
from substrait_agg.plan.plannable import COLLATED, plannable
from substrait_agg.plan.types import Type, field_name

MAX_FRACTION_DIGITS = 6

_SIMPLE: dict[str, st.DataType] = {
    "bool": st.BooleanType(),
    "i8": st.ByteType(),
    "i16": st.ShortType(),
    "i32": st.IntegerType(),
    "i64": st.LongType(),
    "u8": st.ShortType(),
    "u16": st.IntegerType(),
    "u32": st.LongType(),
    "u64": st.DecimalType(20, 0),
    "fp32": st.FloatType(),
    "fp64": st.DoubleType(),
    "string": st.StringType(),
    "fixedchar": st.StringType(),
    "varchar": st.StringType(),
    "binary": st.BinaryType(),
    "fixedbinary": st.BinaryType(),
    "uuid": st.BinaryType(),
    "date": st.DateType(),
    "interval_year": st.IntegerType(),
}

_FRACTIONAL: dict[str, Callable[[], st.DataType]] = {
    "precision_time": lambda: st.TimeType(MAX_FRACTION_DIGITS),
    "precision_timestamp": st.TimestampNTZType,
    "precision_timestamp_tz": st.TimestampType,
    "interval_day": lambda: st.DayTimeIntervalType(0, 3),
}


def _decimal(type_: Type) -> st.DataType:
    precision, scale = type_.params
    if not (1 <= precision <= MAX_DECIMAL_PRECISION and 0 <= scale <= precision):
        raise refuse_type(type_)
    return st.DecimalType(precision, scale)


def _struct(type_: Type) -> st.DataType:
    return st.StructType(
        [
            st.StructField(field_name(i), to_spark(c), c.nullable)
            for i, c in enumerate(type_.children)
        ]
    )


def _list(type_: Type) -> st.DataType:
    element = type_.children[0]
    return st.ArrayType(to_spark(element), element.nullable)


def _map(type_: Type) -> st.DataType:
    key, value = type_.children
    return st.MapType(to_spark(key), to_spark(value), value.nullable)


_BUILT: dict[str, Callable[[Type], st.DataType]] = {
    "decimal": _decimal,
    "struct": _struct,
    "list": _list,
    "map": _map,
}


def to_spark(type_: Type) -> st.DataType:
    """Return the Spark type of a column of type `type_`; see the table of this module.

    Raises:
        UsageError: ``TYPE_NOT_SUPPORTED``, also for more than 6 fraction digits of a second,
            because Spark stores microseconds.
    """
    if type_.kind in _SIMPLE:
        return _SIMPLE[type_.kind]
    if type_.kind in _FRACTIONAL and 0 <= type_.params[0] <= MAX_FRACTION_DIGITS:
        return _FRACTIONAL[type_.kind]()
    if type_.kind in _BUILT:
        return _BUILT[type_.kind](type_)
    raise refuse_type(type_)


def cast_target(type_: Type) -> st.DataType | str:
    """Return the type for `Column.cast`: the name of a type whose name is unambiguous.

    Given an object, PySpark calls the JVM six times more, to find the session and to parse the type.

    Raises:
        UsageError: ``TYPE_NOT_SUPPORTED``.
    """
    target = to_spark(type_)
    return target.simpleString() if type_.kind in (*_SIMPLE, "decimal") else target


def arrow_columns(columns: st.StructType) -> pa.Schema:
    """Return columns of Spark as those of a table that plans read. Arrow has no collations: the metadata has them."""
    schema = plannable(to_arrow_schema(columns, timezone="UTC"))
    fields = [
        field.with_metadata({COLLATED: column.dataType.json()})
        if "string collate " in column.dataType.simpleString()
        else field
        for field, column in zip(schema, columns.fields, strict=True)
    ]
    return pa.schema(fields)


def spark_columns(schema: pa.Schema) -> st.StructType:
    """Return the columns of a table as Spark has them."""
    columns = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    for field, column in zip(schema, columns.fields, strict=True):
        if field.metadata and COLLATED in field.metadata:
            written = {"name": "", "type": json.loads(field.metadata[COLLATED]), "nullable": True}
            column.dataType = st.StructField.fromJson(written).dataType
    return columns


def in_text(type_: Type) -> Type:
    """Return the type of a column in text files (CSV, JSON): a string for a UUID, else `type_`."""
    if type_.kind == "uuid":
        return Type("string", type_.nullable)
    return replace(type_, children=tuple(in_text(child) for child in type_.children))


def column_name(ordinal: int) -> str:
    """Return the name of column `ordinal` in DataFrames of the plan's columns."""
    return f"c{ordinal}"
