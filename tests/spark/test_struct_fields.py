"""Fields of structs in files: found by name, in the order of the plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from substrait_agg.errors import InputRefused
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.plan.types import I32, STRING, Type
from substrait_agg.spark.sources.open import open_source
from substrait_agg.spark.sources.specs import parse_spec
from substrait_agg.spark.types.struct_fields import in_plan_order, json_type

PAIR = Type("struct", children=(I32, STRING))
LISTED = Type("struct", children=(Type("list", children=(PAIR,)), I32))


INT, BIGINT, TEXT = st.IntegerType(), st.LongType(), st.StringType()


def struct(**fields: st.DataType) -> st.StructType:
    return st.StructType([st.StructField(name, type_) for name, type_ in fields.items()])


def texts_to(value: st.DataType) -> st.MapType:
    return st.MapType(TEXT, value)


@pytest.mark.parametrize(
    ("in_file", "type_", "names", "read"),
    [
        (struct(y=TEXT, x=INT), PAIR, ("x", "y"), struct(x=INT, y=TEXT)),
        (struct(Y=TEXT, z=INT, X=INT), PAIR, ("x", "y"), struct(X=INT, Y=TEXT)),
        (struct(a=INT, b=TEXT), PAIR, ("x", "y"), struct(a=INT, b=TEXT)),
        (struct(a=INT, b=TEXT), PAIR, (), struct(a=INT, b=TEXT)),
        (
            struct(n=INT, l=st.ArrayType(struct(y=TEXT, x=INT))),
            LISTED,
            ("l", "x", "y", "n"),
            struct(l=st.ArrayType(struct(x=INT, y=TEXT)), n=INT),
        ),
        (
            texts_to(struct(y=TEXT, x=INT)),
            Type("map", children=(STRING, PAIR)),
            ("x", "y"),
            texts_to(struct(x=INT, y=TEXT)),
        ),
    ],
)
def test_fields_of_files_have_the_order_of_the_plan(
    in_file: st.DataType, type_: Type, names: tuple[str, ...], read: st.DataType
) -> None:
    assert in_plan_order(in_file, type_, names, "t.s") == read


@pytest.mark.parametrize(
    ("in_file", "type_", "names", "read"),
    [
        (struct(y=TEXT, x=BIGINT), PAIR, ("x", "y"), struct(x=INT, y=TEXT)),
        (struct(X=BIGINT), PAIR, ("x", "y"), struct(X=INT, y=TEXT)),
        (struct(f0=BIGINT, f1=TEXT), PAIR, ("x", "y"), struct(f0=INT, f1=TEXT)),
        (struct(f0=BIGINT), PAIR, (), struct(f0=INT, f1=TEXT)),
        (TEXT, PAIR, ("x", "y"), struct(x=INT, y=TEXT)),
        (
            struct(l=st.ArrayType(struct(y=TEXT)), n=BIGINT),
            LISTED,
            ("l", "x", "y", "n"),
            struct(l=st.ArrayType(struct(x=INT, y=TEXT)), n=INT),
        ),
        (
            struct(k=struct(y=TEXT)),
            Type("map", children=(STRING, PAIR)),
            ("x", "y"),
            texts_to(struct(x=INT, y=TEXT)),
        ),
    ],
)
def test_json_is_parsed_with_the_names_of_the_plan(
    in_file: st.DataType, type_: Type, names: tuple[str, ...], read: st.DataType
) -> None:
    assert json_type(type_, names, in_file, "t.s") == read


def test_a_struct_without_fields_of_the_plan_is_refused() -> None:
    with pytest.raises(InputRefused, match=r"t\.s has no field y .*its fields: x, z"):
        in_plan_order(struct(x=INT, z=TEXT), PAIR, ("x", "y"), "t.s")
    for names in ((), ("x", "y")):
        with pytest.raises(InputRefused) as refused:
            json_type(PAIR, names, struct(a=INT, b=TEXT), "t.s")
        assert refused.value.code == "COLUMN_MISSING"


@pytest.mark.spark
def test_fields_of_structs_are_read_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    """In JSON, and in Parquet files whose structs have other orders and more fields."""
    type_ = Type(
        "struct",
        children=(Type("i64"), Type("list", children=(Type("struct", children=(Type("i64"),)),))),
    )
    table = TableOrigin(("t",), ("s",), (type_,))
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "1.json").write_text('{"s":{"y":[{"z":2}],"x":1}}\n{"s":null}\n')
    fields = [("y", pa.list_(pa.struct([("w", pa.int64()), ("z", pa.int64())]))), ("x", pa.int64())]
    values = pa.array([{"y": [{"w": 9, "z": 2}], "x": 1}, None], pa.struct(fields))
    (tmp_path / "parquet").mkdir()
    pq.write_table(pa.table({"s": values}), tmp_path / "parquet" / "1.parquet")
    for format in ("json", "parquet"):
        spec = replace(
            parse_spec(f"{format}:{tmp_path / format}?static=true"),
            fields=(("s", ("x", "y", "z")),),
        )
        rows = open_source(spark, spec, table).frame.collect()
        assert [row[0] and row[0].asDict(recursive=True) for row in rows] == [
            {"f0": 1, "f1": [{"f0": 2}]},
            None,
        ]
