"""Read topics of a Kafka cluster: the messages between two sets of offsets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from substrait_agg.connect.kafka.settings import (
    PREFIX,
    SERVERS,
    STARTS,
    TopicTable,
    client_options,
    read_settings,
    read_start,
)
from substrait_agg.connect.protocol import WEIGHT, ConnectedTable, TableSource
from substrait_agg.errors import InputRefused, UsageError
from substrait_agg.optional_packages import require

if TYPE_CHECKING:
    from substrait_agg.connect.kafka.consumer import Cluster, Messages, Place

MESSAGE_BYTES = 1000.0
"""Bytes of a message, until some have been read."""

_CHANGES = {
    (False, False): "every message adds a row",
    (False, True): "a message replaces the row of its key; one without a value deletes it",
    (True, False): "events with the old row and the new one",
    (True, True): "events with the new row, which replaces that of its key",
}
"""Whether messages are events, whether the table has keys -> how changes come."""


def group(source: TableSource) -> str:
    """Return the servers of a topic, in the order of their names."""
    servers = source.options.get(PREFIX + SERVERS, "").split(",")
    return ",".join(sorted(server.strip() for server in servers))


def connect(tables: Mapping[str, TableSource]) -> KafkaSource:
    """Open the topics of a cluster.

    Raises:
        UsageError: SOURCE_PACKAGE_MISSING, SPEC_OPTION_BAD, SPEC_OPTION_UNKNOWN, OPTION_CONFLICT.
    """
    require("confluent_kafka")
    return KafkaSource(tables)


@dataclass(frozen=True, slots=True)
class Offsets:
    """A position: the next offset of each partition, and the ids of the topics.

    As text, ``offsets`` is written as by Spark's source for Kafka.
    """

    next: Mapping[Place, int]
    ids: Mapping[str, str]

    @classmethod
    def read(cls, text: str) -> Offsets:
        """Return a position from its text."""
        document = json.loads(text)
        pairs = {
            (topic, int(partition)): offset
            for topic, offsets in document["offsets"].items()
            for partition, offset in offsets.items()
        }
        return cls(pairs, document["topics"])

    def __str__(self) -> str:
        offsets: dict[str, dict[str, int]] = {topic: {} for topic in sorted(self.ids)}
        for (topic, partition), offset in sorted(self.next.items()):
            offsets[topic][str(partition)] = offset
        return json.dumps({"offsets": offsets, "topics": dict(sorted(self.ids.items()))})


class KafkaSource:
    """A connector (`substrait_agg.connect.protocol.Connector`) to topics of one cluster.

    No group of consumers is joined, and no offset is committed to Kafka: the position in the
    checkpoint is the only one.

    Args:
        tables: the topics by the names of their tables in the plan.
        cluster: the cluster; None to connect to it.
    """

    def __init__(
        self, tables: Mapping[str, TableSource], cluster: Callable[[], Cluster] | None = None
    ) -> None:
        sources = list(tables.values())
        self._place = group(sources[0])
        self._tables: dict[str, TopicTable] = {n: read_settings(s) for n, s in tables.items()}
        options = [client_options(source.options, self._place) for source in sources]
        starts = {read_start(source) for source in sources}
        for what, several in (("kafka. options", any(o != options[0] for o in options)), ("startingOffsets", len(starts) > 1)):  # fmt: skip
            if several:
                message = f"tables of one cluster have different {what}"
                help = "give the same ones to all tables of the cluster"
                raise UsageError("OPTION_CONFLICT", message, help=help, path=self._place)
        self._start = starts.pop()
        self._open = cluster or (lambda: _open(options[0], self._place))
        self._opened: Cluster | None = None
        self._columns = {name: table.schema.names for name, table in self._tables.items()}
        self._message_bytes = MESSAGE_BYTES
        self._behind = 0

    @property
    def _cluster(self) -> Cluster:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    @property
    def _topics(self) -> list[str]:
        return sorted({table.topic for table in self._tables.values()})

    def table(self, name: str) -> ConnectedTable:
        """Return the columns that the SPEC declares: a topic itself has none."""
        table = self._tables[name]
        changes = _CHANGES[table.is_debezium, bool(table.keys)]
        return ConnectedTable(table.schema, table.keys, changes)

    def begin(
        self, columns: Mapping[str, Sequence[str]], checkpoint: str, position: str | None
    ) -> None:
        """Begin to read after a position.

        Raises:
            InputRefused: SOURCE_NOT_FOUND, SOURCE_RECREATED, SOURCE_POSITION_GONE.
            RunFailed: SOURCE_NOT_REACHABLE.
        """
        self._columns = {name: list(names) for name, names in columns.items()}
        if position is not None:
            offsets = Offsets.read(position)
            newest = self._newest(offsets)
            self._check_kept({place: offsets.next.get(place, 0) for place in newest.next})

    def _newest(self, after: Offsets | None) -> Offsets:
        """Return the end of the topics.

        Raises:
            InputRefused: SOURCE_RECREATED.
        """
        topics = self._cluster.topics(self._topics)
        places = [(topic, number) for topic, (_, numbers) in topics.items() for number in numbers]
        newest = self._cluster.bounds(places, first=False)
        ids = {topic: id_ for topic, (id_, _) in topics.items()}
        if after is not None:
            self._check_same(after, newest, ids)
            ids = {topic: id_ or after.ids.get(topic, "") for topic, id_ in ids.items()}
        return Offsets(newest, ids)

    def _check_same(
        self, after: Offsets, newest: Mapping[Place, int], ids: Mapping[str, str]
    ) -> None:
        for topic, id_ in ids.items():
            old = after.ids.get(topic, "")
            if old and id_ and old != id_:
                raise self._refuse_recreated(
                    f"the topic {topic} has another id than the one that was read"
                )
        for (topic, partition), offset in after.next.items():
            if topic in ids and newest.get((topic, partition), -1) < offset:
                end = newest.get((topic, partition), "no end")
                message = f"partition {partition} of the topic {topic} was read up to {offset}, and ends at {end}"
                raise self._refuse_recreated(message)

    def _refuse_recreated(self, message: str) -> InputRefused:
        help = "start a new checkpoint, or restore the topic"
        return InputRefused("SOURCE_RECREATED", message, help=help, path=self._place)

    def _check_kept(self, starts: Mapping[Place, int]) -> None:
        """Check that no partition begins after the offset from which it is read.

        Raises:
            InputRefused: SOURCE_POSITION_GONE.
        """
        first = self._cluster.bounds(list(starts), first=True)
        for (topic, partition), start in starts.items():
            if first[topic, partition] > start:
                raise InputRefused(
                    "SOURCE_POSITION_GONE",
                    f"partition {partition} of the topic {topic} is to be read from {start}, and begins at {first[topic, partition]}",
                    help="start a new checkpoint, and keep messages for longer: retention.ms and retention.bytes of the topic",
                    path=self._place,
                )  # fmt: skip

    def latest(self, after: str | None, most_bytes: float) -> str | None:
        """Return the end of all partitions, or as many messages as have about `most_bytes`.

        Raises:
            InputRefused: SOURCE_NOT_FOUND, SOURCE_RECREATED.
            RunFailed: SOURCE_NOT_REACHABLE.
        """
        old = None if after is None else Offsets.read(after)
        newest = self._newest(old)
        starts = self._starts(old, newest.next)
        counts = {place: end - starts[place] for place, end in newest.next.items()}
        total = self._behind = sum(counts.values())
        if old is not None and total == 0 and old.next.keys() == newest.next.keys():
            return None
        share = min(1.0, most_bytes / self._message_bytes / total) if total else 1.0
        ends = {
            place: starts[place] + min(count, max(1, int(count * share)))
            for place, count in counts.items()
        }
        return str(Offsets(ends, newest.ids))

    def _starts(self, after: Offsets | None, places: Mapping[Place, int]) -> dict[Place, int]:
        """Return from where each partition is read; those that were added begin at 0."""
        if after is not None:
            return {place: after.next.get(place, 0) for place in places}
        if self._start == STARTS[0]:
            return self._cluster.bounds(list(places), first=True)
        return dict(places)

    def read(self, after: str | None, until: str) -> Mapping[str, pa.Table]:
        """Return the rows of the messages between two positions.

        Raises:
            InputRefused: SOURCE_POSITION_GONE, SOURCE_RECREATED, ROW_UNREADABLE, SOURCE_TRUNCATED.
            RunFailed: SOURCE_NOT_REACHABLE, SOURCE_QUERY_FAILED.
        """
        ends = Offsets.read(until).next
        old = None if after is None else Offsets.read(after)
        starts = self._starts(old, ends)
        batch = self._messages({place: (starts[place], ends[place]) for place in ends})
        read = {}
        for name, table in self._tables.items():
            parts = [m for m in batch if m.place[0] == table.topic]
            if parts and name in self._columns:
                read[name] = self._rows(name, table, parts)
        self._behind = max(0, self._behind - sum(ends[p] - starts[p] for p in ends))
        return read

    def _messages(self, ranges: Mapping[Place, tuple[int, int]]) -> list[Messages]:
        from substrait_agg.connect.kafka.consumer import OutOfRangeError

        try:
            batch = self._cluster.read(ranges)
        except OutOfRangeError as error:
            starts = {place: start for place, (start, _) in ranges.items()}
            self._check_kept(starts)
            raise self._refuse_recreated(
                "a topic no longer has the offsets that were read"
            ) from error
        parts = [part for _, part in sorted(batch.items()) if part.offsets]
        count = sum(len(part.offsets) for part in parts)
        if count:
            size = sum(len(text or b"") for part in parts for text in (*part.keys, *part.values))
            self._message_bytes = max(1.0, size / count)
        return parts

    def _rows(self, name: str, table: TopicTable, parts: Sequence[Messages]) -> pa.Table:
        from substrait_agg.connect.kafka.values import rows_of

        rows = pa.concat_tables([rows_of(table, part) for part in parts])
        return rows.select([*self._columns[name], WEIGHT])

    def committed(self, position: str) -> None:
        """Do nothing: Kafka keeps messages by the settings of a topic."""

    def lag(self) -> Mapping[str, float]:
        """Return the messages that the topics have and that were not read, as of the last look."""
        return {"messages": float(self._behind)}

    def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            self._opened.close()
        self._opened = None


def _open(options: Mapping[str, str], place: str) -> Cluster:
    # The module imports an optional package.
    from substrait_agg.connect.kafka.consumer import Cluster

    return Cluster(options, place)
