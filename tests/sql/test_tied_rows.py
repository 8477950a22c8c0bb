"""Functions of one window see rows with equal sort keys in one order: their values are of one row."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import substrait_agg as sa
from tests.spark_plans import plan_query
from tests.sql.results import Row, kept, of_duckdb

WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
RUNNING = "ROWS UNBOUNDED PRECEDING"
CALLS = {
    "first": "first_value({})",
    "last": "last_value({})",
    "second": "nth_value({}, 2)",
    "last but one": "nth_value({}, -2)",
}


def rows(seed: int, count: int = 12) -> pa.Table:
    """Give rows with few sort keys, whose other values order them in another way than their numbers."""
    rng = random.Random(seed)
    some = [(rng.randrange(2), rng.randrange(2), rng.randrange(9), i) for i in range(count)]
    return pa.table(
        dict(zip(("g", "o", "v", "id"), map(list, zip(*some, strict=True)), strict=True))
    )


def batches(seed: int) -> tuple[list[dict[str, pa.Table]], set[Row]]:
    """Give two batches of a table, and the pairs of ``v`` and ``id`` in it as results show them."""
    table = rows(seed)
    pairs = set(of_duckdb("SELECT v, id FROM t", {"t": table}))
    return [{"t": table.slice(0, 7)}, {"t": table.slice(7)}], pairs


@pytest.mark.parametrize("frame", [WHOLE, RUNNING])
@pytest.mark.parametrize("name", CALLS)
def test_two_columns_come_from_one_row(tmp_path: Path, name: str, frame: str) -> None:
    given, pairs = batches(len(name))
    window = f"OVER (PARTITION BY g ORDER BY o {frame})"
    calls = ", ".join(f"{CALLS[name].format(c)} {window}" for c in ("v", "id"))
    found = kept(_from_the_end(f"SELECT id, {calls} FROM t", 2), given, tmp_path)
    assert len(found) == 12
    assert {row[1:] for row in found} <= pairs | {(None, None)}


def test_functions_of_a_place_follow_the_numbers_of_the_rows(tmp_path: Path) -> None:
    window = "OVER (PARTITION BY g ORDER BY o)"
    whole = f"OVER (PARTITION BY g ORDER BY o {WHOLE})"
    query = (
        f"SELECT g, id, row_number() {window} AS n, count(*) OVER (PARTITION BY g) AS c, first_value(id) {whole} AS f,"
        f" last_value(id) {whole} AS l, nth_value(id, 2) {whole} AS s, lag(id) {window} AS p FROM t"
    )
    given, _ = batches(3)
    found = kept(query, given, tmp_path)
    place = {(g, int(n)): id_ for g, id_, n, *_ in found}
    for g, _, n, c, first, last, second, before in found:
        wanted = (place[g, 1], place[g, int(c)], place[g, 2], place.get((g, int(n) - 1)))
        assert (first, last, second, before) == wanted


def function(anchor: int, column: int) -> dict[str, Any]:
    value = {"directReference": {"structField": {"field": column}}, "rootReference": {}}
    return {
        "functionReference": anchor,
        "arguments": [{"value": {"selection": value}}],
        "outputType": {"i64": {"nullability": "NULLABILITY_NULLABLE"}},
        "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
        "boundsType": "BOUNDS_TYPE_ROWS",
        "lowerBound": {"unbounded": {}},
        "upperBound": {"unbounded": {}},
    }


KEY, ORDER = ({"selection": function(1, c)["arguments"][0]["value"]["selection"]} for c in (0, 1))
SORTS = [{"expr": ORDER, "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}]


def plan(name: str, calls: list[dict[str, Any]], *, in_relation: bool = False) -> sa.Plan:
    """Give a plan of calls of one function, in one of the two places of calls."""
    i64 = {"i64": {"nullability": "NULLABILITY_NULLABLE"}}
    struct = {"types": [i64] * 4, "nullability": "NULLABILITY_REQUIRED"}
    schema = {"names": ["g", "o", "v", "id"], "struct": struct}
    source = {"read": {"baseSchema": schema, "namedTable": {"names": ["t"]}}}
    parts = {"partitionExpressions": [KEY], "sorts": SORTS, "windowFunctions": calls}
    relation: dict[str, Any] = {"window": {"input": source, **parts}}
    if not in_relation:
        written = [{"windowFunction": {**c, "partitions": [KEY], "sorts": SORTS}} for c in calls]
        relation = {"project": {"input": source, "expressions": written}}
    area = "aggregate_generic" if name.startswith("count") else "arithmetic"
    urn = f"extension:io.substrait:functions_{area}"
    declared = {"extensionUrnReference": 1, "functionAnchor": 1, "name": name}
    names = ["g", "o", "v", "id", *(f"c{i}" for i in range(len(calls)))]
    text = json.dumps(
        {
            "version": {"minorNumber": 106, "producer": "tests"},
            "extensionUrns": [{"extensionUrnAnchor": 1, "urn": urn}],
            "extensions": [{"extensionFunction": declared}],
            "relations": [{"root": {"input": relation, "names": names}}],
        }
    )
    return sa.load(text.encode())


@pytest.mark.parametrize("in_relation", [False, True])
def test_plans_with_whole_partitions(tmp_path: Path, in_relation: bool) -> None:
    """The last row of the whole partition, in both places of calls."""
    given, pairs = batches(5)
    calls = [function(1, 2), function(1, 3)]
    found = kept(plan("last_value:any", calls, in_relation=in_relation), given, tmp_path)
    assert {row[4:] for row in found} <= pairs


@pytest.mark.parametrize("unit", ["ROWS", "RANGE"])
@pytest.mark.parametrize(
    ("name", "value"), [("sum:i64", None), ("count:any", "0"), ("first_value:any", None)]
)
def test_a_frame_that_ends_before_it_begins_is_empty(
    tmp_path: Path, name: str, value: str | None, unit: str
) -> None:
    given, _ = batches(6)
    ends = {
        "lowerBound": {"following": {"offset": "3"}},
        "upperBound": {"preceding": {"offset": "1"}},
    }
    calls = [{**function(1, 2), **ends, "boundsType": f"BOUNDS_TYPE_{unit}"}]
    found = kept(plan(name, calls), given, tmp_path)
    assert [row[4] for row in found] == [value] * 12


@pytest.mark.parametrize("number", [1, 2, 3, -1, -2, -3, -9])
@pytest.mark.parametrize("frame", [WHOLE, RUNNING])
def test_a_place_from_the_end_of_a_frame(tmp_path: Path, frame: str, number: int) -> None:
    """Where sort keys differ, DuckDB says which row it is; a place from the end is one of the reversed order."""
    given, _ = batches(7)
    table = pa.concat_tables([batch["t"] for batch in given])
    window = f"OVER (PARTITION BY g ORDER BY id {frame})"
    values = f"list(v) {window}"
    wanted = f"SELECT id, list_extract({values}, {number}) FROM t"
    query = f"SELECT id, nth_value(v, {number}) {window} AS n FROM t"
    found = kept(_from_the_end(query, abs(number)), given, tmp_path)
    assert found == of_duckdb(wanted, {"t": table})


def _from_the_end(query: str, place: int) -> str | sa.Plan:
    """Return a query as a plan whose places are counted from the end, which SQL of Spark cannot say."""
    if f", -{place})" not in query:
        return query
    planned = plan_query(query.replace(f", -{place})", f", {place})"), {"t": rows(1).schema})
    assert f'{{"i32": {place}}}' in planned.content
    return sa.load(planned.content.replace(f'{{"i32": {place}}}', f'{{"i32": {-place}}}'))


def nested(*names: str) -> sa.Plan:
    """Give a plan of a projection per function of the column ``v``, each over the one before."""
    i64 = {"i64": {"nullability": "NULLABILITY_NULLABLE"}}
    struct = {"types": [i64] * 4, "nullability": "NULLABILITY_REQUIRED"}
    schema = {"names": ["g", "o", "v", "id"], "struct": struct}
    relation: dict[str, Any] = {"read": {"baseSchema": schema, "namedTable": {"names": ["t"]}}}
    for anchor in range(1, len(names) + 1):
        call = {"windowFunction": {**function(anchor, 2), "partitions": [KEY], "sorts": SORTS}}
        relation = {"project": {"input": relation, "expressions": [call]}}
    urn = "extension:io.substrait:functions_arithmetic"
    functions = [
        {"extensionFunction": {"extensionUrnReference": 1, "functionAnchor": i, "name": name}}
        for i, name in enumerate(names, 1)
    ]
    columns = [*schema["names"], *(f"c{i}" for i in range(len(names)))]
    message = {
        "version": {"minorNumber": 106, "producer": "tests"},
        "extensionUrns": [{"extensionUrnAnchor": 1, "urn": urn}],
        "extensions": functions,
        "relations": [{"root": {"input": relation, "names": columns}}],
    }
    return sa.load(json.dumps(message).encode())


def test_functions_of_nested_projections_see_equal_rows_in_one_order(tmp_path: Path) -> None:
    """The first of two equal rows follows the row before them, and the second precedes the row behind them."""
    table = pa.table({"g": [1] * 4, "o": [1, 2, 2, 3], "v": [9, 1, 1, 7], "id": [0, 5, 5, 6]})
    found = kept(nested("lag:any", "lead:any"), [{"t": table}], tmp_path)
    assert sorted(row[2:] for row in found) == sorted(
        [("9", "0", None, "1"), ("1", "5", "9", "1"), ("1", "5", "1", "7"), ("7", "6", "1", None)]
    )


def test_functions_of_one_window_are_one_operator_above_each_other() -> None:
    names = ("lag:any", "lead:any", "first_value:any")
    text = str(sa.explain(nested(*names)))
    assert text.count(": window functions  at") == 1
