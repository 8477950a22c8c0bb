"""Debezium change events as weighted rows: whole, in every form that values are written in, and nothing silently null.

The envelopes follow the examples of Debezium's documentation of its PostgreSQL connector.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from substrait_agg.errors import InputRefused, UsageError
from substrait_agg.flow.graph.graph import TableOrigin
from substrait_agg.plan.types import Type, decimal
from substrait_agg.spark.sources.open import open_source, weight_kind
from substrait_agg.spark.sources.specs import parse_spec
from tests.conformance.evaluating import interpreted

pytestmark = pytest.mark.spark

CUSTOMERS = TableOrigin(
    ("inventory", "customers"),
    ("id", "first_name", "email"),
    (Type("i32", nullable=False), Type("string"), Type("string")),
)
ANNE = {"id": 1, "first_name": "Anne", "last_name": "Kretchmar", "email": "annek@noanswer.org"}
MARIE = {**ANNE, "first_name": "Anne Marie"}
SOURCE = {
    "connector": "postgresql",
    "db": "inventory",
    "schema": "public",
    "table": "customers",
    "lsn": 24023128,
}


def event(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 1559033904863}


def with_schema(payload: Any) -> dict[str, Any]:
    row = {
        "type": "struct",
        "field": "after",
        "fields": [{"type": "int32", "optional": False, "field": "id"}],
    }
    return {
        "schema": {"type": "struct", "fields": [row], "name": "customers.Envelope"},
        "payload": payload,
    }


def rows(
    spark: SparkSession, folder: Path, events: Sequence[Any], table: TableOrigin, keys: str = ""
) -> list[tuple[Any, ...]]:
    """The rows that the events in one file amount to; an event is JSON, or its text."""
    folder.mkdir(exist_ok=True)
    lines = [e if isinstance(e, str) else json.dumps(e) for e in events]
    (folder / "events.json").write_text("".join(f"{line}\n" for line in lines))
    opened = open_source(spark, f"json:{folder}?cdc=debezium{keys}", table)
    assert opened.weight == "changelog"
    found: list[tuple[Any, ...]] = []
    writer = opened.frame.writeStream.foreachBatch(
        lambda df, _: found.extend(map(tuple, df.collect()))
    )
    with interpreted(spark):
        writer.trigger(availableNow=True).start().awaitTermination()
    return found


def test_every_operation_is_the_rows_it_takes_and_brings(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A snapshot's reads, a create, an update with its before image, a delete and the tombstone behind it."""
    found = rows(
        spark, tmp_path / "in",
        [event("r", None, ANNE), event("u", ANNE, MARIE), event("d", MARIE), "null", "", event("c", None, ANNE)],
        CUSTOMERS,
    )  # fmt: skip
    anne, marie = (1, "Anne", ANNE["email"]), (1, "Anne Marie", ANNE["email"])
    assert found == [(*anne, 1), (*anne, -1), (*marie, 1), (*marie, -1), (*anne, 1)]


def test_events_with_their_schema_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    found = rows(
        spark, tmp_path / "in", [with_schema(event("u", ANNE, MARIE)), event("d", MARIE)], CUSTOMERS
    )
    assert [row[-1] for row in found] == [-1, 1, -1]
    assert {row[:2] for row in found} == {(1, "Anne"), (1, "Anne Marie")}


WITHOUT_EMAIL = {k: v for k, v in ANNE.items() if k != "email"}
BROKEN: dict[str, tuple[Any, str]] = {
    "no before image": (event("u", None, MARIE), "ROW_BEFORE_MISSING"),
    "a delete of nothing": (event("d"), "ROW_BEFORE_MISSING"),
    "a create of nothing": (event("c"), "ROW_AFTER_MISSING"),
    "a truncation": (event("t"), "OPERATION_UNKNOWN"),
    "no operation": ({"before": None, "after": ANNE}, "OPERATION_UNKNOWN"),
    "no envelope": (ANNE, "OPERATION_UNKNOWN"),
    "no JSON": ('{"before": nul', "ENVELOPE_INVALID"),
    "two events in a line": (json.dumps(event("c", None, ANNE)) * 2, "ENVELOPE_INVALID"),
    "events between commas": (json.dumps([event("c", None, ANNE)] * 2)[1:-1], "ENVELOPE_INVALID"),
    "a list of events": (json.dumps([event("c", None, ANNE)] * 2), "ENVELOPE_INVALID"),
    "a list of one event": (json.dumps([event("c", None, ANNE)]), "ENVELOPE_INVALID"),
    "a text behind an event": (json.dumps(event("c", None, ANNE)) + " x", "ENVELOPE_INVALID"),
    "a text for a number": (event("c", None, {**ANNE, "id": "one"}), "ENVELOPE_INVALID"),
    "a column that the row lacks": (event("c", None, WITHOUT_EMAIL), "COLUMN_MISSING"),
    "the same inside a schema": (with_schema(event("u", WITHOUT_EMAIL, ANNE)), "COLUMN_MISSING"),
    "null in a required column": (event("c", None, {**ANNE, "id": None}), "NULL_IN_REQUIRED_COLUMN"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_understood_fails_the_batch(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    given, code = BROKEN[name]
    with pytest.raises(Exception, match=rf"\[{code}\]"):
        rows(spark, tmp_path / "in", [event("c", None, ANNE), given], CUSTOMERS)


def test_objects_in_texts_and_lists_are_parts_of_one_event(
    spark: SparkSession, tmp_path: Path
) -> None:
    name = '}{ "}" }, 5 [{'
    events = [event("c", None, {**ANNE, "first_name": name, "list": [{}, {"a": [{}, 1]}, 2]})]
    found = rows(spark, tmp_path / "in", [*events, with_schema(events[0])], CUSTOMERS)
    assert [row[1] for row in found] == [name, name]


def test_a_null_that_is_written_is_a_null(spark: SparkSession, tmp_path: Path) -> None:
    found = rows(spark, tmp_path / "in", [event("c", None, {**ANNE, "email": None})], CUSTOMERS)
    assert found == [(1, "Anne", None, 1)]


def unscaled(value: int) -> str:
    """As Kafka Connect writes the digits of a decimal."""
    return base64.b64encode(
        value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
    ).decode()


STAMP, TZ = Type("precision_timestamp", params=(6,)), Type("precision_timestamp_tz", params=(6,))
TIME = Type("precision_time", params=(6,))
WHEN = dt.datetime(2026, 1, 31, 10, 0, 0, 123000)
MICROS = 1769853600123000
BIG = 10**38 - 1


@pytest.mark.parametrize(
    ("type_", "keys", "pairs"),
    [
        (decimal(7, 2), "&decimals=bytes", [(unscaled(n), Decimal(n) / 100) for n in (0, 1, -1, 127, 128, -128, -129, 9999999, -9999999)]),
        (decimal(38, 0), "&decimals=bytes", [(unscaled(n), Decimal(n)) for n in (BIG, -BIG, 1 << 64, (1 << 64) - 1, -(1 << 64))]),
        (decimal(38, 38), "&decimals=bytes", [(unscaled(7), Decimal(7).scaleb(-38))]),
        (decimal(7, 2), "&decimals=text", [("12.50", Decimal("12.50")), (1.5, Decimal("1.50"))]),
        (Type("date"), "", [(20484, WHEN.date()), ("2026-01-31", WHEN.date()), (-1, dt.date(1969, 12, 31))]),
        (STAMP, "&times=ms", [(MICROS // 1000, WHEN)]),
        (STAMP, "&times=us", [(MICROS, WHEN)]),
        (STAMP, "&times=ns", [(MICROS * 1000, WHEN)]),
        (STAMP, "&times=text", [("2026-01-31T10:00:00.123", WHEN)]),
        (TZ, "", [("2026-01-31T10:00:00.123Z", WHEN), ("2026-01-31T11:00:00.123+01:00", WHEN)]),
        (TIME, "&times=us", [(36000123000, WHEN.time())]),
        (TIME, "&times=ms", [(36000123, WHEN.time())]),
        (Type("fp64"), "", [(1.5, 1.5), (3, 3.0)]),
        (Type("bool"), "", [(True, True)]),
        (Type("i64"), "", [(2**63 - 1, 2**63 - 1)]),
        (Type("binary"), "", [("AQI=", bytearray(b"\x01\x02"))]),
        (Type("string"), "", [('a"b', 'a"b'), ("12", "12")]),
    ],
    ids=str,
)  # fmt: skip
def test_values_in_the_forms_they_are_written_in(
    type_: Type, keys: str, pairs: list[tuple[Any, Any]], spark: SparkSession, tmp_path: Path
) -> None:
    table = TableOrigin(("t",), ("x",), (type_,))
    events = [event("c", None, {"x": written}) for written, _ in [*pairs, (None, None)]]
    found = rows(spark, tmp_path / "in", events, table, keys)
    assert [row[0] for row in found] == [*(value for _, value in pairs), None]


@pytest.mark.parametrize(
    ("type_", "keys", "value", "code"),
    [
        (STAMP, "&times=ns", 1, "VALUE_OUT_OF_RANGE"),
        (decimal(38, 0), "&decimals=bytes", unscaled(1 << 130), "VALUE_OUT_OF_RANGE"),
        (decimal(3, 0), "&decimals=bytes", unscaled(1000), "NUMERIC_VALUE_OUT_OF_RANGE"),
        (Type("date"), "", "soon", "CAST_INVALID_INPUT"),
    ],
)
def test_values_that_do_not_fit_fail_the_batch(
    type_: Type, keys: str, value: Any, code: str, spark: SparkSession, tmp_path: Path
) -> None:
    table = TableOrigin(("t",), ("x",), (type_,))
    with pytest.raises(Exception, match=code):
        rows(spark, tmp_path / "in", [event("c", None, {"x": value})], table, keys)


@pytest.mark.parametrize(
    ("type_", "code"),
    [
        (decimal(7, 2), "ENCODING_MISSING"),
        (STAMP, "ENCODING_MISSING"),
        (Type("struct", children=(Type("i32"),)), "ENCODING_NOT_SUPPORTED"),
    ],
)
def test_a_form_that_events_do_not_tell_has_to_be_said(
    type_: Type, code: str, spark: SparkSession, tmp_path: Path
) -> None:
    """``1234`` is a number, or the three bytes of another: guessing would be silently wrong."""
    with pytest.raises(InputRefused) as refused:
        rows(spark, tmp_path / "in", [], TableOrigin(("t",), ("x",), (type_,)))
    assert (refused.value.code, bool(refused.value.help)) == (code, True)


def test_what_the_source_says_of_events() -> None:
    spec = parse_spec("json:in/?cdc=debezium&times=us&decimals=bytes&batch-files=2")
    assert (spec.change, spec.times, spec.decimals, spec.options) == ("debezium", "us", "bytes", ())
    assert str(spec) == "json:in/?cdc=debezium&times=us&decimals=bytes&batch-files=2"
    assert weight_kind(spec) == "changelog"


@pytest.mark.parametrize(
    "text",
    ["json:x?cdc=maxwell", "json:x?cdc=debezium&times=hours", "json:x?cdc=debezium&op=op", "csv:x?cdc=debezium"],
)  # fmt: skip
def test_what_is_not_known_of_events_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_spec(text)
