"""Read ranges of offsets of partitions, whatever gaps they have."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from substrait_agg.errors import InputRefused, RunFailed, SubstraitAggError, UsageError
from substrait_agg.redaction import clean, safe_cause

Place = tuple[str, int]
"""Topic and partition."""

REPLY_SECONDS = 30.0
ID_SECONDS = 3.0
"""How long a server is given to say the ids of topics, which only newer ones can."""

SILENCE_SECONDS = 60.0
"""After as long without a message or an end of a partition, the server counts as not reachable."""

MOST_AHEAD = 200_000
"""Messages after the end of a range that are kept for the next one."""

AT_ONCE = 10_000

_FORBIDDEN = (
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)  # fmt: skip
_OUT_OF_RANGE = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)
_LOST = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE, KafkaError.REQUEST_TIMED_OUT)  # fmt: skip


@dataclass(slots=True)
class Messages:
    """Messages of a partition in the order of their offsets."""

    place: Place
    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)

    def add(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Add a message."""
        self.offsets.append(offset)
        self.keys.append(key)
        self.values.append(value)

    def divide(self, offset: int) -> tuple[Messages, Messages]:
        """Return the messages before an offset, and the others."""
        at = bisect_left(self.offsets, offset)
        first = Messages(self.place, self.offsets[:at], self.keys[:at], self.values[:at])
        return first, Messages(self.place, self.offsets[at:], self.keys[at:], self.values[at:])


@dataclass(slots=True)
class PartitionState:
    """What has come of a partition: every message of ``begin`` and later ones before ``next``."""

    begin: int
    next: int
    messages: Messages


def failure(error: KafkaError, place: str) -> SubstraitAggError:
    """Return an error of the client in our words."""
    reason = clean(error.str())
    code = error.code()
    if code in _FORBIDDEN:
        help = "correct user and password, or allow the user to read and describe the topic"
        return InputRefused("SOURCE_NOT_PERMITTED", f"Kafka refuses access: {reason}", help=help, path=place)  # fmt: skip
    if code in _UNKNOWN:
        help = "check the name; the topic must exist before the run"
        return InputRefused("SOURCE_NOT_FOUND", f"there is no such topic: {reason}", help=help, path=place)  # fmt: skip
    if code in _LOST:
        help = "start the server, or correct kafka.bootstrap.servers; then run again"
        return RunFailed("SOURCE_NOT_REACHABLE", f"Kafka does not answer: {reason}", help=help, path=place)  # fmt: skip
    if code == KafkaError._INVALID_ARG:
        help = "see the list of the configuration properties of librdkafka"
        return UsageError("SPEC_OPTION_BAD", f"librdkafka refuses an option: {reason}", help=help, path=place)  # fmt: skip
    help = "see the message, which is that of librdkafka"
    return RunFailed("SOURCE_QUERY_FAILED", f"Kafka has refused a request: {reason}", help=help, path=place)  # fmt: skip


@contextmanager
def translate_errors(place: str) -> Iterator[None]:
    """Turn errors of the client into ours."""
    try:
        yield
    except KafkaException as error:
        raise failure(error.args[0], place) from safe_cause(error)
    except TimeoutError as error:
        raise failure(KafkaError(KafkaError._TIMED_OUT, "timed out"), place) from safe_cause(error)


class OutOfRangeError(Exception):
    """A partition does not have the offset from which it is to be read."""


class Cluster:
    """Questions about topics, and their messages.

    Args:
        options: for librdkafka.
        place: the servers, for messages.
        client: the consumer; None to open one.
        silence: seconds without a message after which a read fails.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        place: str,
        client: Any = None,
        silence: float = SILENCE_SECONDS,
    ) -> None:
        self._place = place
        self._silence = silence
        self._says_ids = True
        self._trouble: KafkaError | None = None
        self._held: dict[Place, PartitionState] = {}
        self._assigned: frozenset[Place] = frozenset()
        quiet: dict[str, Any] = {"log_level": 0, "error_cb": self._note}
        settings: dict[str, Any] = {
            "group.id": "substrait-agg", "fetch.wait.max.ms": 100, **options, **quiet,
            "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }  # fmt: skip
        with translate_errors(place):
            self._client = Consumer(settings) if client is None else client
            self._admin: Any = AdminClient({**options, **quiet}) if client is None else None

    def _note(self, error: KafkaError) -> None:
        self._trouble = error

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _refuse_lost(self) -> SubstraitAggError:
        reason = KafkaError(KafkaError._TIMED_OUT, f"no message for {self._silence:g} seconds")
        return failure(self._trouble or reason, self._place)

    # --- questions -------------------------------------------------------------------------------

    def topics(self, names: Collection[str]) -> dict[str, tuple[str, list[int]]]:
        """Return the id of each topic, empty if the server does not say it, and its partitions.

        Raises:
            InputRefused: SOURCE_NOT_FOUND, SOURCE_NOT_PERMITTED.
            RunFailed: SOURCE_NOT_REACHABLE, SOURCE_QUERY_FAILED.
        """
        answers: dict[str, tuple[str, list[int]]] = {}
        with translate_errors(self._place):
            for name in names:
                metadata = self._client.list_topics(name, timeout=REPLY_SECONDS)
                topic = metadata.topics[name]
                if topic.error is not None:
                    raise failure(topic.error, f"{self._place}/{name}")
                answers[name] = ("", sorted(topic.partitions))
        if self._admin is None or not self._says_ids:
            return answers
        ids = self._ids(names)
        return {name: (ids.get(name, ""), partitions) for name, (_, partitions) in answers.items()}

    def _ids(self, names: Collection[str]) -> dict[str, str]:
        """Return the ids of topics; a server that has not said them once is not requests again."""
        names_asked = TopicCollection(list(names))
        requests = self._admin.describe_topics(names_asked, request_timeout=ID_SECONDS)
        answers = {}
        for name, answer in requests.items():
            try:
                id_ = str(answer.result(ID_SECONDS).topic_id)
            except (KafkaException, TimeoutError):
                self._says_ids = False
                return {}
            answers[name] = "" if set(id_) <= set("A=") else id_
        return answers

    def bounds(self, places: Collection[Place], *, first: bool) -> dict[Place, int]:
        """Return the first offset of each partition, or the one after its last committed message.

        Raises:
            RunFailed: SOURCE_NOT_REACHABLE, SOURCE_QUERY_FAILED.
        """
        spec = OffsetSpec.earliest() if first else OffsetSpec.latest()  # type: ignore[no-untyped-call]
        if self._admin is None or not places:
            marks = {place: self._client.get_watermark_offsets(TopicPartition(*place)) for place in places}  # fmt: skip
            return {place: mark[0] if first else mark[1] for place, mark in marks.items()}
        with translate_errors(self._place):
            requests = self._admin.list_offsets(
                {TopicPartition(*place): spec for place in places},
                isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=REPLY_SECONDS,
            )  # fmt: skip
            return {
                (partition.topic, partition.partition): answer.result(REPLY_SECONDS).offset
                for partition, answer in requests.items()
            }

    # --- messages --------------------------------------------------------------------------------

    def read(self, ranges: Mapping[Place, tuple[int, int]]) -> dict[Place, Messages]:
        """Return the messages from each first offset until before the last one.

        A partition is at its end as soon as a message or the end of the partition shows that nothing
        before the last offset follows. Compaction, aborted transactions and control records leave
        offsets without messages. Silence is never an end.

        Raises:
            OutOfRangeError: a partition does not have its first offset.
            RunFailed: SOURCE_NOT_REACHABLE, SOURCE_QUERY_FAILED.
        """
        spans = {place: pair for place, pair in ranges.items() if pair[0] < pair[1]}
        self._go_to({place: start for place, (start, _) in spans.items()})
        waiting = {p for p, (_, end) in spans.items() if self._held[p].next < end}
        last_sign, ahead = time.monotonic(), 0
        while waiting:
            come = self._come()
            if come:
                last_sign = time.monotonic()
            elif time.monotonic() - last_sign > self._silence:
                raise self._refuse_lost()
            ahead += self._take(come, waiting)
            waiting = {p for p in waiting if self._held[p].next < spans[p][1]}
            if ahead > MOST_AHEAD and waiting:
                self._assign(waiting)
                ahead = 0
        return {place: self._give(place, end) for place, (_, end) in spans.items()}

    def _go_to(self, starts: Mapping[Place, int]) -> None:
        """Let the client read on, or from other offsets if it is not there."""
        differs = False
        for place, start in starts.items():
            state = self._held.get(place)
            if state is None or state.begin != start:
                self._held[place] = PartitionState(start, start, Messages(place))
                differs = True
        if differs or not self._assigned >= starts.keys():
            self._assign(self._held)

    def _assign(self, places: Collection[Place]) -> None:
        """Let the client read these partitions and no others, each from where it was."""
        self._assigned = frozenset(places)
        with translate_errors(self._place):
            self._client.assign([TopicPartition(*p, self._held[p].next) for p in self._assigned])

    def _come(self) -> Sequence[Any]:
        """Return the messages that have come; wait a little if there are none."""
        with translate_errors(self._place):
            first = self._client.poll(0.2)
            return [] if first is None else [first, *self._client.consume(AT_ONCE, 0)]

    def _take(self, come: Sequence[Any], waiting: Collection[Place]) -> int:
        """Keep messages, and return the number of those of partitions that nothing waits for."""
        ahead = 0
        for message in come:
            place, error = (message.topic(), message.partition()), message.error()
            state = self._held.get(place)
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                self._refuse(error)
                continue
            if state is None:
                continue
            offset = message.offset()
            if error is not None:
                state.next = max(state.next, offset)
            elif offset >= state.next:
                state.messages.add(offset, message.key(), message.value())
                state.next = offset + 1
                ahead += place not in waiting
        return ahead

    def _refuse(self, error: KafkaError) -> None:
        """Raise the error of a partition, unless the client tries again by itself."""
        if error.code() in _OUT_OF_RANGE:
            self._held.clear()
            raise OutOfRangeError(error.str())
        if error.code() in _LOST:
            self._trouble = error
            return
        self._held.clear()
        raise failure(error, self._place)

    def _give(self, place: Place, end: int) -> Messages:
        state = self._held[place]
        answers, ahead = state.messages.divide(end)
        self._held[place] = PartitionState(end, state.next, ahead)
        return answers
