"""Topics as outputs: at every version, the newest message of each key is the row of the view."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from substrait_agg.changes import parse_output
from substrait_agg.changes.outputs.kafka_sink import KafkaSink
from substrait_agg.changes.outputs.sinks import SinkContext
from substrait_agg.changes.targets.kafka import parse_kafka
from substrait_agg.errors import RunFailed, StateRefused, UsageError
from tests.changes.keyed_view import changes_of
from tests.connect.kafka_topics import Broker


@pytest.fixture(scope="module")
def broker() -> Broker:
    return Broker()


def open_sink(broker: Broker, topic: str, folder: Path) -> KafkaSink:
    sink = KafkaSink(parse_kafka(f"{topic}?kafka.bootstrap.servers={broker.servers}"))
    sink.begin(SinkContext(folder, io.StringIO()))
    return sink


def messages(broker: Broker, topic: str) -> list[tuple[Any, Any, dict[str, str]]]:
    """Return all messages: key, value, headers."""
    settings = {
        "bootstrap.servers": broker.servers, "group.id": "t", "auto.offset.reset": "earliest", "log_level": 0,
        "enable.partition.eof": True,
    }  # fmt: skip
    consumer, found = Consumer(settings), []
    for number in range(4):
        consumer.assign([TopicPartition(topic, number, 0)])
        while (message := consumer.poll(10)) is not None and message.error() is None:
            value: Any = message.value()
            of_message: Any = message.headers() or ()
            headers = {name: text.decode() for name, text in of_message}
            found.append((json.loads(message.key() or b""), value and json.loads(value), headers))
    consumer.close()
    return sorted(found, key=lambda m: (m[2]["version"], str(m[0])))


def row(shop: str, item: int, total: str, version: int, weight: int) -> tuple[Any, ...]:
    return (shop, item, Decimal(total), None, version, weight)


def test_messages_of_versions(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    sink = open_sink(broker, topic, tmp_path)
    assert sink.position is None
    sink.deliver(changes_of([row("a", 1, "1.50", 0, 1), row("b", 2, "2", 0, 1)]), 0)
    sink.deliver(changes_of([]), 1)
    changed = [row("a", 1, "1.50", 2, -1), row("a", 1, "3", 2, 1), row("b", 2, "2", 2, -1)]
    sink.deliver(changes_of(changed), 2)
    sink.close()
    found = messages(broker, topic)
    a, b = {"shop": "a", "item": 1}, {"shop": "b", "item": 2}
    assert [(m[2]["version"], m[0]) for m in found] == [("0", a), ("0", b), ("2", a), ("2", b)]
    assert [Decimal(str(m[1]["total"])) if m[1] else None for m in found] == [
        Decimal("1.5"), Decimal(2), Decimal(3), None,
    ]  # fmt: skip
    assert len({m[2]["checkpoint"] for m in found}) == 1
    assert open_sink(broker, topic, tmp_path).position == 2


def test_a_version_is_not_written_twice(broker: Broker, tmp_path: Path) -> None:
    """A run was killed after it had written a version and before it could say so in the record."""
    topic = broker.topic()
    sink = open_sink(broker, topic, tmp_path)
    sink.deliver(changes_of([row("a", 1, "1", 0, 1)]), 0)
    (record,) = (tmp_path / "outputs").iterdir()
    before = record.read_bytes()
    change = changes_of([row("a", 1, "1", 1, -1), row("a", 1, "2", 1, 1)])
    sink.deliver(change, 1)
    record.write_bytes(before)
    again = open_sink(broker, topic, tmp_path)
    assert again.position == 0
    again.deliver(change, 1)
    again.deliver(changes_of([row("a", 1, "2", 2, -1)]), 2)
    assert [m[2]["version"] for m in messages(broker, topic)] == ["0", "1", "2"]


def test_a_topic_that_is_ahead(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    sink = open_sink(broker, topic, tmp_path)
    for version in range(3):
        sink.deliver(changes_of([row("a", version, "1", version, 1)]), version)
    again = open_sink(broker, topic, tmp_path)
    with pytest.raises(StateRefused) as refused:
        again.deliver(changes_of([row("a", 9, "1", 1, 1)]), 1)
    assert refused.value.code == "OUTPUT_AHEAD"


def test_a_topic_with_other_messages(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.put(topic, {"id": 1}, {"id": 1})
    broker.flush()
    with pytest.raises(UsageError) as refused:
        open_sink(broker, topic, tmp_path)
    assert refused.value.code == "OUTPUT_EXISTS"


def test_a_view_with_several_rows_of_a_key(broker: Broker, tmp_path: Path) -> None:
    """A later version may take one of two equal rows away: a message without a value would hide both."""
    sink = open_sink(broker, broker.topic(), tmp_path)
    with pytest.raises(StateRefused) as refused:
        sink.deliver(changes_of([row("a", 1, "1", 0, 1)], (0, 1, 2), repeats=True), 0)
    assert refused.value.code == "OUTPUT_KEY_MISSING"


@pytest.mark.parametrize("keys", [None, (0,)])
def test_a_view_without_its_keys(
    broker: Broker, tmp_path: Path, keys: tuple[int, ...] | None
) -> None:
    sink = open_sink(broker, broker.topic(), tmp_path)
    with pytest.raises(StateRefused) as refused:
        sink.deliver(changes_of([row("a", 1, "1", 0, 1), row("a", 2, "1", 0, 1)], keys), 0)
    assert refused.value.code == "OUTPUT_KEY_MISSING"


def test_a_server_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("substrait_agg.changes.outputs.kafka_sink.SECONDS", 0.5)
    sink = KafkaSink(parse_kafka("t?kafka.bootstrap.servers=127.0.0.1:1"))
    with pytest.raises(RunFailed) as failed:
        sink.begin(SinkContext(tmp_path, io.StringIO()))
    assert failed.value.code == "OUTPUT_NOT_REACHABLE"


def test_passwords_are_not_shown() -> None:
    spec = parse_output("kafka-upserts=t?kafka.bootstrap.servers=b:1&kafka.sasl.password=geheim")
    assert "geheim" not in f"{spec} {spec!r} {KafkaSink(spec.table).identity}"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", "t", "t?x=1", "?kafka.bootstrap.servers=b", "t?kafka.bootstrap.servers=b&kafka.acks=0"]
)  # fmt: skip
def test_bad_targets(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_output(f"kafka-upserts={text}")
    assert refused.value.code == "OPTION_INVALID"
