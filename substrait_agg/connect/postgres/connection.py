"""Connections to a database, and its errors in our words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, TypeVar, cast

import psycopg2
from psycopg2 import errors, extensions, extras

from substrait_agg.connect.postgres.types import SESSION
from substrait_agg.connect.protocol import TableSource
from substrait_agg.errors import InputRefused, RunFailed, SubstraitAggError, UsageError
from substrait_agg.redaction import clean, remember

Row = tuple[Any, ...]
Result = TypeVar("Result")
NAMED = ("service", "hostaddr", "host", "port", "dbname")
"""Parts of a connection string that name the database; neither user nor password is among them."""

OLDEST = 150000
CONNECT_SECONDS = 10
RECONNECT_SECONDS = 60
"""How long to try again after a connection of a run has ended."""

RETRY_SECONDS = 0.2
LOST = (psycopg2.OperationalError, psycopg2.InterfaceError)
"""What psycopg2 raises if a connection ends, or cannot be made."""


@dataclass(frozen=True, slots=True)
class Address:
    """How to reach a database.

    Attributes:
        dsn: the connection string, which may contain a password.
        name: the database without user and password, for messages and as the name of a group.
    """

    dsn: str
    name: str


def read_address(source: TableSource) -> Address:
    """Return the address in the options of a table: ``dsn``, ``service``, or libpq's own variables.

    Raises:
        UsageError: OPTION_CONFLICT, OPTION_INVALID.
    """
    options = source.options
    if "dsn" in options and "service" in options:
        message = f"the source of {source.table} has both dsn= and service="
        raise UsageError("OPTION_CONFLICT", message, help="remove one of them")
    remember(options.items())
    parts = {"service": options["service"]} if "service" in options else {}
    try:
        parts |= extensions.parse_dsn(options.get("dsn", ""))
    except psycopg2.ProgrammingError:
        message = f"dsn= of {source.table} is not a connection string"
        help_ = "write postgresql://user@host:port/database or host=... dbname=..., percent-encoded"
        raise UsageError("OPTION_INVALID", message, help=help_) from None
    remember((key, value) for key, value in parts.items())
    name = " ".join(f"{key}={parts[key]}" for key in NAMED if key in parts)
    return Address(extensions.make_dsn(**parts), name or "default")


def connect(address: Address) -> Any:
    """Open a connection on which each statement is its own transaction.

    Raises:
        RunFailed: SOURCE_NOT_REACHABLE.
        InputRefused: SERVER_TOO_OLD.
    """
    with translate_errors(address):
        connection = psycopg2.connect(_with_settings(address.dsn))
    connection.autocommit = True
    if connection.server_version < OLDEST:
        connection.close()
        message = f"the server of {address.name} is older than PostgreSQL {OLDEST // 10000}"
        help_ = f"use PostgreSQL {OLDEST // 10000} or newer"
        raise InputRefused("SERVER_TOO_OLD", message, help=help_)
    return connection


def connect_walsender(address: Address) -> Any:
    """Open a connection for logical replication; it raises the errors of psycopg2."""
    dsn = _with_settings(address.dsn)
    return psycopg2.connect(dsn, connection_factory=extras.LogicalReplicationConnection)


def _with_settings(dsn: str) -> str:
    parts = extensions.parse_dsn(dsn)
    settings = (*SESSION, ("row_security", "off"))
    options = " ".join(f"-c {key}={value}" for key, value in settings)
    parts["options"] = f"{parts.get('options', '')} {options}".strip()
    parts.setdefault("connect_timeout", str(CONNECT_SECONDS))
    parts.setdefault("application_name", "substrait-agg")
    return str(extensions.make_dsn(**parts, client_encoding="UTF8"))


class Catalogue:
    """A connection for queries of the catalogue, which is made again if the server restarted."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connection: Any = None

    def query(self, text: str, values: Mapping[str, object] | Sequence[object] = ()) -> list[Row]:
        """Return the rows of a query.

        Raises:
            RunFailed, InputRefused: SOURCE_NOT_REACHABLE, SOURCE_NOT_PERMITTED, SOURCE_UNREADABLE.
        """
        with translate_errors(self.address):
            try:
                return self._query(text, values)
            except LOST:
                self.close()
            return self._query(text, values)

    def row(self, text: str, values: Mapping[str, object] | Sequence[object] = ()) -> Row | None:
        """Return the first row of a query; None without rows."""
        rows = self.query(text, values)
        return rows[0] if rows else None

    def _query(self, text: str, values: Mapping[str, object] | Sequence[object]) -> list[Row]:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self.address)
        with self._connection.cursor() as cursor:
            cursor.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []

    @property
    def socket(self) -> int:
        """The file descriptor of the open connection."""
        return cast("int", self._connection.fileno())

    def close(self) -> None:
        """Close the connection; the next query opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def retry(call: Callable[[], Result]) -> Result:
    """Call a function until the server can be reached, for `RECONNECT_SECONDS`.

    Raises:
        RunFailed: SOURCE_NOT_REACHABLE.
    """
    end = monotonic() + RECONNECT_SECONDS
    while True:
        try:
            return call()
        except RunFailed as error:
            if error.code != "SOURCE_NOT_REACHABLE" or monotonic() > end:
                raise
        sleep(RETRY_SECONDS)


def has_stopped(error: psycopg2.Error) -> bool:
    """Return whether the server has stopped, or a connection to it has ended."""
    return isinstance(error, LOST) and (error.pgcode or "57P")[:3] == "57P"


@contextmanager
def translate_errors(address: Address) -> Iterator[None]:
    """Raise errors of psycopg2 as ours."""
    try:
        yield
    except psycopg2.Error as error:
        raise to_error(error, address) from None


def to_error(error: psycopg2.Error, address: Address) -> SubstraitAggError:
    """Return an error of psycopg2 in our words."""
    text = " ".join(clean(str(error)).split())
    if isinstance(error, errors.InsufficientPrivilege):
        message = f"{address.name}: {text}"
        help_ = "grant the role REPLICATION, and SELECT on the tables that are read"
        return InputRefused("SOURCE_NOT_PERMITTED", message, help=help_)
    # A connection that ends within a stream gives an error without a class and a code.
    if isinstance(error, LOST) or (type(error) is psycopg2.DatabaseError and not error.pgcode):
        help_ = "start the server, or correct the connection and the password; then run again"
        return RunFailed("SOURCE_NOT_REACHABLE", f"{address.name}: {text}", help=help_)
    help_ = "see the message, which is PostgreSQL's own"
    return RunFailed("SOURCE_QUERY_FAILED", f"{address.name}: {text}", help=help_)
