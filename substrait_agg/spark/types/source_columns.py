"""Find source columns by name, check them against the plan's types, and convert them losslessly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from substrait_agg.errors import InputRefused
from substrait_agg.plan.types import INTEGER_BITS, Type, field_name
from substrait_agg.spark.types.bad_rows import error_text
from substrait_agg.spark.types.schema import MAX_FRACTION_DIGITS, to_spark
from substrait_agg.spark.types.struct_fields import struct_of

_INTEGRAL_DIGITS: dict[type[st.DataType], int] = {
    st.ByteType: 3,
    st.ShortType: 5,
    st.IntegerType: 10,
    st.LongType: 19,
}
_INTEGRAL_BITS: dict[type[st.DataType], int] = {
    st.ByteType: 8,
    st.ShortType: 16,
    st.IntegerType: 32,
    st.LongType: 64,
}
_EXACT_IN_FLOAT: dict[str, tuple[type[st.DataType], ...]] = {
    "fp32": (st.ByteType, st.ShortType),
    "fp64": (st.ByteType, st.ShortType, st.IntegerType, st.FloatType),
}
_STRINGS = (st.StringType, st.CharType, st.VarcharType)
_OTHERS: dict[str, tuple[type[st.DataType], ...]] = {
    "bool": (st.BooleanType,),
    "fp32": (st.FloatType,),
    "fp64": (st.DoubleType,),
    "string": _STRINGS,
    "fixedchar": _STRINGS,
    "varchar": _STRINGS,
    "binary": (st.BinaryType,),
    "fixedbinary": (st.BinaryType,),
    "uuid": (st.BinaryType, *_STRINGS),
    "date": (st.DateType,),
    # Instants and zoneless timestamps convert to each other in UTC.
    "precision_timestamp": (st.TimestampNTZType, st.TimestampType, st.DateType),
    "precision_timestamp_tz": (st.TimestampType, st.TimestampNTZType),
    "precision_time": (st.TimeType,),
    # Integers are months, as in outputs.
    "interval_year": (st.YearMonthIntervalType, st.ByteType, st.ShortType, st.IntegerType),
    "interval_day": (st.DayTimeIntervalType,),
}


def integer_range(kind: str) -> tuple[int, int]:
    """Return the least and greatest value of an integer kind."""
    bits = INTEGER_BITS[kind]
    return (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _integer_fits(actual: st.DataType, kind: str) -> bool:
    target = to_spark(Type(kind))
    if isinstance(actual, st.DecimalType):
        return kind == "u64" and actual.scale == 0 and actual.precision <= 20
    bits = _INTEGRAL_BITS.get(type(actual))
    if bits is None:
        return False
    return isinstance(target, st.DecimalType) or bits <= _INTEGRAL_BITS[type(target)]


def _decimal_fits(actual: st.DataType, type_: Type) -> bool:
    precision, scale = type_.params
    if isinstance(actual, st.DecimalType):
        return actual.scale <= scale and actual.precision - actual.scale <= precision - scale
    return _INTEGRAL_DIGITS.get(type(actual), 99) <= precision - scale


def _nested_fits(actual: st.DataType, type_: Type) -> bool:
    if isinstance(actual, st.StructType | st.VariantType) and type_.kind == "struct":
        fields = _fields(actual)
        return len(fields) == len(type_.children) and all(
            fits(f.dataType, c) for f, c in zip(fields, type_.children, strict=True)
        )
    if isinstance(actual, st.ArrayType) and type_.kind == "list":
        return fits(actual.elementType, type_.children[0])
    if isinstance(actual, st.MapType) and type_.kind == "map":
        key, value = type_.children
        return fits(actual.keyType, key) and fits(actual.valueType, value)
    return False


def fits(actual: st.DataType, type_: Type) -> bool:
    """Return whether every value of the Spark type `actual` is a value of `type_`.

    Ranges of unsigned types are checked per value instead. A column without a type has only nulls.
    """
    if isinstance(actual, st.NullType):
        return True
    if type_.kind in INTEGER_BITS:
        return _integer_fits(actual, type_.kind)
    if type_.kind == "decimal":
        return _decimal_fits(actual, type_)
    if type_.children:
        return _nested_fits(actual, type_)
    accepted = _OTHERS.get(type_.kind, ()) + _EXACT_IN_FLOAT.get(type_.kind, ())
    return isinstance(actual, accepted)


def reader_type(actual: st.DataType, type_: Type) -> st.DataType:
    """Return the type to request from a Parquet reader, given the type in one file.

    Integers are read as bigint, because Spark's reader silently truncates values that are wider
    than the requested type. Decimals and floats are read as the plan's type, so that later files
    may have narrower or wider types than the first.
    """
    if type_.kind in INTEGER_BITS and type_.kind != "u64":
        return st.LongType()
    if (
        type_.kind == "decimal"
        or isinstance(actual, st.NullType)
        or (type_.kind == "fp64" and isinstance(actual, (st.FloatType, st.DoubleType)))
    ):
        return to_spark(type_)
    return actual


def find_column(name: str, actual: Sequence[str], table: str) -> int:
    """Return the ordinal of the column `name` in `actual`.

    The column matches exactly, or else is the only one that differs from `name` in case alone.

    Raises:
        InputRefused: ``COLUMN_MISSING``; ``COLUMN_AMBIGUOUS`` if several columns match.
    """
    exact = [i for i, a in enumerate(actual) if a == name]
    ordinals = exact or [i for i, a in enumerate(actual) if a.lower() == name.lower()]
    if len(ordinals) == 1:
        return ordinals[0]
    shown = ", ".join(actual) or "none"
    if ordinals:
        raise InputRefused(
            "COLUMN_AMBIGUOUS",
            f"the source of {table} has more than one column {name} (its columns: {shown})",
            help="rename the columns so that one of them has exactly the name in the plan",
        )
    raise InputRefused(
        "COLUMN_MISSING",
        f"the source of {table} has no column {name} (its columns: {shown})",
        help="give a source with this column, or rename the column there",
    )


def check_type(name: str, actual: st.DataType, type_: Type, table: str) -> None:
    """Check that the type of a column in the source fits its type in the plan.

    Raises:
        InputRefused: ``COLUMN_TYPE_MISMATCH``.
    """
    if not fits(actual, type_):
        raise InputRefused(
            "COLUMN_TYPE_MISMATCH",
            f"column {name} of {table} is {actual.simpleString()} in the source and {type_} in the plan",
            help="convert the column in the source, or write the plan for the types of the source",
        )


def _outside(column: Column, type_: Type) -> Column:
    """Return whether an integer is outside of the range of `type_`; false for null."""
    low, high = integer_range(type_.kind)
    bound = st.DecimalType(20, 0) if type_.kind == "u64" else st.LongType()
    return ~_or_true(column.between(F.lit(str(low)).cast(bound), F.lit(str(high)).cast(bound)))


def in_range(column: Column, type_: Type, what: str) -> Column:
    """Convert an integer to `type_`; a value out of range fails with ``VALUE_OUT_OF_RANGE``."""
    error = F.raise_error(misfit_text(what, _words_outside(type_))).cast(to_spark(type_))
    return F.when(~_outside(column, type_), column.cast(to_spark(type_))).otherwise(error)


def _words_outside(type_: Type) -> str:
    return f"outside the range of {type_.kind}"


def _or_true(test: Column) -> Column:
    return F.coalesce(test, F.lit(True))


def misfit(column: Column, actual: st.DataType, type_: Type) -> tuple[Column, str] | None:
    """Return a test for values of type `actual`, which `fits`, that are not values of `type_`.

    Returns:
        The test, and what to call such a value in a message; None if there is no such value.
    """
    if type_.kind in INTEGER_BITS:
        if not type_.kind.startswith("u") and actual == to_spark(type_):
            return None
        return _outside(column, type_), _words_outside(type_)
    if type_.kind == "uuid":
        octets = F.coalesce(F.octet_length(_uuid(column, actual)), F.lit(0))
        return column.isNotNull() & (octets != 16), "that is not a UUID"
    if isinstance(actual, st.TimeType) and actual.precision > MAX_FRACTION_DIGITS:
        finer = ~_or_true(column == column.cast(to_spark(type_)))
        return finer, "finer than a microsecond"
    return _nested_misfit(column, actual, type_) if type_.children else None


def _nested_misfit(column: Column, actual: st.DataType, type_: Type) -> tuple[Column, str] | None:
    misfits: list[tuple[Column, str] | None] = []
    if isinstance(actual, st.ArrayType):
        misfits = [_any_misfit(column, actual.elementType, type_.children[0])]
    elif isinstance(actual, st.MapType):
        (key, value), inner = type_.children, (actual.keyType, actual.valueType)
        misfits = [
            _any_misfit(F.map_keys(column), inner[0], key),
            _any_misfit(F.map_values(column), inner[1], value),
        ]
    else:
        fields = zip(_fields(actual), type_.children, strict=True)
        misfits = [misfit(column.getField(f.name), f.dataType, t) for f, t in fields]
    actual_misfits = [each for each in misfits if each is not None]
    if not actual_misfits:
        return None
    broken = reduce(
        lambda a, b: a | b, (F.coalesce(test, F.lit(False)) for test, _ in actual_misfits)
    )
    return broken, actual_misfits[0][1]


def _any_misfit(elements: Column, actual: st.DataType, type_: Type) -> tuple[Column, str] | None:
    fault = misfit(F.lit(None).cast(actual), actual, type_)
    if fault is None:
        return None

    def is_broken(element: Column) -> Column:
        """Return whether an element of a list does not fit its type."""
        test = misfit(element, actual, type_)
        return F.lit(False) if test is None else F.coalesce(test[0], F.lit(False))

    return F.exists(elements, is_broken), fault[1]


def misfit_text(what: str, words: str) -> Column:
    """Return the error text for a value that is a `misfit`."""
    return error_text("VALUE_OUT_OF_RANGE", f"{what} has a value {words}")


def _unless_misfit(
    value: Column, column: Column, actual: st.DataType, type_: Type, what: str
) -> Column:
    test_and_words = misfit(column, actual, type_)
    if test_and_words is None:
        return value
    broken, words = test_and_words
    error = F.raise_error(misfit_text(what, words)).cast(to_spark(all_nullable(type_)))
    return F.when(~broken, value).otherwise(error)


def convert(column: Column, actual: st.DataType, type_: Type, what: str) -> Column:
    """Convert a column from type `actual`, which `fits`, to the plan's `type_`.

    The result does not depend on session settings. A value that is a `misfit` fails the batch with
    ``VALUE_OUT_OF_RANGE``.
    """
    if type_.kind in INTEGER_BITS:
        signed_same = not type_.kind.startswith("u") and actual == to_spark(type_)
        return column if signed_same else in_range(column, type_, what)
    if type_.kind == "uuid":
        return _unless_misfit(_uuid(column, actual), column, actual, type_, what)
    if isinstance(actual, st.TimeType) and actual.precision > MAX_FRACTION_DIGITS:
        return _unless_misfit(column.cast(to_spark(type_)), column, actual, type_, what)
    if type_.kind == "precision_timestamp" and isinstance(actual, st.TimestampType):
        return _utc_wall_clock(column)
    if type_.kind == "precision_timestamp_tz" and isinstance(actual, st.TimestampNTZType):
        return _utc_instant(column)
    if type_.children:
        column = _nested_converted(column, actual, type_, what)
    target = to_spark(all_nullable(type_))
    return column if actual == target else column.cast(target)


def _uuid(column: Column, actual: st.DataType) -> Column:
    """Return the bytes of a UUID; null for text that is not hexadecimal."""
    text = isinstance(actual, _STRINGS)
    return F.unhex(F.replace(column, F.lit("-"), F.lit(""))) if text else column


def _nested_converted(column: Column, actual: st.DataType, type_: Type, what: str) -> Column:
    """Convert the parts of a nested value; the caller's cast then sets names and nullability."""
    if isinstance(actual, st.VariantType):
        parts = [_of_variant(column, getter) for getter in ("getValue", "getMetadata")]
        return F.when(column.isNotNull(), struct_of(parts))
    if not (any(map(_needs_check, type_.children)) or _has_variant(actual)):
        return column
    if isinstance(actual, st.ArrayType):
        inner, element = actual.elementType, type_.children[0]
        return F.transform(column, lambda x: convert(x, inner, element, what))
    if isinstance(actual, st.MapType):
        (key, value), key_type, value_type = type_.children, actual.keyType, actual.valueType
        column = F.transform_keys(column, lambda k, _v: convert(k, key_type, key, what))
        return F.transform_values(column, lambda _k, v: convert(v, value_type, value, what))
    fields = zip(_fields(actual), type_.children, strict=True)
    parts = [convert(column.getField(f.name), f.dataType, t, what) for f, t in fields]
    return F.when(column.isNotNull(), struct_of(parts))


def _needs_check(type_: Type) -> bool:
    """Return whether values of the type need more than a plain cast."""
    kinds = ("uuid", "precision_time", "precision_timestamp", "precision_timestamp_tz")
    return (
        type_.kind in kinds or type_.kind in INTEGER_BITS or any(map(_needs_check, type_.children))
    )


def _fields(type_: st.DataType) -> list[st.StructField]:
    if isinstance(type_, st.VariantType):
        type_ = _VARIANT
    return type_.fields if isinstance(type_, st.StructType) else []


_VARIANT = st.StructType().add("value", st.BinaryType()).add("metadata", st.BinaryType())


def _has_variant(type_: st.DataType) -> bool:
    if isinstance(type_, st.ArrayType):
        return _has_variant(type_.elementType)
    if isinstance(type_, st.MapType):
        return _has_variant(type_.valueType)
    fields = type_.fields if isinstance(type_, st.StructType) else []
    return isinstance(type_, st.VariantType) or any(_has_variant(f.dataType) for f in fields)


def _of_variant(column: Column, getter: str) -> Column:
    """Return one of the two binaries of a variant, for which Spark's SQL has no function."""
    jvm: Any = SparkSession.active()._jvm
    columns, sql = jvm.org.apache.spark.sql.classic.ExpressionUtils, jvm.org.apache.spark.sql
    none = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.ArrayList()).toList()
    call = sql.catalyst.expressions.objects.Invoke(
        columns.expression(column._jc), getter, sql.types.DataTypes.BinaryType, none, none, True, True, True
    )  # fmt: skip
    return Column(columns.column(call))


def all_nullable(type_: Type) -> Type:
    """Return the type with nulls allowed on every level.

    Spark does not cast a nullable value to a non-nullable type.
    """
    return replace(type_, nullable=True, children=tuple(all_nullable(c) for c in type_.children))


_EPOCH = "timestamp_ntz'1970-01-01 00:00:00'"


def _utc_wall_clock(column: Column) -> Column:
    """Convert an instant to the zoneless time in UTC, for any session time zone."""
    return F.timestamp_add("MICROSECOND", F.unix_micros(column), F.expr(_EPOCH))


def _utc_instant(column: Column) -> Column:
    """Convert a zoneless time in UTC to an instant, for any session time zone."""
    return F.timestamp_micros(F.timestamp_diff("MICROSECOND", F.expr(_EPOCH), column))


def required_paths(column: Column, type_: Type, name: str) -> list[tuple[str, Column]]:
    """Return the required values in a column: (name, whether it is null).

    The search follows struct fields, but not elements of lists and maps.
    """
    places = [] if type_.nullable else [(name, column.isNull())]
    if type_.kind == "struct":
        for i, child in enumerate(type_.children):
            for inner, is_null in required_paths(column[field_name(i)], child, f"{name}.{i}"):
                places.append((inner, column.isNotNull() & is_null))
    return places
