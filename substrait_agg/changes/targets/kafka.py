"""Parse the target of an output ``kafka-upserts=TOPIC?kafka.bootstrap.servers=...``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from substrait_agg.changes.targets.options import bad_target, parse_options
from substrait_agg.redaction import redacted_options

UPSERTS = "kafka-upserts"
CLIENT_PREFIX = "kafka."
SERVERS = "bootstrap.servers"
_UPSERTS_HELP = f"write {UPSERTS}=TOPIC?kafka.bootstrap.servers=HOST:PORT"
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
        return {key.removeprefix(CLIENT_PREFIX): value for key, value in self.options}

    @property
    def identity(self) -> str:
        """Return a text that stays the same if other options than the servers change."""
        servers = sorted(part.strip() for part in self.client[SERVERS].split(","))
        return f"{self.topic}?{CLIENT_PREFIX}{SERVERS}={','.join(servers)}"

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
    options = parse_options(query, UPSERTS)
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic):
        raise bad_target("it needs the name of a topic", _UPSERTS_HELP, UPSERTS)
    for key, _value in options:
        if not key.startswith(CLIENT_PREFIX):
            raise bad_target(f"option {key} is not known", "options begin with kafka.", UPSERTS)
        if key.removeprefix(CLIENT_PREFIX) in _SET_HERE:
            raise bad_target(f"option {key} cannot be given", "remove it", UPSERTS)
    if not dict(options).get(CLIENT_PREFIX + SERVERS):
        raise bad_target("no server is given", _UPSERTS_HELP, UPSERTS)
    return KafkaTarget(topic, options)
