"""Lists, structs and maps of expressions: as keys, as columns of the result, as arguments; lambdas over them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.spark.catalyst.sql import PLANNING_CONF
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
    """A plan that names its fields later is another plan, and gives them their names when it evolves."""
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"a": ["p"], "b": [1]}), tmp_path / "in" / "0.parquet")

    def names_after(text: str, **options: Any) -> list[str]:
        source, folder = {"t": f"parquet:{tmp_path / 'in'}"}, tmp_path / "ckpt"
        sa.run(text, source, checkpoint=folder, spark=spark, partitions=2, **options).wait()
        (row,) = sa.open_view(folder).to_arrow().to_pylist()
        return list(row["s"])

    assert names_after(plan()) == ["f0", "f1"]
    with pytest.raises(sa.SubstraitAggError, match="PLAN_DIFFERS"):
        names_after(plan("name", "number"))
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
    text = """SELECT a, array(min(b), 7) AS l, named_struct('n', count(*), 'in', struct(a)) AS s,
        collect_list(struct(b AS x, array(a) AS y)) AS x FROM t GROUP BY a"""
    sa.run(
        sa.sql(text, source, spark=spark), source, checkpoint=tmp_path / "ckpt", spark=spark
    ).wait()
    assert sa.open_view(tmp_path / "ckpt").to_arrow().to_pylist() == [
        {
            "a": "p",
            "l": [1, 7],
            "s": {"n": 2, "in": {"a": "p"}},
            "x": [{"x": None, "y": ["p"]}, {"x": 1, "y": ["p"]}],
        }
    ]


NESTED = pa.table(
    {
        "n": pa.array(range(6), pa.int64()),
        "k": pa.array([1, -1, 0, None, 3, 2**40], pa.int64()),
        "l": pa.array([[3, 1, None], [], None, [2], [5, 5], [1]], pa.list_(pa.int64())),
        "f": pa.array([[float("nan"), 1.0], [0.5], None, [1.5, None], [float("inf")], [None]]),
        "m": pa.array([[("a", 1)], [], None, [("b", None)], [("a", 4), ("q", 5)], []], pa.map_(pa.string(), pa.int64())),
        "p": pa.array([[(1, "x")], [(2, "y")], None, [], [(7, None)], [(0, "")]], pa.map_(pa.int32(), pa.string())),
        "s": ["a,b,c", "", None, "x", ",y", "a,,b"],
        "r": pa.array([[{"y": 1, "z": "u"}], [], None, [None], [{"y": 2, "z": None}] * 2, [{"y": None, "z": "v"}]]),
    }
)  # fmt: skip
PARTS = """
get(l, 0); try_element_at(l, 1); try_element_at(l, -1); size(l); array_contains(l, 1); array_contains(l, k)
array_contains(f, CAST(1 AS double)); array_min(l); array_max(l); array_min(f); array_max(f); m['a']; m['q']; p[1]; p[7]
get(r, 0).y; get(r, 0)['z']; r.y; split_part(s, ',', 1); split_part(s, ',', 2); split_part(s, ',', -1); split_part(s, ', ', 1)
(CASE WHEN n > 1 THEN get(r, 0) END).y; sum(size(l)) OVER (PARTITION BY n); size(l) + n; exists(l, x -> x = 5); map_keys(m)
"""


def test_parts_of_nested_values_equal_spark(spark: SparkSession, tmp_path: Path) -> None:
    texts = [text.strip() for line in PARTS.split("\n") for text in line.split(";") if text.strip()]
    query = f"SELECT n, {', '.join(f'{text} AS c{i}' for i, text in enumerate(texts))} FROM t"
    ours, theirs = _answers(query, spark, tmp_path)
    for i, text in enumerate(texts):
        assert repr(ours[f"c{i}"]) == repr(theirs[f"c{i}"]), text


def test_fields_of_aggregated_structs_equal_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The column r has a field y as well, at another position."""
    query = "SELECT n, min(struct(n AS z, k AS y)).y AS a, min(get(r, 0)).z AS b FROM t GROUP BY n"
    ours, theirs = _answers(query, spark, tmp_path)
    assert ours == theirs


def _answers(
    query: str, spark: SparkSession, folder: Path
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Return the columns of a view of a query, and those of Spark's answer, in the order of n."""
    (folder / "in").mkdir()
    pq.write_table(NESTED, folder / "in" / "0.parquet")
    source = {"t": f"parquet:{folder / 'in'}"}
    plan = sa.sql(query, source, spark=spark)
    sa.run(plan, source, checkpoint=folder / "ckpt", spark=spark).wait()
    session = spark.newSession()
    for name, value in PLANNING_CONF.items():
        session.conf.set(name, value)
    session.read.parquet(str(folder / "in")).createOrReplaceTempView("t")
    tables = (sa.open_view(folder / "ckpt").to_arrow(), session.sql(query).toArrow())
    ours, theirs = (table.sort_by("n").to_pydict() for table in tables)
    return ours, theirs


def test_position_0_of_a_split_text_fails_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"s": ["a,b"], "k": [0]}), tmp_path / "in" / "0.parquet")
    source = {"t": f"parquet:{tmp_path / 'in'}"}
    plan = sa.sql("SELECT split_part(s, ',', CAST(k AS int)) AS x FROM t", source, spark=spark)
    run = sa.run(plan, source, checkpoint=tmp_path / "ckpt", spark=spark)
    with pytest.raises(sa.SubstraitAggError, match="INVALID_INDEX_OF_ZERO"):
        run.wait()
