"""A mock cluster of librdkafka, recorded messages, and runs that read topics."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, Producer

from substrait_agg.connect.kafka.consumer import Cluster
from substrait_agg.connect.kafka.source import KafkaSource, connect
from substrait_agg.connect.protocol import TableSource
from tests.connect.driver import Run

NAMES = itertools.count()


class Broker:
    """A cluster of one broker in this process; a topic has four partitions."""

    def __init__(self) -> None:
        self.producer = Producer(
            {"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0}
        )
        (broker,) = self.producer.list_topics(timeout=10).brokers.values()
        self.servers = f"{broker.host}:{broker.port}"

    def topic(self) -> str:
        """Create a topic."""
        name = f"topic{next(NAMES)}"
        self.producer.list_topics(name, timeout=10)
        return name

    def put(self, topic: str, key: Any, value: Any, partition: int = 0) -> None:
        """Write a message; keys and values are JSON, None is no value."""
        texts = [v if isinstance(v, bytes | None) else json.dumps(v).encode() for v in (key, value)]
        self.producer.produce(topic, key=texts[0], value=texts[1], partition=partition)

    def flush(self) -> None:
        """Wait until all messages are written."""
        assert self.producer.flush(10) == 0


def topic_run(source: TableSource, recorded: Recorded | None = None) -> Run:
    """Return a run that reads a topic of a cluster, or recorded messages."""

    def open_recorded(tables: Mapping[str, TableSource]) -> KafkaSource:
        return KafkaSource(tables, lambda: Cluster({}, "b", recorded, 0.5))

    return Run(open_recorded if recorded else connect, {"t": source})


# --- recorded messages ---------------------------------------------------------------------------


@dataclass
class Message:
    """A message, or an event of the client."""

    place: tuple[str, int]
    at: int
    body: bytes | None = None
    name: bytes | None = None
    code: int | None = None

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return self.name

    def value(self) -> bytes | None:
        return self.body

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)


@dataclass
class Partition:
    """Messages by offset, with gaps, from `first` to before `end`."""

    first: int
    end: int
    messages: dict[int, tuple[bytes | None, bytes | None]]


class Recorded:
    """A client that reads recorded partitions as librdkafka does."""

    def __init__(self, partitions: Mapping[int, Partition], topic: str = "t") -> None:
        self.topic, self.partitions = topic, dict(partitions)
        self.places: dict[int, int] = {}
        self.assigned = 0
        self.told: dict[int, int] = {}
        self.silent = False

    def list_topics(self, name: str, timeout: float) -> Any:
        topic = SimpleNamespace(error=None, partitions=dict.fromkeys(self.partitions))
        return SimpleNamespace(topics={name: topic})

    def get_watermark_offsets(self, place: Any) -> tuple[int, int]:
        partition = self.partitions[place.partition]
        return partition.first, partition.end

    def assign(self, places: Sequence[Any]) -> None:
        self.assigned += 1
        self.places = {place.partition: place.offset for place in places}
        self.told = {}

    def _events(self) -> Iterator[Message]:
        for number, at in self.places.items():
            partition, place = self.partitions[number], (self.topic, number)
            if not partition.first <= at <= partition.end:
                yield Message(place, at, code=KafkaError._AUTO_OFFSET_RESET)
                continue
            for offset in sorted(o for o in partition.messages if o >= at)[:3]:
                key, value = partition.messages[offset]
                self.places[number] = offset + 1
                yield Message(place, offset, value, key)
            if not any(o >= self.places[number] for o in partition.messages):
                self.places[number] = partition.end
                if self.told.get(number) != partition.end:
                    self.told[number] = partition.end
                    yield Message(place, partition.end, code=KafkaError._PARTITION_EOF)

    def poll(self, timeout: float) -> Message | None:
        self.come = [] if self.silent else list(self._events())
        return self.come.pop(0) if self.come else None

    def consume(self, count: int, timeout: float) -> list[Message]:
        return self.come

    def close(self) -> None:
        self.places = {}
