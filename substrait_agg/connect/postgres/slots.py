"""Replication slots: create, check and drop them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep

import psycopg2
from psycopg2 import errors

from substrait_agg.connect.postgres.connection import (
    Address,
    Catalogue,
    connect,
    has_stopped,
    to_error,
)
from substrait_agg.connect.postgres.identity import RELOAD
from substrait_agg.connect.postgres.position import Position, read_lsn
from substrait_agg.errors import InputRefused, SubstraitAggError

CREATE_SECONDS = 60
"""How long to wait for transactions that are open when a slot is made."""

IN_USE_SECONDS = 10
"""How long to wait for the server to notice that an earlier reader of a slot has ended."""

_SLOT = """
SELECT plugin, database = current_database(), active_pid, confirmed_flush_lsn::text, wal_status
FROM pg_replication_slots WHERE slot_name = %s
"""

_OLDEST = """
SELECT pid, left(query, 60), extract(epoch FROM now() - xact_start)::int
FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
ORDER BY xact_start LIMIT 1
"""


def slot_name(checkpoint: str) -> str:
    """Return the name of the slot of a checkpoint.

    >>> slot_name("4F-a1")
    'substrait_agg_4f_a1'
    """
    return f"substrait_agg_{re.sub('[^a-z0-9_]', '_', checkpoint.lower())}"[:63]


def create_slot(catalogue: Catalogue, name: str, *, keep: bool) -> int:
    """Create a slot for a checkpoint that has no version, and return the LSN from which it streams.

    Args:
        catalogue: of the database.
        name: of the slot.
        keep: use the slot if there is one; otherwise it is left from a run that committed nothing,
            and made again.

    Raises:
        InputRefused: SLOT_NOT_CREATED, SLOT_IN_USE, SOURCE_NOT_PERMITTED.
        RunFailed: SOURCE_NOT_REACHABLE.
    """
    row = catalogue.row(_SLOT, (name,))
    if row is not None and keep:
        _check_kind(name, row[0], row[1])
        return read_lsn(row[3])
    if row is not None:
        wait_for_slot(name, lambda: _drop(catalogue.address, name))
    connection = connect(catalogue.address)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = %s", (f"{CREATE_SECONDS}s",))
            cursor.execute(
                "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (name,)
            )
            return read_lsn(cursor.fetchone()[0])
    except psycopg2.Error as error:
        raise _not_created(catalogue, name, error) from None
    finally:
        connection.close()


def _drop(address: Address, name: str) -> None:
    connection = connect(address)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_drop_replication_slot(%s)", (name,))
    finally:
        connection.close()


def _not_created(catalogue: Catalogue, name: str, error: psycopg2.Error) -> SubstraitAggError:
    if isinstance(error, errors.InsufficientPrivilege) or has_stopped(error):
        return to_error(error, catalogue.address)
    message = f"the slot {name} was not created: {' '.join(str(error).split())}"
    help_ = "drop unused slots, or raise max_replication_slots; then run again"
    if isinstance(error, errors.QueryCanceled):
        help_ = "a slot waits for all open transactions: end them, then run again"
        oldest = catalogue.row(_OLDEST)
        if oldest is not None:
            help_ = (
                f"{help_}; the oldest is process {oldest[0]}, open for {oldest[2]} s: {oldest[1]}"
            )
    return InputRefused("SLOT_NOT_CREATED", message, help=help_)


def check_slot(catalogue: Catalogue, name: str, position: Position) -> None:
    """Check that a slot has everything after a position.

    Raises:
        InputRefused: SLOT_LOST, SOURCE_POSITION_GONE.
    """
    row = catalogue.row(_SLOT, (name,))
    if row is None:
        message = f"the slot {name} does not exist in {catalogue.address.name}"
        raise InputRefused("SLOT_LOST", message, help=RELOAD)
    plugin, here, _, confirmed, status = row
    _check_kind(name, plugin, here)
    if status == "lost":
        message = f"the server has removed WAL that the slot {name} needs (max_slot_wal_keep_size)"
        raise InputRefused("SLOT_LOST", message, help=RELOAD)
    if read_lsn(confirmed) > position.commit:
        message = f"the slot {name} has given up changes after the version of this checkpoint"
        help_ = f"continue the checkpoint that has used the slot since, or {RELOAD}"
        raise InputRefused("SOURCE_POSITION_GONE", message, help=help_)


def _check_kind(name: str, plugin: str, here: bool) -> None:
    if plugin != "pgoutput" or not here:
        message = f"the slot {name} is of another database, or not of the plugin pgoutput"
        raise InputRefused("SLOT_LOST", message, help="give slot= another name")


def wait_for_slot(name: str, use: Callable[[], None]) -> None:
    """Call a function until no other process uses a slot.

    Raises:
        InputRefused: SLOT_IN_USE.
    """
    end = monotonic() + IN_USE_SECONDS
    while True:
        with _as_lost(name):
            try:
                return use()
            except errors.ObjectInUse:
                if monotonic() > end:
                    message = f"another process reads from the slot {name}"
                    help_ = "end the other run of this checkpoint, then run again"
                    raise InputRefused("SLOT_IN_USE", message, help=help_) from None
        sleep(0.2)


@contextmanager
def _as_lost(name: str) -> Iterator[None]:
    """Raise errors of a slot that is gone, or that has lost its WAL, as SLOT_LOST."""
    try:
        yield
    except (errors.ObjectNotInPrerequisiteState, errors.UndefinedObject) as error:
        message = f"the slot {name} cannot be read: {' '.join(str(error).split())}"
        raise InputRefused("SLOT_LOST", message, help=RELOAD) from None
