"""Parse the target of an output ``kafka-upserts=TOPIC?kafka.bootstrap.servers=...``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from substrait_agg.changes.outputs.spark_target import bad_target, parse_options
from substrait_agg.redaction import redacted_options

KIND = "kafka-upserts"
PREFIX = "kafka."
SERVERS = "bootstrap.servers"
_HELP = f"write {KIND}=TOPIC?kafka.bootstrap.servers=HOST:PORT"
_SET_HERE = ("transactional.id", "enable.idempotence", "acks")


@dataclass(frozen=True, slots=True)
class KafkaTarget:
    """A topic and how to connect.

    Attributes:
        topic: its name.
        options: options of librdkafka with the prefix ``kafka.``; passwords may be among them.
    """

    topic: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def client(self) -> dict[str, str]:
        """Return the options for librdkafka."""
        return {key.removeprefix(PREFIX): value for key, value in self.options}

    @property
    def identity(self) -> str:
        """Return a text that stays the same if other options than the servers change."""
        servers = sorted(part.strip() for part in self.client[SERVERS].split(","))
        return f"{self.topic}?{PREFIX}{SERVERS}={','.join(servers)}"

    def __str__(self) -> str:
        return f"{self.topic}?{redacted_options(self.options)}"


def parse_kafka(text: str) -> KafkaTarget:
    """Parse ``TOPIC?kafka.bootstrap.servers=...``; keys and values are percent-decoded.

    >>> parse_kafka("totals?kafka.bootstrap.servers=b:9092").topic
    'totals'

    Raises:
        UsageError: OPTION_INVALID; messages do not quote values.
    """
    topic, _, query = text.partition("?")
    options = parse_options(query, KIND)
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic):
        raise bad_target("it needs the name of a topic", _HELP, KIND)
    for key, _value in options:
        if not key.startswith(PREFIX):
            raise bad_target(f"option {key} is not known", "options begin with kafka.", KIND)
        if key.removeprefix(PREFIX) in _SET_HERE:
            raise bad_target(f"option {key} cannot be given", "remove it", KIND)
    if not dict(options).get(PREFIX + SERVERS):
        raise bad_target("no server is given", _HELP, KIND)
    return KafkaTarget(topic, options)
