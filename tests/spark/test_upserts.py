"""Sources of upserts: the declarations of a SPEC, the order of rows, and the parts of an event that count.

The envelopes follow the examples of Debezium's documentation of its PostgreSQL connector, for a table that has the default
replica identity: updates have no row before, deletes the key alone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from substrait_agg.errors import InputRefused, UsageError
from substrait_agg.flow.graph.graph import TableOrigin, UpsertSource
from substrait_agg.flow.passes.upserts import ENVELOPE_FIELDS, UpsertDeclaration
from substrait_agg.plan.types import Type
from substrait_agg.spark.sources.debezium import change_rows
from substrait_agg.spark.sources.open import open_source
from substrait_agg.spark.sources.specs import parse_spec, weight_kind
from substrait_agg.spark.sources.upserts import upserts_in
from tests.conformance.evaluating import interpreted
from tests.e2e.files import age

CUSTOMERS = TableOrigin(
    ("inventory", "customers"),
    ("id", "first_name", "email"),
    (Type("i32", nullable=False), Type("string", nullable=False), Type("string")),
    UpsertSource((0,)),
)
ANNE = {"id": 1, "first_name": "Anne", "last_name": "Kretchmar", "email": "annek@noanswer.org"}
MARIE = {**ANNE, "first_name": "Anne Marie"}
ANNE_ROW, MARIE_ROW = (1, "Anne", ANNE["email"]), (1, "Anne Marie", ANNE["email"])
GONE = (1, None, None, -1)


def ordered(*paths: str) -> TableOrigin:
    keyed = UpsertSource((0,), tuple(range(3, 3 + len(paths))), paths)
    return TableOrigin(CUSTOMERS.table, CUSTOMERS.names, CUSTOMERS.types, keyed)


def event(op: str, before: Any = None, after: Any = None, **envelope: Any) -> dict[str, Any]:
    source = {"connector": "postgresql", "table": "customers", "lsn": 24023128, "txId": 555}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 7, **envelope}


def collected(
    frame: DataFrame, each: Callable[[DataFrame], DataFrame] = lambda frame: frame
) -> list[tuple[Any, ...]]:
    """The rows of a stream, of every batch what `each` makes of it."""
    found: list[tuple[Any, ...]] = []
    writer = frame.writeStream.foreachBatch(
        lambda df, _: found.extend(map(tuple, each(df).collect()))
    )
    with interpreted(frame.sparkSession):
        writer.trigger(availableNow=True).start().awaitTermination()
    return found


def rows(
    spark: SparkSession, folder: Path, events: Sequence[Any], table: TableOrigin, spec: str
) -> list[tuple[Any, ...]]:
    """The upserts and deletions that the events, or rows of JSON, in one file amount to."""
    folder.mkdir(exist_ok=True)
    lines = [e if isinstance(e, str) else json.dumps(e) for e in events]
    (folder / "events.json").write_text("".join(f"{line}\n" for line in lines))
    opened = open_source(spark, f"json:{folder}?{spec}&batch-files=1", table)
    assert opened.weight == "changelog"
    return collected(opened.frame)


# --- what a specification says -------------------------------------------------------------------


def test_a_key_and_an_order_are_taken_out_of_the_options() -> None:
    spec = parse_spec("csv:in/?header=true&op=what&key=region,id&order=seq&batch-files=1")
    assert spec.upsert == UpsertDeclaration(("region", "id"), ("seq",))
    assert (spec.options, spec.change, spec.change_column) == ((("header", "true"),), "op", "what")
    assert str(spec) == "csv:in/?header=true&op=what&key=region,id&order=seq&batch-files=1"
    assert upserts_in({("t",): str(spec), ("u",): "csv:x", ("v",): object()}) == {
        ("t",): spec.upsert
    }


@pytest.mark.parametrize("text", ["parquet:x?key=id", "json:x?op=op&key=id", "json:x?cdc=debezium&key=id"])  # fmt: skip
def test_upserts_become_changes_of_weight_one_and_minus_one(text: str) -> None:
    assert weight_kind(text) == "changelog"


def test_the_order_of_events_is_a_field_of_their_envelope() -> None:
    spec = parse_spec("kafka:t?cdc=debezium&key=id&order=source.file,source.pos")
    assert spec.upsert == UpsertDeclaration(("id",), ("source.file", "source.pos"), envelope=True)
    assert parse_spec("json:x?cdc=debezium&key=id").upsert == UpsertDeclaration(
        ("id",), partial=True
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("parquet:x?key=", "SPEC_OPTION_BAD"),
        ("parquet:x?key=a,,b", "SPEC_OPTION_BAD"),
        ("parquet:x?key=a,a", "SPEC_OPTION_BAD"),
        ("parquet:x?order=a", "SPEC_OPTION_BAD"),
        ("parquet:x?key=a&order=", "SPEC_OPTION_BAD"),
        ("parquet:x?key=a&weight=w", "SPEC_CHANGE_CONFLICT"),
        ("json:x?cdc=debezium&key=a&order=updated_at", "SPEC_OPTION_BAD"),
        ("json:x?cdc=debezium&key=a&order=source.table", "SPEC_OPTION_BAD"),
    ],
)
def test_keys_that_cannot_be_meant_are_refused(text: str, code: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_spec(text)
    assert refused.value.code == code
    assert refused.value.help


def test_the_message_lists_the_fields_that_order_events() -> None:
    with pytest.raises(UsageError) as refused:
        parse_spec("json:x?cdc=debezium&key=a&order=lsn")
    assert all(field in refused.value.help for field in ENVELOPE_FIELDS)


# --- in what order rows come ---------------------------------------------------------------------


ORDERS = TableOrigin(("orders",), ("id", "x"), (Type("i64"), Type("i64")), UpsertSource((0,)))


def write(folder: Path, *tables: list[tuple[int, int]]) -> None:
    folder.mkdir()
    for number, pairs in enumerate(tables):
        path = folder / f"part-{number}.parquet"
        pq.write_table(pa.table({"id": [p[0] for p in pairs], "x": [p[1] for p in pairs]}), path)
        age(path, number)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("parquet:{}?key=id", "batch-files=1"),
        ("parquet:{}?key=id&batch-files=2", "batch-files=1"),
        ("parquet:{}?key=id&batch-files=1&latestFirst=true", "order=COLUMN"),
        ("rate:?key=id", "order=COLUMN"),
        ("table:t?key=id", "order=COLUMN"),
    ],
)
def test_rows_in_no_certain_order_are_refused_before_any_is_read(
    spec: str, told: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark packs files into partitions by size: which of two rows of a key is newer would be chance."""
    write(tmp_path / "in", [(1, 1)], [(1, 2)])
    with pytest.raises(InputRefused) as refused:
        open_source(spark, spec.format(tmp_path / "in"), ORDERS)
    assert refused.value.code == "ORDER_UNKNOWN"
    assert told in refused.value.help


def test_files_of_one_instant_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes them in the order in which the file system lists them, which is none."""
    write(tmp_path / "in", [(1, 1)], [(1, 2)], [(1, 3)])
    age(tmp_path / "in" / "part-2.parquet", 0)
    with pytest.raises(InputRefused, match=r"part-0\.parquet and .*part-2\.parquet") as refused:
        open_source(spark, f"parquet:{tmp_path / 'in'}?key=id&batch-files=1", ORDERS)
    assert refused.value.code == "ORDER_UNKNOWN"
    assert "touch" in refused.value.help
    opened = open_source(spark, f"parquet:{tmp_path / 'in'}?key=id&batch-files=1&order=x", ORDERS)
    assert len(collected(opened.frame)) == 3


@pytest.mark.parametrize("spec", ["{}?key=id&batch-files=1", "{}?key=id&order=x", "{}/part-0.parquet?key=id"])  # fmt: skip
def test_one_file_at_a_time_or_an_order_will_do(
    spec: str, spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "in", [(1, 1)])
    opened = open_source(spark, f"parquet:{spec.format(tmp_path / 'in')}", ORDERS)
    assert collected(opened.frame) == [(1, 1, 1)]


def test_the_pieces_of_one_large_file_are_read_in_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Positions grow along the file though Spark reads it in several partitions: the premise of arrival as an order."""
    from pyspark.sql import functions as F

    (tmp_path / "in").mkdir()
    with (tmp_path / "in" / "rows.csv").open("w") as file:
        file.write("id,x\n")
        file.writelines(f"{i % 7},{i}\n" for i in range(200_000))
    spark.conf.set("spark.sql.files.maxPartitionBytes", "100000")
    spark.conf.set("spark.sql.files.openCostInBytes", "1000")
    try:
        opened = open_source(
            spark, f"csv:{tmp_path / 'in'}?header=true&key=id&batch-files=1", ORDERS
        )
        place = ("c1", F.monotonically_increasing_id(), F.spark_partition_id())
        found = collected(opened.frame, lambda frame: frame.select(*place))
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
        spark.conf.unset("spark.sql.files.openCostInBytes")
    assert len({partition for _, _, partition in found}) > 5
    assert [x for x, _, _ in sorted(found, key=lambda row: row[1])] == list(range(200_000))


# --- rows ----------------------------------------------------------------------------------------


def test_rows_that_say_what_a_row_was_are_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    """The state has the old row; a deletion needs only its key, also if the plan requires other columns."""
    words = ["insert", "update_preimage", "update_postimage", "delete", "+I", "-U", "+U", "-D", "c", "r", "u", "d"]  # fmt: skip
    given = [
        {"id": i, "op": word} | ({} if word in ("delete", "-D", "d") else {"x": i})
        for i, word in enumerate(words)
    ]
    types = (Type("i64", nullable=False), Type("i64", nullable=False))
    table = TableOrigin(("orders",), ("id", "x"), types, UpsertSource((0,)))
    assert rows(spark, tmp_path / "in", given, table, "op=op&key=id") == [
        (0, 0, 1), (2, 2, 1), (3, None, -1), (4, 4, 1), (6, 6, 1), (7, None, -1), (8, 8, 1),
        (9, 9, 1), (10, 10, 1), (11, None, -1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"id": None, "x": 1, "op": "+I"}, "KEY_IS_NULL"),
        ({"id": None, "op": "-D"}, "KEY_IS_NULL"),
        ({"id": 1, "x": None, "op": "-D"}, "ORDER_IS_NULL"),
        ({"id": 1, "x": 1, "op": None}, "OPERATION_UNKNOWN"),
    ],
)
def test_rows_that_cannot_be_placed_fail_the_batch(
    row: dict[str, Any], code: str, spark: SparkSession, tmp_path: Path
) -> None:
    table = TableOrigin(
        ("orders",), ("id", "x"), (Type("i64"), Type("i64")), UpsertSource((0,), (1,))
    )
    good = {"id": 1, "x": 1, "op": "+I"}
    with pytest.raises(Exception, match=rf"\[{code}\]"):
        rows(spark, tmp_path / "in", [good, row], table, "op=op&key=id&order=x")


# --- change events -------------------------------------------------------------------------------


def test_events_without_whole_rows_before(spark: SparkSession, tmp_path: Path) -> None:
    """A snapshot's read, a create, updates without a row before and with its key alone, a delete, its tombstone."""
    given = [
        event("r", None, ANNE),
        event("u", None, MARIE),
        {"schema": {"type": "struct"}, "payload": event("u", {"id": 1}, ANNE)},
        event("u", {"id": 1, "first_name": None, "email": None}, MARIE),
        event("d", {"id": 1}),
        "null",
        event("c", None, ANNE),
    ]
    expected = [ANNE_ROW, MARIE_ROW, ANNE_ROW, MARIE_ROW]
    assert rows(spark, tmp_path / "in", given, CUSTOMERS, "cdc=debezium&key=id") == [
        *((*row, 1) for row in expected), GONE, (*ANNE_ROW, 1),
    ]  # fmt: skip


def test_an_update_of_the_key_itself_takes_the_old_key_away(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Debezium writes a delete and a create then; others write one update, which is the same."""
    moved = {**ANNE, "id": 2}
    found = rows(
        spark, tmp_path / "in", [event("u", {"id": 1}, moved)], CUSTOMERS, "cdc=debezium&key=id"
    )
    assert found == [GONE, (2, *ANNE_ROW[1:], 1)]


WITHOUT_EMAIL = {k: v for k, v in ANNE.items() if k != "email"}
BROKEN: dict[str, tuple[Any, str]] = {
    "a delete of nothing": (event("d"), "ROW_BEFORE_MISSING"),
    "a delete without the key": (event("d", {"first_name": "Anne"}), "COLUMN_MISSING"),
    "a delete of null": (event("d", {"id": None}), "KEY_IS_NULL"),
    "an update to nothing": (event("u"), "ROW_AFTER_MISSING"),
    "an update that lacks a column": (event("u", None, WITHOUT_EMAIL), "COLUMN_MISSING"),
    "null in a required column": (event("u", None, {**ANNE, "first_name": None}), "NULL_IN_REQUIRED_COLUMN"),
    "null in the key": (event("c", None, {**ANNE, "id": None}), "KEY_IS_NULL"),
    "a truncation": (event("t"), "OPERATION_UNKNOWN"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_events_that_leave_something_open_fail_the_batch(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    given, code = BROKEN[name]
    with pytest.raises(Exception, match=rf"\[{code}\]"):
        rows(
            spark,
            tmp_path / "in",
            [event("c", None, ANNE), given],
            CUSTOMERS,
            "cdc=debezium&key=id",
        )


UNAVAILABLE = "__debezium_unavailable_value"
IN_BYTES = base64.b64encode(UNAVAILABLE.encode()).decode()
LARGE = (Type("i64"), Type("string"), Type("binary"))


def test_values_that_did_not_change_are_marked(spark: SparkSession, tmp_path: Path) -> None:
    """PostgreSQL leaves out large unchanged values; the marker for bytes is in base64."""
    table = TableOrigin(("t",), ("id", "text", "photo"), LARGE, UpsertSource((0,), partial=(1, 2)))
    given = [
        event("c", None, {"id": 1, "text": "a", "photo": None}),
        event("u", None, {"id": 1, "text": UNAVAILABLE, "photo": "AQI="}),
        event("u", None, {"id": 1, "text": None, "photo": IN_BYTES}),
        event("d", {"id": 1, "text": UNAVAILABLE, "photo": IN_BYTES}),
    ]
    found = rows(spark, tmp_path / "in", given, table, "cdc=debezium&key=id")
    assert [row[3:] for row in found] == [
        (False, False, 1), (True, False, 1), (False, True, 1), (False, False, -1),
    ]  # fmt: skip


@pytest.mark.parametrize("left_out", [{"text": UNAVAILABLE}, {"photo": IN_BYTES}])
def test_with_an_order_values_that_did_not_change_fail_the_batch(
    left_out: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    """With an explicit order, an omitted value fails the batch: the event with the value may arrive
    later and then be too old.
    """
    table = TableOrigin(
        ("t",), ("id", "text", "photo"), LARGE, UpsertSource((0,), (3,), ("ts_ms",))
    )
    given = [event("u", None, {"id": 1, "text": "", "photo": "", **left_out})]
    with pytest.raises(Exception, match=r"\[VALUE_UNAVAILABLE\]"):
        rows(spark, tmp_path / "in", given, table, "cdc=debezium&key=id&order=ts_ms")


def test_the_fields_that_order_events_are_read_from_the_envelope(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Numbers as numbers, also where a connector writes them as text; the schema part makes no difference."""
    paths = ("source.scn", "source.change_lsn", "ts_ms")
    source = {"scn": "2122184", "change_lsn": "00000027:00000758:0003"}
    plain = event("c", None, ANNE, source=source)
    given = [plain, {"schema": {}, "payload": event("d", {"id": 1}, source=source)}]
    spec = f"cdc=debezium&key=id&order={','.join(paths)}"
    order = (2122184, "00000027:00000758:0003", 7)
    found = rows(spark, tmp_path / "in", given, ordered(*paths), spec)
    assert found == [(*ANNE_ROW, *order, 1), (*GONE[:3], *order, -1)]


@pytest.mark.parametrize("lsn", [None, "late", 1.5])
def test_an_event_that_cannot_be_ordered_fails_the_batch(
    lsn: Any, spark: SparkSession, tmp_path: Path
) -> None:
    given = [event("c", None, ANNE, source={"lsn": lsn})]
    with pytest.raises(
        Exception, match=r"\[ORDER_IS_NULL\] source.lsn of table inventory.customers"
    ):
        rows(
            spark,
            tmp_path / "in",
            given,
            ordered("source.lsn"),
            "cdc=debezium&key=id&order=source.lsn",
        )


def messages(spark: SparkSession, pairs: Sequence[tuple[Any, Any]]) -> DataFrame:
    """Messages as Kafka's source gives them: keys and values in bytes."""
    coded = [
        tuple(None if part is None else bytearray(json.dumps(part).encode()) for part in pair)
        for pair in pairs
    ]
    return spark.createDataFrame(coded, "key binary, value binary").coalesce(1)


def test_a_tombstone_deletes_the_key_of_its_message(spark: SparkSession) -> None:
    """In a compacted topic it is all that is left of a delete; keys come with and without their schema part."""
    key = {"id": 1}
    pairs = [(key, event("u", None, ANNE)), (key, None), ({"schema": {}, "payload": key}, None)]
    pairs += [(None, None), ("no object", None)]
    spec = parse_spec("kafka:customers?cdc=debezium&key=id")
    found = change_rows(messages(spark, pairs), CUSTOMERS, spec).collect()
    assert [tuple(row) for row in found] == [(*ANNE_ROW, 1), GONE, GONE]


def test_tombstones_say_nothing_where_the_envelope_orders(spark: SparkSession) -> None:
    spec = parse_spec("kafka:customers?cdc=debezium&key=id&order=ts_ms")
    pairs = [({"id": 1}, event("u", None, ANNE)), ({"id": 1}, None)]
    found = change_rows(messages(spark, pairs), ordered("ts_ms"), spec).collect()
    assert [tuple(row) for row in found] == [(*ANNE_ROW, 7, 1)]


def test_tombstones_of_a_table_without_a_key_are_passed_over(spark: SparkSession) -> None:
    spec = parse_spec("kafka:customers?cdc=debezium")
    plain = TableOrigin(CUSTOMERS.table, CUSTOMERS.names, CUSTOMERS.types)
    pairs = [({"id": 1}, event("c", None, ANNE)), ({"id": 1}, None)]
    found = change_rows(messages(spark, pairs), plain, spec).collect()
    assert [tuple(row) for row in found] == [(*ANNE_ROW, 1)]
