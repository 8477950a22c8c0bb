"""A connection to PostgreSQL that lasts as long as it works, and the errors of its server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import psycopg2
from psycopg2.extensions import parse_dsn

from substrait_agg.errors import RunFailed, StateRefused, SubstraitAggError, UsageError
from substrait_agg.redaction import clean, remember, safe_cause

CONNECT_SECONDS = 10
SETTINGS = (
    "SET client_encoding = 'UTF8'; SET lock_timeout = '30s'; SET idle_in_transaction_session_timeout = '60s'; "
    "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"
)
"""A server that has lost its client gives up its locks soon, so that the next run does not wait long."""

_TEMPORARY = frozenset({"08", "25", "40", "53", "55", "57", "58"})
"""Classes of SQLSTATE: connections, standby servers, conflicts, resources, locks, shutdowns, disks."""


class Session:
    """A connection, opened at its first use and again after every error.

    Args:
        arguments: keyword arguments of `psycopg2.connect`.

    Attributes:
        prepared: what the user of the session has prepared on the connection; None on a new one.
    """

    def __init__(self, arguments: Mapping[str, str]) -> None:
        remember([("password", os.environ.get("PGPASSWORD", ""))])
        remember([("password", parts(arguments).get("password", ""))])
        self.prepared: Any = None
        self._arguments = dict(arguments)
        self._connection: Any = None

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Give a cursor whose work is committed at the end, or rolled back by an exception.

        Raises:
            RunFailed: OUTPUT_NOT_REACHABLE: it may work later.
            StateRefused: OUTPUT_NOT_WRITTEN: the server refuses it for good.
        """
        try:
            connection = self._open()
            with connection.cursor() as cursor:
                yield cursor
            connection.commit()
        except psycopg2.Error as error:
            self.close()
            raise failure(error) from safe_cause(error)
        except BaseException:
            self.close()
            raise

    def _open(self) -> Any:
        if self._connection is None:
            self._connection = psycopg2.connect(
                **self._arguments,
                connect_timeout=CONNECT_SECONDS,
                fallback_application_name="substrait-agg",
            )
            with self._connection.cursor() as cursor:
                cursor.execute(SETTINGS)
            self._connection.commit()
        return self._connection

    def close(self) -> None:
        """Close the connection; the server rolls back what was not committed."""
        connection, self._connection, self.prepared = self._connection, None, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


def parts(arguments: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a connection string; none if there is no string.

    Raises:
        UsageError: OPTION_INVALID; the message does not quote the string.
    """
    try:
        return dict(parse_dsn(arguments["dsn"])) if "dsn" in arguments else {}
    except psycopg2.ProgrammingError:
        raise UsageError(
            "OPTION_INVALID",
            "output postgres: the value of dsn is not a connection string of PostgreSQL",
            help="write dsn=postgresql://USER@HOST/DATABASE, and encode & = and % as %26, %3D and %25",
            path="--output",
        ) from None


def failure(error: Any) -> SubstraitAggError:
    """Return the error for an exception of psycopg2."""
    state = error.pgcode or ""
    lines = clean(str(error)).strip().splitlines() or [type(error).__name__]
    message = f"PostgreSQL: {lines[0].strip()}"
    lost = not state and isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError)
    if lost or state[:2] in _TEMPORARY:
        help = "check the server and the connection; delivery continues with this version"
        return RunFailed("OUTPUT_NOT_REACHABLE", message, help=help)
    help = "correct the table, its rights or the values, then run again: delivery continues with this version"
    return StateRefused(
        "OUTPUT_NOT_WRITTEN", f"{message} ({state})" if state else message, help=help
    )
