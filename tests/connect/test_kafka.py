"""Topics of Kafka as sources: the rows that a run keeps are those of the messages, at every position."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from substrait_agg.connect.kafka import consumer
from substrait_agg.connect.kafka.source import connect
from substrait_agg.connect.protocol import TableSource
from substrait_agg.connect.registry import groups
from substrait_agg.errors import InputRefused, RunFailed, UsageError
from substrait_agg.spark.sources.specs import parse_spec
from tests.connect.kafka_topics import Broker, Partition, Recorded, topic_run

COLUMNS = "id bigint, name string"
Texts = tuple[bytes | None, bytes | None]


@pytest.fixture(autouse=True)
def without_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mock cluster does not answer the question for the ids of topics."""
    monkeypatch.setattr(consumer, "ID_SECONDS", 0.05)


@pytest.fixture(scope="module")
def broker() -> Broker:
    return Broker()


def source(topic: str, servers: str = "b:1", columns: str = COLUMNS, **options: str) -> TableSource:
    given = {"kafka.bootstrap.servers": servers, "columns": columns, **options}
    return TableSource("t", topic, given)


# --- against the mock cluster of librdkafka ------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("key", ["", "id"])
def test_rows_are_those_of_the_topic(broker: Broker, key: str, seed: int) -> None:
    """Random messages; batches of one or more; batches that are not committed; restarts anywhere."""
    rng, topic = random.Random(f"{seed}{key}"), broker.topic()
    run = topic_run(source(topic, broker.servers, **({"key": key} if key else {})))
    expected: Counter[tuple[Any, ...]] = Counter()
    current: dict[int, tuple[Any, ...]] = {}
    for step in range(30):
        for number in range(rng.randrange(20)):
            id_ = rng.randrange(10)
            row = (id_, f"{step}/{number}")
            is_gone = bool(key) and rng.random() < 0.3
            value = None if is_gone else {"name": row[1], "id": id_, "more": [1]}
            broker.put(topic, {"id": id_}, value, id_ % 4)
            expected[row] += 1
            current.pop(id_, None)
            if not is_gone:
                current[id_] = row
        broker.flush()
        run.wander(rng, [1.0, 200.0, float("inf")])
    run.drain(rng.choice([200.0, float("inf")]))
    assert run.rows == (Counter(current.values()) if key else expected)
    assert run.open().lag() == {"messages": 0.0}
    run.restart()


def test_a_run_can_begin_at_the_end(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, None, {"id": 1})
    broker.flush()
    run = topic_run(source(topic, broker.servers, startingOffsets="latest"))
    assert run.advance()
    broker.put(topic, None, {"id": 2})
    broker.flush()
    run.drain()
    assert run.rows == Counter([(2, None)])
    run.restart()


def test_an_empty_topic_has_a_position(broker: Broker) -> None:
    run = topic_run(source(broker.topic(), broker.servers))
    run.drain()
    assert len(run.states) == 2
    run.restart()


def test_committed_transactions_are_read(broker: Broker) -> None:
    topic = broker.topic()
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": broker.servers, "transactional.id": "x", "log_level": 0}
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, b'{"id":1,"name":"a"}')
    producer.commit_transaction(10)
    run = topic_run(source(topic, broker.servers))
    run.drain()
    assert run.rows == Counter([(1, "a")])
    run.restart()


def test_a_missing_topic(broker: Broker) -> None:
    connector = connect({"t": source("nosuch", broker.servers)})
    with pytest.raises(InputRefused) as refused:
        connector.latest(None, 1.0)
    assert refused.value.code == "SOURCE_NOT_FOUND"
    connector.close()


def test_two_tables_of_one_topic(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, None, {"id": 1, "name": "a", "price": 2.5})
    broker.flush()
    tables = {
        "a": source(topic, broker.servers),
        "b": source(topic, broker.servers, "price decimal(10,2)"),
    }
    assert len(groups(("kafka", table) for table in tables.values())) == 1
    connector = connect(tables)
    connector.begin({"a": ["name"], "b": ["price"]}, "checkpoint", None)
    until = connector.latest(None, float("inf"))
    assert until is not None
    read = connector.read(None, until)
    assert read["a"].to_pylist() == [{"name": "a", "__weight": 1}]
    assert read["b"].to_pylist() == [{"price": Decimal("2.50"), "__weight": 1}]
    connector.close()


# --- recorded messages ---------------------------------------------------------------------------


def texts(*rows: Any) -> dict[int, Texts]:
    """Return the messages of rows (offset, value), or (offset, value, key)."""
    return {
        row[0]: tuple(  # type: ignore[misc]
            v if isinstance(v, bytes | None) else json.dumps(v).encode()
            for v in ((row[2] if len(row) > 2 else None), row[1])
        )
        for row in rows
    }


def test_gaps_at_every_place() -> None:
    """Control records and compaction leave gaps: at the start, within, and at the end of a range."""
    rows = texts(*((o, {"id": o}) for o in (7, 8, 12, 13, 14, 20)))
    for end in range(7, 25):
        kept = {offset: row for offset, row in rows.items() if offset < end}
        recorded = Recorded({0: Partition(5, end, kept), 1: Partition(0, 0, {})})
        run = topic_run(source("t"), recorded=recorded)
        run.drain(most_bytes=3.0)
        assert run.rows == Counter((offset, None) for offset in kept)
        recorded.partitions[0] = Partition(6, 30, texts(*((o, {"id": o}) for o in rows)))
        run.drain()
        assert run.rows == Counter((offset, None) for offset in rows)
        assert json.loads(run.position or "")["offsets"] == {"t": {"0": 30, "1": 0}}


def test_what_was_read_ahead_is_not_read_again() -> None:
    recorded = Recorded({0: Partition(0, 50, texts(*((o, {"id": o}) for o in range(50))))})
    run = topic_run(source("t"), recorded=recorded)
    run.drain(most_bytes=3.0)
    assert run.rows == Counter((offset, None) for offset in range(50))
    assert len(run.states) > 5
    assert recorded.assigned == 1


def test_a_read_can_be_repeated() -> None:
    recorded = Recorded({0: Partition(0, 5, texts(*((o, {"id": o}) for o in range(5))))})
    connector = topic_run(source("t"), recorded=recorded).open()
    until = connector.latest(None, float("inf"))
    assert until is not None
    assert connector.read(None, until) == connector.read(None, until)


def test_silence_is_not_an_end() -> None:
    recorded = Recorded({0: Partition(0, 5, {})})
    recorded.silent = True
    with pytest.raises(RunFailed) as failed:
        topic_run(source("t"), recorded=recorded).advance()
    assert failed.value.code == "SOURCE_NOT_REACHABLE"


def test_a_new_partition_begins_at_zero() -> None:
    recorded = Recorded({0: Partition(0, 1, texts((0, {"id": 0})))})
    run = topic_run(source("t", startingOffsets="latest"), recorded=recorded)
    run.drain()
    recorded.partitions[1] = Partition(0, 2, texts((0, {"id": 1}), (1, {"id": 2})))
    run.drain()
    assert run.rows == Counter([(1, None), (2, None)])
    recorded.partitions[2] = Partition(4, 5, texts((4, {"id": 3})))
    with pytest.raises(InputRefused) as refused:
        run.drain()
    assert refused.value.code == "SOURCE_POSITION_GONE"


@pytest.mark.parametrize(
    ("partition", "code"),
    [
        (Partition(4, 9, {}), "SOURCE_POSITION_GONE"),
        (Partition(0, 2, {}), "SOURCE_RECREATED"),
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_topic_without_the_position(partition: Partition, code: str, restarts: bool) -> None:
    """Retention has deleted what follows the position, or the topic ends before it."""
    recorded = Recorded({0: Partition(0, 3, texts((0, {"id": 0})))})
    run = topic_run(source("t"), recorded=recorded)
    run.drain()
    recorded.partitions[0] = partition
    recorded.places = {0: 3}
    if restarts:
        run.restart()
    with pytest.raises(InputRefused) as refused:
        run.drain()
    assert refused.value.code == code
    assert refused.value.help


def test_a_topic_with_another_id() -> None:
    recorded = Recorded({0: Partition(0, 1, texts((0, {"id": 0})))})
    run = topic_run(source("t"), recorded=recorded)
    run.drain()
    position = json.loads(run.position or "")
    run.states.append((json.dumps({**position, "topics": {"t": "one"}}), run.tables))
    run.restart()
    connector = run.open()
    connector._cluster.topics = lambda names: {"t": ("two", [0])}
    with pytest.raises(InputRefused) as refused:
        connector.latest(run.position, 1.0)
    assert refused.value.code == "SOURCE_RECREATED"


# --- values --------------------------------------------------------------------------------------


def rows(columns: str, *messages: Any, **options: str) -> list[tuple[Any, ...]]:
    """Return the rows with their weights of messages (value, or value and key)."""
    numbered = [(i, *(m if isinstance(m, tuple) else (m,))) for i, m in enumerate(messages)]
    recorded = Recorded({0: Partition(0, len(messages), texts(*numbered))})
    connector = topic_run(source("t", columns=columns, **options), recorded=recorded).open()
    until = connector.latest(None, float("inf"))
    assert until is not None
    read = connector.read(None, until)["t"]
    return list(zip(*(column.to_pylist() for column in read.columns), strict=True))


def test_types() -> None:
    columns = "a boolean, b tinyint, c double, d decimal(10,2), e date, f timestamp, g timestamp_ntz, `h``i` string"
    message = {
        "a": True, "b": -3, "c": 1.5, "d": 12.34, "e": "2024-02-29", "f": "2024-02-29T10:00:00+02:00",
        "g": "2024-02-29 10:00:00.123456", "h`i": 'ü\n"',
    }  # fmt: skip
    moment = dt.datetime(2024, 2, 29, 8, tzinfo=dt.UTC)
    assert rows(columns, message, {"d": "0.5"}) == [
        (True, -3, 1.5, Decimal("12.34"), dt.date(2024, 2, 29), moment,
         dt.datetime(2024, 2, 29, 10, 0, 0, 123456), 'ü\n"', 1),
        (None, None, None, Decimal("0.50"), None, None, None, None, 1),
    ]  # fmt: skip


def test_arrays_and_structs() -> None:
    """Times and decimals inside of them are written as outside of them; missing fields are null."""
    columns = "v struct<a: int, `b c` decimal(10,2), d: date>, l array<struct<t timestamp, n array<date>>>"
    day, moment = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 8, tzinfo=dt.UTC)
    assert rows(
        columns,
        {"v": {"d": "2024-02-29", "b c": 1.5, "z": [0]}, "l": [{"t": "2024-02-29T10:00:00+02:00"}, None]},
        {"v": {}, "l": [{"n": ["2024-02-29", None]}, {"n": []}]},
        {"v": None, "l": []},
        {},
    ) == [
        ({"a": None, "b c": Decimal("1.50"), "d": day}, [{"t": moment, "n": None}, None], 1),
        (dict.fromkeys(("a", "b c", "d")), [{"t": None, "n": [day, None]}, {"t": None, "n": []}], 1),
        (None, [], 1),
        (None, None, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("bad", [{"a": 1.5}, {"a": "1"}, {"l": [5]}, {"l": {"d": None}}, 5, []])
def test_a_bad_value_inside_of_a_struct_is_named(bad: Any) -> None:
    with pytest.raises(InputRefused) as refused:
        rows("v struct<a: int, l: array<date>>", {"v": {"a": 1}}, {"v": bad})
    assert (refused.value.code, refused.value.path) == ("ROW_UNREADABLE", "t/0/1")


def test_an_object_over_several_lines() -> None:
    assert rows(COLUMNS, b'{"id":\r\n 1}\n', b' {"id":2}') == [(1, None, 1), (2, None, 1)]


@pytest.mark.parametrize("key", [{"id": 2}, 2, {"schema": {}, "payload": {"id": 2}}])
def test_a_tombstone_deletes_by_the_key_of_the_message(key: Any) -> None:
    found = rows(COLUMNS, {"id": 1}, {"id": 2}, (None, key), {"id": 2, "name": "b"}, key="id")
    assert found == [(1, None, 1), (2, None, 1), (2, None, -1), (2, "b", 1)]


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"{", b"5", b"[1]", b'{"id":1}{"id":2}', b'{"id":1.5}', b'{"id":"1"}', b'{"name":5}', b'{"name":"\xff"}',
        b'{"id":99999999999999999999}', b'{"id":1,"id":2}', b'{"id":1} x', None,
    ],
)  # fmt: skip
def test_a_bad_message_is_named(bad: bytes | None) -> None:
    good = [{"id": n} for n in range(11)]
    with pytest.raises(InputRefused) as refused:
        rows(COLUMNS, *good[:7], (bad,), *good)
    assert (refused.value.code, refused.value.path) == ("ROW_UNREADABLE", "t/0/7")


def test_two_errors_that_cancel_each_other() -> None:
    """One message has two objects, and another none: the number of rows is that of the messages."""
    with pytest.raises(InputRefused) as refused:
        rows(COLUMNS, {"id": 1}, b'{"id":1}{"id":2}', b" ")
    assert refused.value.path == "t/0/1"


def test_a_null_in_a_column_without_nulls() -> None:
    with pytest.raises(InputRefused) as refused:
        rows("id bigint not null", {"id": 1}, {})
    assert refused.value.code == "ROW_UNREADABLE"


def event(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"x": 1}, "ts_ms": 1}


def test_events_with_old_and_new_rows() -> None:
    a, b = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
    events = (
        event("r", None, a),
        {"schema": {}, "payload": event("u", a, b)},
        event("d", b),
        (None, {"id": 1}),
    )
    found = rows(COLUMNS, *events, cdc="debezium")
    assert found == [(1, "a", 1), (1, "a", -1), (1, "b", 1), (1, "b", -1)]


def test_events_by_key() -> None:
    """Without an old row, the key of the message says which row is gone."""
    events = (
        event("c", None, {"id": 1, "name": "a"}),
        event("u", None, {"id": 1, "name": "b"}),
        (event("d"), {"id": 1}),
        (None, {"id": 1}),
        event("c", None, {"id": 1, "name": "c"}),
        (event("d", {"id": 1, "name": None}), {"id": 1}),
    )
    found = rows(COLUMNS, *events, cdc="debezium", key="id")
    assert [(row[0], row[-1]) for row in found] == [
        (1, 1),
        (1, 1),
        (1, -1),
        (1, -1),
        (1, 1),
        (1, -1),
    ]


def test_dates_of_events_are_days() -> None:
    """Also those in keys, arrays and structs."""
    new = {"d": 19782, "l": [19782, None], "v": {"d": 19782}}
    events = event("c", None, new), (None, {"d": 19782})
    found = rows("d date, l array<date>, v struct<d: date>", *events, cdc="debezium", key="d")
    day = dt.date(2024, 2, 29)
    assert found == [(day, [day, None], {"d": day}, 1), (day, None, None, -1)]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (event("u", None, {"id": 1}), "ROW_UNREADABLE"),
        (event("d"), "ROW_UNREADABLE"),
        (event("c"), "ROW_UNREADABLE"),
        ({"id": 1}, "ROW_UNREADABLE"),
        (event("t"), "SOURCE_TRUNCATED"),
    ],
)
def test_bad_events(bad: Any, code: str) -> None:
    with pytest.raises(InputRefused) as refused:
        rows(COLUMNS, event("c", None, {"id": 1}), bad, cdc="debezium")
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("type_", "placeholder"),
    [
        ("string", "__debezium_unavailable_value"),
        ("array<string>", ["__debezium_unavailable_value"]),
        ("array<bigint>", list(b"__debezium_unavailable_value")),
        ("array<date>", list(b"__debezium_unavailable_value")),
    ],
)
@pytest.mark.parametrize("key", ["id", ""])
def test_a_value_that_an_event_omits_is_no_value(type_: str, placeholder: Any, key: str) -> None:
    """PostgreSQL does not send large values that an update left as they were."""
    before, after = {"id": 1, "x": None}, {"id": 1, "x": placeholder}
    columns = f"id bigint, x {type_}"
    with pytest.raises(InputRefused) as refused:
        rows(columns, event("u", before, after), cdc="debezium", **({"key": key} if key else {}))
    assert (refused.value.code, bool(refused.value.help)) == ("VALUE_UNAVAILABLE", True)


# --- specifications ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "is_read_here"),
    [("columns=id int&kafka.x=1", True), ("columns=id int&reader=spark", False), ("kafka.x=1&a=b", False)],
)  # fmt: skip
def test_which_sources_are_read_here(options: str, is_read_here: bool) -> None:
    assert parse_spec(f"kafka:t?{options}").is_connected == is_read_here


def test_an_unknown_option() -> None:
    with pytest.raises(UsageError) as refused:
        parse_spec("kafka:t?columns=id int&maxOffsetsPerTrigger=5")
    assert refused.value.code == "SPEC_OPTION_UNKNOWN"


@pytest.mark.parametrize(
    "options",
    [
        {"columns": ""}, {"columns": "id"}, {"columns": "id bigint,"}, {"columns": "id what"},
        {"columns": "id int, id int"}, {"columns": "id decimal(3,5)"}, {"columns": "id int(3)"}, {"key": "x"},
        {"key": "id,id"}, {"cdc": "x"}, {"value": "avro"}, {"startingOffsets": "{}"}, {"kafka.bootstrap.servers": ""},
        {"kafka.isolation.level": "read_uncommitted"}, {"columns": "t timestamp", "cdc": "debezium"},
        {"columns": "l array<struct<t: timestamp>>", "cdc": "debezium"}, {"columns": "m map<string, int>"},
        {"columns": "a array<int"}, {"columns": "a struct<>"}, {"columns": "a struct<b int, b int>"}, {"columns": "a `"},
        {"columns": "id int, a array<int>", "key": "a"},
    ],
)  # fmt: skip
def test_bad_options(options: dict[str, str]) -> None:
    given = {"kafka.bootstrap.servers": "b:1", "columns": COLUMNS, **options}
    with pytest.raises(UsageError) as refused:
        connect({"t": TableSource("t", "t", given)})
    assert refused.value.code == "SPEC_OPTION_BAD"
    assert refused.value.help


def test_options_of_java_and_unknown_ones() -> None:
    with pytest.raises(UsageError) as refused:
        connect({"t": source("t", **{"kafka.sasl.jaas.config": "hunter2"})})
    assert refused.value.code == "SPEC_OPTION_UNKNOWN"
    assert "hunter2" not in f"{refused.value} {refused.value.help}"
    with pytest.raises(UsageError) as refused:
        connect({"t": source("t", **{"kafka.no.such": "1"})}).latest(None, 1.0)
    assert refused.value.code == "SPEC_OPTION_BAD"
