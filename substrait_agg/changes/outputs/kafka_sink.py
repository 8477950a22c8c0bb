"""A sink that keeps the newest message of each key of a topic equal to the row of a view.

Each version is one transaction, and its messages say the version. So the last committed messages of
the topic decide whether a version has been written. The record in the checkpoint serves tools that
do not connect, and versions without messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from substrait_agg.changes.formats.encode import row_lines
from substrait_agg.changes.outputs.sinks import SinkContext, Table
from substrait_agg.changes.outputs.versioned_sink import VersionedSink, stored_view
from substrait_agg.changes.postgres.keyed import HIDDEN, VERSION, WEIGHT, key_names, no_key
from substrait_agg.changes.targets.kafka import UPSERTS, KafkaTarget
from substrait_agg.commit.documents.change_metadata import origin_of
from substrait_agg.commit.tasks.consolidate import consolidate, row_bytes
from substrait_agg.errors import RunFailed, UsageError
from substrait_agg.redaction import clean, safe_cause

SECONDS = 30.0
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_NO_TRANSACTIONS = (KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION)


@dataclass(frozen=True, slots=True)
class Written:
    """What the last messages of a topic say.

    Attributes:
        version: the newest version of this checkpoint and view; None if there is none.
        committed: when that version was committed.
        is_taken: whether the last message of a partition is of something else.
    """

    version: int | None = None
    committed: str = ""
    is_taken: bool = False


class KafkaSink(VersionedSink):
    """Writes a message per changed key: the row as JSON, or no value if the row is gone.

    Args:
        target: the topic and how to connect.
    """

    noun = "topic"

    def __init__(self, target: KafkaTarget) -> None:
        super().__init__(f"{UPSERTS}={target}", f"{UPSERTS}={target.identity}")
        self._target = target
        self._owner = ""
        self._producer: Producer | None = None
        self._is_transactional = True
        self._written = Written()
        self._failed: KafkaError | None = None

    def _read_position(self, place: SinkContext) -> int | None:
        """Return the version in the record, and check that a view has its keys.

        Raises:
            UsageError: OUTPUT_EXISTS.
            StateRefused: OUTPUT_KEY_MISSING, OUTPUT_RECORD_DAMAGED.
            RunFailed: OUTPUT_NOT_REACHABLE.
        """
        view = stored_view(place)
        if view is not None:
            _check_key(view.key_places, repeats=view.repeats)
        self._owner = f"{self._origin(place)}/{place.view}"
        if self.record.read() is None:
            try:
                written = self._read_back()
            except KafkaException as error:
                raise self._error(error, "the topic cannot be read") from safe_cause(error)
            if written.is_taken:
                message = f"the topic {self._target.topic} contains messages that this checkpoint did not write"
                help = "use another topic, or an empty one"
                raise UsageError("OUTPUT_EXISTS", message, help=help, path=self.name)
        return super()._read_position(place)

    def _deliver(self, changes: Table, version: int) -> None:
        committed = origin_of(changes).committed.get(version, "")
        keys, values = upserts(changes)
        self._open()
        written = self._written
        newest = written.version if self._is_transactional else None
        if not self._has(version, newest, committed, lambda: written.committed):
            self._write(keys, values, version, committed)

    def _open(self) -> None:
        """Open a producer. That ends what an earlier one has left, and fences it."""
        if self._producer is not None:
            return
        options = {
            "partitioner": "murmur2_random", "linger.ms": 5, **self._target.client, "log_level": 0,
            "enable.idempotence": True,
        }  # fmt: skip
        digest = hashlib.sha256(f"{self._owner}/{self._target.topic}".encode()).hexdigest()[:32]
        producer = Producer({**options, "transactional.id": f"substrait-agg-{digest}"})
        try:
            producer.init_transactions(SECONDS)
            self._is_transactional = True
        except KafkaException as error:
            if error.args[0].code() not in _NO_TRANSACTIONS:
                raise
            producer, self._is_transactional = Producer(options), False
        self._written = self._read_back()
        self._producer = producer

    def _write(self, keys: list[str], values: list[str | None], version: int, at: str) -> None:
        """Write messages and wait for them, in a transaction if the server has them."""
        producer = self._producer
        if producer is None or not keys:
            return
        headers = {"version": str(version), "checkpoint": self._owner, "committed": at}
        self._failed = None
        if self._is_transactional:
            producer.begin_transaction()
        for key, value in zip(keys, values, strict=True):
            self._put(producer, key, value, headers)
        if self._is_transactional:
            producer.commit_transaction(SECONDS)
        elif producer.flush(SECONDS):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "messages are not confirmed"))
        if self._failed is not None:
            raise KafkaException(self._failed)
        self._written = Written(version, at)

    def _put(
        self, producer: Producer, key: str, value: str | None, headers: Mapping[str, str]
    ) -> None:
        """Hand a message to the client, which has room for a limited number."""
        for _attempt in range(int(SECONDS)):
            with suppress(BufferError):
                producer.produce(
                    self._target.topic, value, key, on_delivery=self._note, headers=dict(headers)
                )
                producer.poll(0)
                return
            producer.poll(1.0)
        raise KafkaException(KafkaError(KafkaError._QUEUE_FULL, "messages are not taken"))

    def _note(self, error: KafkaError | None, _message: Any) -> None:
        self._failed = error or self._failed

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        return KafkaException, BufferError

    def _failure(self, version: int, error: Exception) -> RunFailed:
        return self._error(error, f"version {version} was not written")

    def _error(self, error: Exception, what: str) -> RunFailed:
        """Return the error of an attempt; the next one begins with a new producer, unless fenced."""
        reason = error.args[0]
        code = reason.code() if isinstance(reason, KafkaError) else None
        message = f"{what}: {clean(reason.str() if isinstance(reason, KafkaError) else str(error))}"
        if code in _FENCED:
            help = "run one process at a time on a checkpoint"
            return RunFailed("OUTPUT_VERSION_CONFLICT", message, help=help, path=self.name)
        self._producer = None
        lost = isinstance(reason, KafkaError) and (reason.retriable() or code in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT))  # fmt: skip
        name = "OUTPUT_NOT_REACHABLE" if lost else "OUTPUT_NOT_WRITTEN"
        help = "check the servers, the topic and the options; delivery is tried again"
        return RunFailed(name, message, help=help, path=self.name)

    # --- what the topic has ----------------------------------------------------------------------

    def _read_back(self) -> Written:
        """Return what the last committed message of each partition says."""
        consumer = Consumer(
            {
                "group.id": "substrait-agg", **self._target.client, "log_level": 0,
                "enable.auto.commit": False, "isolation.level": "read_committed",
                "enable.partition.eof": True, "auto.offset.reset": "earliest",
            }
        )  # fmt: skip
        try:
            metadata = consumer.list_topics(self._target.topic, timeout=SECONDS)
            topic = metadata.topics[self._target.topic]
            if topic.error is not None and topic.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise KafkaException(topic.error)
            ends = [self._last(consumer, number) for number in topic.partitions]
        finally:
            consumer.close()
        mine = [headers for headers in ends if headers and headers.get("checkpoint") == self._owner]
        newest = max(mine, key=lambda headers: int(headers["version"]), default=None)
        is_taken = len(mine) < sum(headers is not None for headers in ends)
        if newest is None:
            return Written(is_taken=is_taken)
        return Written(int(newest["version"]), newest.get("committed", ""), is_taken)

    def _last(self, consumer: Any, partition: int) -> dict[str, str] | None:
        """Return the headers of the last message of a partition; None if there is none.

        Control records take offsets, so the search goes back by ever more of them.
        """
        place = (self._target.topic, partition)
        low, high = consumer.get_watermark_offsets(TopicPartition(*place), timeout=SECONDS)
        step = 2
        while high > low:
            start = max(low, high - step)
            consumer.assign([TopicPartition(*place, start)])
            last, at = None, start
            while at < high:
                message = consumer.poll(SECONDS)
                if message is None:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no message"))
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                last = message if error is None and message.offset() < high else last
                at = message.offset() + (error is None)
            if last is not None:
                return {name: (text or b"").decode() for name, text in last.headers() or ()}
            if start == low:
                return None
            step *= 16
        return None

    def close(self) -> None:
        """Forget the producer; what was not committed is aborted by the next one."""
        self._producer = None


def _check_key(keys: object, *, repeats: bool) -> None:
    """Check that a key names one row.

    Raises:
        StateRefused: OUTPUT_KEY_MISSING.
    """
    if keys is None:
        raise no_key(HIDDEN)
    if repeats:
        raise no_key("may have several rows with the same key")


def upserts(changes: Table) -> tuple[list[str], list[str | None]]:
    """Return the key of each changed row as JSON, and the row as JSON, or None if it is gone.

    Raises:
        StateRefused: OUTPUT_KEY_MISSING.
    """
    keys, origin = key_names(changes), origin_of(changes)
    _check_key(keys, repeats=origin.repeats)
    rows = consolidate(changes.drop_columns([VERSION]).combine_chunks())
    weights = rows.column(WEIGHT).to_numpy()
    codes = np.zeros(rows.num_rows, np.int64)
    if keys and rows.num_rows:
        encoded = row_bytes(rows.select([*keys, WEIGHT])).dictionary_encode()
        codes = encoded.indices.to_numpy().astype(np.int64)
    inserted = np.bincount(codes[weights > 0], minlength=codes.max(initial=-1) + 1)
    if (np.abs(weights) > 1).any() or (inserted > 1).any():
        raise no_key("has several rows with the same key")
    last = (weights > 0) | (inserted[codes] == 0)
    last_rows = rows.filter(pa.array(last)).replace_schema_metadata(None)
    names = _lines(last_rows.select(list(keys))) if keys else ["{}"] * last_rows.num_rows
    texts = _lines(last_rows.drop_columns([WEIGHT]))
    is_gone = pc.less(last_rows.column(WEIGHT), 0).to_pylist()
    return names, [None if g else text for g, text in zip(is_gone, texts, strict=True)]


def _lines(rows: Table) -> list[str]:
    return "".join(row_lines(rows)).splitlines() if rows.num_rows else []
