"""Parse the targets of outputs with options of clients: ``FORMAT:LOCATION[?key=value&...]`` of Spark, and topics of Kafka."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from substrait_agg.errors import UsageError
from substrait_agg.redaction import redacted_options, redacted_place, remember

_FORMAT = re.compile(r"([A-Za-z][A-Za-z0-9_.+-]*):(?!//)(.*)", re.S)
_HELP = "write spark=FORMAT:LOCATION?key=value, such as spark=parquet:out/ or spark=kafka:topic?kafka.bootstrap.servers=..."

TABLE, KAFKA, DELTA = "table", "kafka", "delta"
FOLDERS = frozenset({"parquet", "orc", "json", "csv", "avro", "text", "xml", DELTA})
"""Formats whose location is the path of a folder."""
NEEDS_LOCATION = FOLDERS | {TABLE}
"""Formats that need a path or a table; others may work without."""


@dataclass(frozen=True, slots=True)
class SparkTarget:
    """The arguments of a Spark DataFrameWriter.

    Attributes:
        format: Spark's name of the format, or ``table``.
        location: path, table or topic; may be empty for formats that need none.
        options: further options, as written.
    """

    format: str
    location: str = field(repr=False)
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def local_path(self) -> Path | None:
        """Return the path of a folder of files, without a scheme; None for any other target."""
        if self.format not in FOLDERS or "://" in self.location:
            return None
        return Path(self.location.removeprefix("file:"))

    @property
    def identity(self) -> str:
        """Return a text that does not change with options such as a password; a path is absolute."""
        location = self.location if self.local_path is None else self.local_path.absolute()
        return redacted_place(f"{self.format}:{location}")

    def __str__(self) -> str:
        options = redacted_options(self.options)
        place = redacted_place(f"{self.format}:{self.location}")
        return place + (f"?{options}" if options else "")


def parse_target(text: str) -> SparkTarget:
    """Parse ``FORMAT:LOCATION[?key=value&...]``; keys and values are percent-decoded.

    >>> parse_target("parquet:out/?compression=zstd").options
    (('compression', 'zstd'),)

    Raises:
        UsageError: OPTION_INVALID; messages do not quote options.
    """
    path, _, query = text.partition("?")
    match = _FORMAT.fullmatch(path)
    if match is None:
        raise bad_target(f"{redacted_place(path)!r} has no format", _HELP)
    name, location = match.groups()
    format_ = name if "." in name else name.lower()
    if format_ in NEEDS_LOCATION and not location:
        raise bad_target(f"format {format_} needs a location", f"write spark={format_}:LOCATION")
    remember([("", location)])
    return SparkTarget(format_, location, parse_options(query))


def parse_options(query: str, output: str = "spark") -> tuple[tuple[str, str], ...]:
    """Parse ``key=value&...``; keys and values are percent-decoded, and secrets are remembered.

    Raises:
        UsageError: OPTION_INVALID; messages do not quote options.
    """
    pairs: dict[str, str] = {}
    for number, part in enumerate(query.split("&") if query else (), 1):
        raw_key, equals, raw_value = part.partition("=")
        key = unquote(raw_key)
        if not key or not equals:
            help = "write ?key=value&key=value, and encode & and = in values as %26 and %3D"
            raise bad_target(f"option {number} is not key=value", help, output)
        if key in pairs:
            raise bad_target(f"option {key} is given twice", "give it once", output)
        pairs[key] = unquote(raw_value)
    remember(pairs.items())
    return tuple(pairs.items())


def bad_target(message: str, help: str, output: str = "spark") -> UsageError:
    """Return the error for the target of an output."""
    return UsageError("OPTION_INVALID", f"output {output}: {message}", help=help, path="--output")


# --- topics of Kafka ----------------------------------------------------------------------------

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
