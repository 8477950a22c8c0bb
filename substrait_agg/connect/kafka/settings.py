"""What the SPEC of a topic says: columns, keys, how values are read, and how to connect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from substrait_agg.connect.kafka.columns import ColumnsError, parts, read_columns
from substrait_agg.connect.protocol import TableSource
from substrait_agg.errors import UsageError
from substrait_agg.redaction import remember

PREFIX = "kafka."
"""Begins the options that go to librdkafka."""

SERVERS = "bootstrap.servers"
STARTS = ("earliest", "latest")
_SET_HERE = ("enable.auto.commit", "auto.offset.reset", "enable.partition.eof", "isolation.level")
_OF_JAVA: Mapping[str, str] = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location, a file in PEM",
    "ssl.truststore.password": "ssl.ca.location, a file in PEM",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.truststore.type": "ssl.ca.location, a file in PEM",
    "ssl.keystore.type": "ssl.keystore.location, a file in PKCS#12",
}
"""Option of Kafka's Java client -> what librdkafka has instead."""


@dataclass(frozen=True, slots=True)
class TopicTable:
    """A table that is a topic.

    Attributes:
        topic: its name.
        schema: the columns.
        keys: the columns that identify a row; empty if every message adds rows.
        is_debezium: whether a message is a change event of Debezium instead of a row.
    """

    topic: str
    schema: pa.Schema
    keys: tuple[str, ...]
    is_debezium: bool


def read_settings(source: TableSource) -> TopicTable:
    """Return what the SPEC of a table says.

    Raises:
        UsageError: SPEC_OPTION_BAD.
    """
    options = source.options
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", source.location):
        raise _bad(source, "the name of the topic is not valid", "write kafka:TOPIC")
    cdc, value = options.get("cdc", ""), options.get("value", "json")
    if cdc not in ("", "debezium"):
        raise _bad(source, f"cdc={cdc} is not known", "write cdc=debezium")
    if value != "json":
        raise _bad(source, f"value={value} is not known", "write value=json; Avro is not supported")
    try:
        schema = read_columns(options.get("columns", ""))
    except ColumnsError as error:
        raise _bad(source, f"columns= {error}", error.help) from None
    keys = tuple(part.strip() for part in options.get("key", "").split(",") if part.strip())
    unknown = [key for key in keys if key not in schema.names]
    if unknown or len(set(keys)) != len(keys):
        message = f"key= names {', '.join(unknown or keys)}, which are not different columns"
        raise _bad(source, message, f"the columns are {', '.join(schema.names)}")
    nested = [key for key in keys if pa.types.is_nested(schema.field(key).type)]
    if nested:
        message = f"key= names {nested[0]}, which is a list or a struct"
        raise _bad(source, message, "name columns of plain types")
    if cdc:
        _check_events(source, schema)
    return TopicTable(source.location, schema, keys, bool(cdc))


def _check_events(source: TableSource, schema: pa.Schema) -> None:
    """Refuse types that change events encode in several ways, also inside of others."""
    for field in schema:
        if any(pa.types.is_timestamp(t) or pa.types.is_decimal(t) for t in parts(field.type)):
            message = f"the column {field.name} of type {field.type} has no single form in events of Debezium"
            help = "declare it as bigint or string, as the connector of Debezium writes it; or give reader=spark"
            raise _bad(source, message, help)


def read_start(source: TableSource) -> str:
    """Return where the first version begins to read: ``earliest`` or ``latest``.

    Raises:
        UsageError: SPEC_OPTION_BAD.
    """
    named = {key.lower(): value for key, value in source.options.items()}
    start = named.get("startingoffsets", STARTS[0]).lower()
    if start not in STARTS:
        message = "startingOffsets is neither earliest nor latest"
        raise _bad(source, message, "write one of them; reader=spark takes offsets as well")
    return start


def client_options(options: Mapping[str, str], place: str) -> dict[str, str]:
    """Return the options for librdkafka, without their prefix.

    Raises:
        UsageError: SPEC_OPTION_BAD, SPEC_OPTION_UNKNOWN.
    """
    remember(options.items())
    client = {k.removeprefix(PREFIX): v for k, v in options.items() if k.startswith(PREFIX)}
    if not client.get(SERVERS):
        help = f"add {PREFIX}{SERVERS}=HOST:PORT[,HOST:PORT]"
        raise UsageError("SPEC_OPTION_BAD", "no server of Kafka is given", help=help, path=place)
    for name in client:
        if name in _OF_JAVA:
            message = f"{PREFIX}{name} is an option of the Java client only"
            help = f"use {PREFIX}{_OF_JAVA[name]}; or give reader=spark"
            raise UsageError("SPEC_OPTION_UNKNOWN", message, help=help, path=place)
        if name in _SET_HERE:
            message = f"{PREFIX}{name} cannot be given: exactly one value of it is correct"
            raise UsageError("SPEC_OPTION_BAD", message, help="remove it", path=place)
    return client


def _bad(source: TableSource, message: str, help: str) -> UsageError:
    return UsageError("SPEC_OPTION_BAD", message, help=help, path=source.table)
