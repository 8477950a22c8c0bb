"""Say which types of Parquet files Spark's readers read as they are.

Spark takes the schema of a source from its first files. From a later file with another type it may
read other values without an error: times as integers, integers as dates, unsigned integers of 32
bits as negative floats, zoned times as zoneless ones. Other types it refuses in words of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Literal

import pyarrow as pa
from pyspark.sql import types as st

_Test = Callable[[pa.DataType], bool]

_BYTE = (pa.int8(),)
_SHORT = (*_BYTE, pa.int16(), pa.uint8())
_INTEGER = (*_SHORT, pa.int32(), pa.uint16())
_LONG = (*_INTEGER, pa.int64(), pa.uint32())


INT96_UNIT: Literal["s"] = "s"
"""The unit with which Arrow shows times of the old type INT96. Parquet has no times of this unit."""

_WHOLE_DIGITS: Mapping[pa.DataType, int] = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32()), 10),
    pa.int64(): 20,
}
"""Integer -> the digits before the point that Spark asks of a decimal to read it as."""


def _is_text(type_: pa.DataType) -> bool:
    views = (pa.string_view(), pa.binary_view())
    return type_ in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), *views)


def _is_time(type_: pa.DataType, *, zoned: bool) -> bool:
    """Return whether a type has times of a kind. Spark has no nanoseconds."""
    if not pa.types.is_timestamp(type_) or type_.unit == "ns":
        return False
    is_zoned = type_.unit == INT96_UNIT or type_.tz is not None
    return is_zoned is zoned


def _fits_decimal(type_: pa.DataType, read_as: st.DecimalType) -> bool:
    """Return whether Spark reads a type as a decimal: one with as many digits on both sides."""
    before = read_as.precision - read_as.scale
    if pa.types.is_decimal(type_):
        digits, scale = int(type_.precision), int(type_.scale)
        return scale <= read_as.scale and digits - scale <= before
    if type_ == pa.uint64():
        return (before, read_as.scale) == (20, 0)
    stored = pa.int64() if pa.types.is_duration(type_) else type_
    return _WHOLE_DIGITS.get(stored, before + 1) <= before


# Parquet has no durations: Arrow stores them as integers, and so does Spark.
_ACCEPTED: Mapping[type[st.DataType], tuple[_Test, ...]] = {
    st.BooleanType: (pa.types.is_boolean,),
    st.ByteType: (_BYTE.__contains__,),
    st.ShortType: (_SHORT.__contains__,),
    st.IntegerType: (_INTEGER.__contains__,),
    st.LongType: (_LONG.__contains__, pa.types.is_duration),
    st.FloatType: (pa.types.is_float32,),
    st.DoubleType: (pa.types.is_float32, pa.types.is_float64, _INTEGER.__contains__),
    st.StringType: (_is_text,),
    st.BinaryType: (_is_text, pa.types.is_fixed_size_binary),
    st.DateType: (pa.types.is_date,),
    st.TimestampType: (partial(_is_time, zoned=True),),
    st.TimestampNTZType: (partial(_is_time, zoned=False), pa.types.is_date),
    st.TimeType: (pa.time64("us").__eq__,),
    st.YearMonthIntervalType: (_INTEGER.__contains__,),
    st.DayTimeIntervalType: (pa.types.is_duration, pa.types.is_int64),
}
"""Type that Spark reads -> tests for the types of a file whose values stay as they are."""


def misread(
    type_: pa.DataType, read_as: st.DataType, name: str
) -> Iterator[tuple[str, pa.DataType, st.DataType]]:
    """Yield the parts of a column of a file that Spark refuses, or may read with other values.

    Args:
        type_: the type in the file.
        read_as: the type that Spark reads.
        name: the name of the column.

    Yields:
        The name of a part, its type in the file, and the type that Spark reads.
    """
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    if isinstance(type_, pa.DictionaryType):
        type_ = type_.value_type
    if isinstance(read_as, st.StructType) and pa.types.is_struct(type_):
        read_by_name = {field.name.lower(): field.dataType for field in read_as.fields}
        for field in type_.fields:
            if field.name.lower() in read_by_name:
                inner = read_by_name[field.name.lower()]
                yield from misread(field.type, inner, f"{name}.{field.name}")
    elif isinstance(read_as, st.MapType) and pa.types.is_map(type_):
        yield from misread(type_.key_type, read_as.keyType, f"{name}.key")
        yield from misread(type_.item_type, read_as.valueType, f"{name}.value")
    elif isinstance(read_as, st.ArrayType) and _is_list(type_):
        yield from misread(type_.value_type, read_as.elementType, f"{name}.element")
    elif not pa.types.is_null(type_) and not _is_read(type_, read_as):
        yield name, type_, read_as


def _is_read(type_: pa.DataType, read_as: st.DataType) -> bool:
    """Return whether Spark reads a value without parts, in a file or in the schema, as it is."""
    if isinstance(read_as, st.DecimalType):
        return _fits_decimal(type_, read_as)
    if isinstance(read_as, st.StructType | st.MapType | st.ArrayType):
        return False
    tests = _ACCEPTED.get(type(read_as))
    return tests is None or any(test(type_) for test in tests)


def _is_list(type_: pa.DataType) -> bool:
    return isinstance(type_, pa.ListType | pa.LargeListType | pa.FixedSizeListType)
