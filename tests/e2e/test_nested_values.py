"""Lists, structs and maps of expressions: as keys, as columns of the result, as arguments; lambdas over them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from tests.e2e.plans import ARITHMETIC, Builder, Json, aggregate, column, literal, projected, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = {"a": "string", "b": "i64"}
REQUIRED = "NULLABILITY_REQUIRED"
PARAMETER = {
    "selection": {
        "directReference": {"structField": {"field": 0}},
        "lambdaParameterReference": {},
    }
}


def listed(*values: Json) -> Json:
    return {"nested": {"list": {"values": list(values)}}}


def plan(*fields: str) -> str:
    """SELECT list(b, b + 1), struct(a, b), map('k', b), count(*), sum(cardinality(filter(list(b, 1), x -> x > 0)))."""
    made = Builder()
    a, b = column(0), column(1)
    more = made.call("add:i64_i64", ARITHMETIC, b, literal("i64", 1), output="i64")
    pairs = [{"key": literal("string", "k"), "value": b}]
    keys = [
        listed(b, more),
        {"nested": {"struct": {"fields": [a, b]}}},
        {"nested": {"map": {"keyValues": pairs}}},
    ]
    above = made.call(
        "gt:any_any", "functions_comparison", PARAMETER, literal("i64", 0), output="bool"
    )
    parameters = {
        "types": [{"i64": {"nullability": "NULLABILITY_NULLABLE"}}],
        "nullability": REQUIRED,
    }
    positive = {"lambda": {"parameters": parameters, "body": above}}
    kept = made.call(
        "filter:list_func", "functions_list", listed(b, literal("i64", 1)), positive, output="i64"
    )
    kept["scalarFunction"]["outputType"] = {
        "list": {"type": {"i64": {"nullability": "NULLABILITY_NULLABLE"}}, "nullability": REQUIRED}
    }
    size = made.call("cardinality:list", "functions_list", kept, output="i64!")
    measures = [
        made.measure("count", output="i64!"),
        made.measure("sum", (size, "i64"), output="i64"),
    ]
    relation = aggregate(read("t", COLUMNS), keys, measures)
    return made.plan(relation, "l", "s", *fields, "m", "n", "positive")


ROWS = [("p", 1), ("p", 1), ("q", -2), (None, None)]


def wanted() -> list[dict[str, Any]]:
    """The groups, as a dictionary each."""
    groups: dict[tuple[Any, ...], int] = {}
    for row in ROWS:
        groups[row] = groups.get(row, 0) + 1
    return [
        {
            "l": [b, None if b is None else b + 1],
            "s": {"name": a, "number": b},
            "m": [("k", b)],
            "n": count,
            "positive": count * (1 + (b is not None and b > 0)),
        }
        for (a, b), count in groups.items()
    ]


def sorted_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(row) for row in rows)


def test_nested_values_are_keys_columns_and_arguments(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    names, numbers = zip(*ROWS, strict=True)
    table = pa.table({"a": pa.array(names, pa.string()), "b": pa.array(numbers, pa.int64())})
    pq.write_table(table, tmp_path / "in" / "0.parquet")
    lines, view = tmp_path / "out.jsonl", tmp_path / "view"
    run = sa.run(
        plan("name", "number"),
        {"t": f"parquet:{tmp_path / 'in'}"},
        checkpoint=tmp_path / "ckpt",
        spark=spark,
        partitions=2,
        outputs=[f"stream-json={lines}", f"view-parquet={view}"],
    )
    run.wait()
    found = sa.open_view(tmp_path / "ckpt").to_arrow()
    assert sorted_rows(found.to_pylist()) == sorted_rows(wanted())
    assert pa.types.is_list(found.schema.field("l").type)
    assert pa.types.is_struct(found.schema.field("s").type)
    assert pa.types.is_map(found.schema.field("m").type)
    written = pq.read_table(view).to_pylist()
    assert sorted_rows([{k: row[k] for k in wanted()[0]} for row in written]) == sorted_rows(
        wanted()
    )
    told = [json.loads(line)["row"] for line in lines.read_text().splitlines()]
    assert sorted(row["l"] for row in told if row["l"][0] is not None) == [[-2, -1], [1, 2]]
    assert {"name": "q", "number": -2} in [row["s"] for row in told]
    assert len(told) == len(wanted())
    loaded = spark.read.format("substrait_agg").load(str(tmp_path / "ckpt"))
    loaded_numbers = [row["number"] for row in loaded.select("s.number").collect()]
    assert sorted(number for number in loaded_numbers if number is not None) == [-2, 1]


def test_fields_without_names_keep_their_positions(spark: SparkSession, tmp_path: Path) -> None:
    """A plan that names its fields later continues, and gives them their names when it evolves."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"a": ["p"], "b": [1]}), tmp_path / "in" / "0.parquet")

    def names_after(text: str, **options: Any) -> list[str]:
        source, folder = {"t": f"parquet:{tmp_path / 'in'}"}, tmp_path / "ckpt"
        sa.run(text, source, checkpoint=folder, spark=spark, partitions=2, **options).wait()
        (row,) = sa.open_view(folder).to_arrow().to_pylist()
        return list(row["s"])

    assert names_after(plan()) == ["f0", "f1"]
    assert names_after(plan("name", "number")) == ["f0", "f1"]
    assert names_after(plan("name", "number"), evolve=True) == ["name", "number"]
    with pytest.raises(sa.SubstraitAggError, match="PLAN_DIFFERS"):
        names_after(plan("name", "count"))


def test_a_map_with_one_key_twice_fails_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"a": ["p"], "b": [1]}), tmp_path / "in" / "0.parquet")
    pairs = [{"key": column(0), "value": column(1)}] * 2
    twice = {"nested": {"map": {"keyValues": pairs}}}
    made = Builder().plan(projected(read("t", COLUMNS), 2, twice), "m")
    run = sa.run(
        made, {"t": f"parquet:{tmp_path / 'in'}"}, checkpoint=tmp_path / "ckpt", spark=spark
    )
    with pytest.raises(sa.SubstraitAggError, match=r"(?i)duplicate"):
        run.wait()


def test_lists_and_structs_of_sql(spark: SparkSession, tmp_path: Path) -> None:
    """Names are those of the query, at every depth; a list of structs and its order too."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"a": ["p", "p"], "b": [1, None]}), tmp_path / "in" / "0.parquet")
    source = {"t": f"parquet:{tmp_path / 'in'}"}
    text = """SELECT a, [min(b), 7] AS l, named_struct('n', count(*), 'in', {a: a}) AS s,
        array_agg({x: b, y: [a]} ORDER BY b) AS x FROM t GROUP BY a"""
    sa.run(sa.sql(text, source), source, checkpoint=tmp_path / "ckpt", spark=spark).wait()
    assert sa.open_view(tmp_path / "ckpt").to_arrow().to_pylist() == [
        {
            "a": "p",
            "l": [1, 7],
            "s": {"n": 2, "in": {"a": "p"}},
            "x": [{"x": 1, "y": ["p"]}, {"x": None, "y": ["p"]}],
        }
    ]
