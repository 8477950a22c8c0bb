"""Change events: which rows form one update, and the result of replaying the events."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from substrait_agg.changes import debezium_lines, spark_cdc_lines
from substrait_agg.commit.documents.change_metadata import ChangesOrigin

AT = "2026-01-31T10:00:00.250+00:00"
MS = 1769853600250


def changes(rows: list[tuple[Any, ...]], keys: tuple[int, ...] | None, **types: Any) -> pa.Table:
    """A table of changes; the last two values of a row are its version and weight."""
    columns = list(zip(*rows, strict=True)) or [()] * (len(types) + 2)
    fields = [*types.items(), ("__version", pa.int64()), ("__weight", pa.int64())]
    arrays = [pa.array(c, t) for c, (_, t) in zip(columns, fields, strict=True)]
    origin = ChangesOrigin(keys, "0123456789abcdef", {1: AT, 2: AT})
    names = [name for name, _ in fields]
    table = pa.table(arrays, names=names)
    return table.replace_schema_metadata(origin.metadata())


def events(table: pa.Table) -> list[dict[str, Any]]:
    return [json.loads(line) for line in "".join(debezium_lines(table)).splitlines()]


def feed(table: pa.Table) -> list[dict[str, Any]]:
    return [json.loads(line) for line in "".join(spark_cdc_lines(table)).splitlines()]


MIXED: list[tuple[Any, ...]] = [
    ("a", 1, 1, -1),
    ("b", 2, 1, -1),
    ("b", 3, 1, 1),
    (None, 4, 1, 1),
    (None, 4, 2, -1),
    ("a", 5, 2, 1),
    (None, 6, 2, 1),
]
"""Version 1: a goes, b is updated, null comes; version 2: null is updated, a comes."""


def test_the_two_rows_of_a_group_are_one_update() -> None:
    found = events(changes(MIXED, (0,), k=pa.string(), n=pa.int64()))
    told = [(e["op"], e["before"], e["after"], e["source"]["sequence"]) for e in found]
    assert told == [
        ("d", {"k": "a", "n": 1}, None, "1"),
        ("u", {"k": "b", "n": 2}, {"k": "b", "n": 3}, "1"),
        ("c", None, {"k": None, "n": 4}, "1"),
        ("u", {"k": None, "n": 4}, {"k": None, "n": 6}, "2"),
        ("c", None, {"k": "a", "n": 5}, "2"),
    ]


def test_an_event_says_where_and_when_it_comes_from() -> None:
    (event, *_) = events(changes(MIXED, (0,), k=pa.string(), n=pa.int64()))
    assert event["ts_ms"] == event["source"]["ts_ms"] == MS
    assert event["source"]["connector"] == "substrait-agg"
    assert event["source"]["name"] == "0123456789ab"


def test_rows_without_a_whole_key_are_never_joined() -> None:
    """Without the whole key two equal rows may belong to different groups, so they never form one
    update.
    """
    found = events(changes(MIXED, None, k=pa.string(), n=pa.int64()))
    assert [e["op"] for e in found] == ["d", "d", "c", "c", "d", "c", "c"]


def test_the_one_group_of_a_global_aggregate_is_updated() -> None:
    table = changes([(1, 1, -1), (2, 1, 1)], (), n=pa.int64())
    assert [e["op"] for e in events(table)] == ["u"]


def test_a_row_that_is_there_several_times_comes_several_times() -> None:
    table = changes([("a", 1, -2), ("b", 1, 3)], (0,), k=pa.string())
    assert [e["op"] for e in events(table)] == ["d", "d", "c", "c", "c"]


def test_keys_of_every_form_are_matched() -> None:
    """Keys match by their values, also nested ones, decimals and NaN."""
    kinds: dict[str, Any] = {
        "f": pa.float64(),
        "d": pa.decimal128(5, 2),
        "l": pa.list_(pa.int32()),
        "b": pa.binary(),
    }
    keys: list[tuple[Any, ...]] = [
        (float("nan"), Decimal("1.50"), [1, None], b"\xff"),
        (0.5, Decimal("1.50"), [1, None], b"\xff"),
        (0.5, Decimal("1.50"), [1], b"\xff"),
        (0.5, Decimal("1.50"), None, b""),
    ]
    rows = [(*k, 0, 1, -1) for k in keys] + [(*k, 1, 1, 1) for k in reversed(keys)]
    found = events(changes(rows, (0, 1, 2, 3), **kinds, n=pa.int64()))
    assert [e["op"] for e in found] == ["u"] * 4
    assert all({**e["before"], "n": 1} == e["after"] for e in found)


def test_texts_that_join_to_the_same_are_different_keys() -> None:
    rows = [("a", "b,c", 1, -1), ("a,b", "c", 1, 1), ('a"', "", 1, -1), ("a", '"', 1, 1)]
    found = events(changes(rows, (0, 1), x=pa.string(), y=pa.string()))
    assert [e["op"] for e in found] == ["d", "d", "c", "c"]


def test_the_change_feed_has_the_rows_of_an_update_together() -> None:
    found = feed(changes(MIXED, (0,), k=pa.string(), n=pa.int64()))
    assert [(r["_change_type"], r["n"], r["_commit_version"]) for r in found] == [
        ("delete", 1, 1),
        ("update_preimage", 2, 1),
        ("update_postimage", 3, 1),
        ("insert", 4, 1),
        ("update_preimage", 4, 2),
        ("update_postimage", 6, 2),
        ("insert", 5, 2),
    ]
    assert {r["_commit_timestamp"] for r in found} == {AT}


def test_a_column_of_the_plan_does_not_hide_the_change_type() -> None:
    (row,) = feed(changes([(7, 1, 1)], (), _change_type=pa.int64()))
    assert (row["_change_type"], row["_change_type_1"]) == ("insert", 7)


def test_no_changes_are_no_events() -> None:
    empty = changes([], (0,), k=pa.string())
    assert (events(empty), feed(empty)) == ([], [])


@pytest.mark.parametrize("seed", range(5))
def test_events_replayed_elsewhere_give_the_view(seed: int) -> None:
    """An outside database that applies the events in order ends with the same rows."""
    random_ = random.Random(seed)
    view: dict[str, int] = {}
    rows: list[tuple[Any, ...]] = []
    for version in (1, 2):
        before = dict(view)
        for key in random_.sample("abcdefgh", 6):
            if random_.random() < 0.4:
                view.pop(key, None)
            else:
                view[key] = random_.randrange(100)
        gone = [(k, n, version, -1) for k, n in before.items() if view.get(k) != n]
        come = [(k, n, version, 1) for k, n in view.items() if before.get(k) != n]
        rows += gone + come
    database = duckdb.connect()
    database.execute("create table v (k varchar primary key, n bigint)")
    for event in events(changes(rows, (0,), k=pa.string(), n=pa.int64())):
        if event["op"] == "c":
            database.execute("insert into v values (?, ?)", [*event["after"].values()])
        elif event["op"] == "u":
            key, n = event["before"].values()
            sql = "update v set n = ? where k = ? and n = ? returning k"
            assert database.execute(sql, [event["after"]["n"], key, n]).fetchall() == [(key,)]
        else:
            sql = "delete from v where k = ? and n = ? returning k"
            assert database.execute(sql, [*event["before"].values()]).fetchall()
    assert dict(database.execute("from v").fetchall()) == view
