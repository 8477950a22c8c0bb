"""Types of Spark as types of a plan; needs no JVM."""

from __future__ import annotations

import pytest
from pyspark.sql import types as st

from substrait_agg.errors import InputRefused
from substrait_agg.plan.types import Type
from substrait_agg.spark.sources.source_types import columns_of
from substrait_agg.spark.types.source_columns import fits

NESTED = st.StructType(
    [
        st.StructField("p", st.IntegerType()),
        st.StructField("q", st.ArrayType(st.StructType([st.StructField("r", st.StringType())]))),
    ]
)
TYPES = {
    "bool?": st.BooleanType(), "i8?": st.ByteType(), "i16?": st.ShortType(),
    "i32?": st.IntegerType(), "i64?": st.LongType(), "fp32?": st.FloatType(),
    "fp64?": st.DoubleType(), "string?": st.StringType(), "binary?": st.BinaryType(),
    "date?": st.DateType(), "precision_timestamp?<6>": st.TimestampNTZType(),
    "precision_timestamp_tz?<6>": st.TimestampType(), "precision_time?<6>": st.TimeType(),
    "decimal?<12,3>": st.DecimalType(12, 3), "interval_year?": st.YearMonthIntervalType(),
    "interval_day?<6>": st.DayTimeIntervalType(),
    "map?<string?,list?<i64?>>": st.MapType(st.StringType(), st.ArrayType(st.LongType())),
    "struct?<i32?,list?<struct?<string?>>>": NESTED,
    "list?<struct?<binary?,binary?>>": st.ArrayType(st.VariantType()),
}  # fmt: skip
"""Type in a plan -> the corresponding type of Spark."""


def type_of(actual: st.DataType) -> Type:
    schema = st.StructType([st.StructField("c", actual, nullable=False)])
    return columns_of((("t",), ("c",)), schema)[1][0]


@pytest.mark.parametrize("shown", TYPES)
def test_every_type_is_one_that_its_source_fits(shown: str) -> None:
    made = type_of(TYPES[shown])
    assert str(made) == shown
    assert fits(TYPES[shown], made)


def test_a_type_that_no_plan_has_is_refused() -> None:
    with pytest.raises(InputRefused) as refused:
        type_of(st.ArrayType(st.CalendarIntervalType()))
    assert refused.value.code == "SOURCE_TYPES_UNKNOWN"
    assert "column c of t" in refused.value.message


def test_names_of_nested_fields_are_passed_over() -> None:
    """A plan lists field names depth first; columns are found by name, in any order and case."""
    schema = st.StructType([st.StructField("Last", st.LongType()), st.StructField("first", NESTED)])
    names, types = columns_of((("t",), ("first", "p", "q", "r", "last")), schema)
    assert names == ("first", "last")
    assert [t.kind for t in types] == ["struct", "i64"]
