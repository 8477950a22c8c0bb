"""Receive whole transactions from a walsender, in a thread of its own.

The server sends each committed transaction at once. The thread answers the server also while the
reader of the transactions is slow; otherwise the server would end the connection.
"""

from __future__ import annotations

import select
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Condition, Thread
from time import monotonic
from typing import Any
from uuid import uuid4

import psycopg2
from psycopg2 import errors

from substrait_agg.connect.postgres import connection
from substrait_agg.connect.postgres.connection import (
    RETRY_SECONDS,
    Address,
    Catalogue,
    connect_walsender,
    to_error,
)
from substrait_agg.connect.postgres.identity import RELOAD
from substrait_agg.connect.postgres.pgoutput import COMMIT, MESSAGE, RELATION
from substrait_agg.connect.postgres.position import Position
from substrait_agg.connect.postgres.slots import check_slot, wait_for_slot
from substrait_agg.errors import InputRefused, SubstraitAggError

MOST_BYTES = 256 << 20
"""Bytes of whole transactions from which on nothing more is received until some are committed."""

FEEDBACK_SECONDS = 0.1
KEEPALIVE_SECONDS = 1.0
_CHUNK = 4096
"""Messages after which the thread looks at the time."""

MARK = "substrait_agg"
"""Prefix of our own messages in the WAL."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A committed transaction.

    Attributes:
        end: LSN of the end of its commit record.
        commit: LSN of the start of its commit record.
        size: bytes of its messages.
        messages: relation messages, rows and truncations, without begin and commit.
    """

    end: int
    commit: int
    size: int
    messages: Sequence[bytes]


class Stream:
    """The transactions of a slot after a position.

    Args:
        address: of the database.
        slot: the name of the slot.
        publication: the name of the publication.
        position: only transactions after it are returned.
    """

    def __init__(self, address: Address, slot: str, publication: str, position: Position) -> None:
        self._address = address
        self._slot = slot
        self._publication = publication
        self._position = position
        self._catalogue = Catalogue(address)
        self._changed = Condition()
        self._transactions: list[Transaction] = []
        self._size = 0
        self._empty: Transaction | None = None
        self._received = position.end
        self._relations: list[bytes] = []
        self._messages: list[bytes] = []
        self._mark = b""
        self._marked = False
        self._alive = 0.0
        self._caught_up = False
        self._error: SubstraitAggError | None = None
        self._ends = False
        self._server_end = 0
        self._thread: Thread | None = None
        self._walsender: Any = None

    def start(self) -> None:
        """Connect, and begin to receive.

        Raises:
            InputRefused: SLOT_IN_USE, SLOT_LOST, SOURCE_POSITION_GONE.
            RunFailed: SOURCE_NOT_REACHABLE.
        """
        try:
            cursor = self._connect()
        except (psycopg2.Error, SubstraitAggError) as error:
            self.close()
            raise self._translate(error) from None
        self._thread = Thread(target=self._run, args=(cursor,), name="pgoutput", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait until everything committed before `start` has come, or there is enough to read.

        Returns:
            whether that is so.

        Raises:
            SubstraitAggError: the stream has ended.
        """
        with self._changed:
            self._changed.wait_for(self._can_read, seconds)
            if self._error is not None:
                raise self._error
            return self._can_read()

    def _can_read(self) -> bool:
        return self._caught_up or self._error is not None or self._size >= MOST_BYTES

    def transactions(self, after: int, until: float = float("inf")) -> list[Transaction]:
        """Return the transactions with rows that end after one LSN, and not after another one."""
        with self._changed:
            return [t for t in self._transactions if after < t.end <= until]

    def empty(self) -> Transaction | None:
        """Return the last transaction, if it has no rows of the publication."""
        with self._changed:
            return self._empty

    @property
    def server_end(self) -> int:
        """LSN up to which the server has looked for transactions."""
        return self._server_end

    def forget(self, position: Position) -> None:
        """Forget all transactions up to a position, and let the server forget them."""
        with self._changed:
            self._position = position
            self._transactions = [t for t in self._transactions if t.end > position.end]
            self._size = sum(t.size for t in self._transactions)
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread and close the connections."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._disconnect()

    def _connect(self) -> Any:
        """Start to replicate; raises errors of psycopg2 for what may be over soon."""
        check_slot(self._catalogue, self._slot, self._position)
        # Everything that was committed before this message comes before it.
        self._mark = uuid4().hex.encode()
        self._catalogue.query(
            "SELECT pg_logical_emit_message(true, %s, %s)", (MARK, self._mark.decode())
        )
        self._messages.clear()
        self._relations.clear()
        self._walsender = connect_walsender(self._address)
        cursor = self._walsender.cursor()
        quoted = '"' + self._publication.replace('"', '""') + '"'
        options = {"proto_version": "1", "publication_names": quoted, "messages": "true"}
        wait_for_slot(
            self._slot,
            lambda: cursor.start_replication(
                slot_name=self._slot,
                decode=False,
                start_lsn=self._position.commit,
                options=options,
                status_interval=KEEPALIVE_SECONDS,
            ),
        )
        return cursor

    def _disconnect(self) -> None:
        if self._walsender is not None:
            self._walsender.close()
        self._catalogue.close()

    def _run(self, cursor: Any) -> None:
        while not self._ends:
            try:
                if cursor is None:
                    cursor = self._connect()
                self._receive(cursor)
            except (psycopg2.Error, SubstraitAggError) as error:
                cursor = None
                self._disconnect()
                translated = self._translate(error)
                over = monotonic() > self._alive + connection.RECONNECT_SECONDS
                if over or translated.code != "SOURCE_NOT_REACHABLE":
                    self._fail(translated)
                    return
                self._rest(RETRY_SECONDS)

    def _translate(self, error: psycopg2.Error | SubstraitAggError) -> SubstraitAggError:
        if isinstance(error, SubstraitAggError):
            return error
        text = " ".join(str(error).split())
        if isinstance(error, errors.UndefinedObject):
            return InputRefused(
                "SOURCE_RECREATED", f"the publication was dropped: {text}", help=RELOAD
            )
        if isinstance(error, errors.ObjectNotInPrerequisiteState):
            message = f"the slot {self._slot} cannot be read: {text}"
            return InputRefused("SLOT_LOST", message, help=RELOAD)
        return to_error(error, self._address)

    def _fail(self, error: SubstraitAggError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _rest(self, seconds: float) -> None:
        """Wait until something was forgotten or the stream ends."""
        with self._changed:
            if not self._ends:
                self._changed.wait(seconds)

    def _receive(self, cursor: Any) -> None:
        """Receive until the stream ends, or a connection."""
        answered, confirmed = 0.0, -1
        while not self._ends:
            self._alive = now = monotonic()
            commit = self._position.commit
            if now > answered + (FEEDBACK_SECONDS if commit != confirmed else KEEPALIVE_SECONDS):
                cursor.send_feedback(flush_lsn=commit, force=True)
                answered, confirmed = now, commit
            if self._transactions and self._size >= MOST_BYTES:
                self._rest(FEEDBACK_SECONDS)
            elif not self._take(cursor):
                self._wait_for_server(cursor)

    def _take(self, cursor: Any) -> bool:
        """Take messages that have come; return whether there may be more."""
        messages = list(islice(iter(cursor.read_message, None), _CHUNK))
        for message in messages:
            payload = message.payload
            kind = payload[0]
            if kind == MESSAGE:
                self._marked |= self._mark in payload
                continue
            self._messages.append(payload)
            if kind == COMMIT:
                self._end_transaction()
        self._server_end = cursor.wal_end
        return len(messages) == _CHUNK

    def _wait_for_server(self, cursor: Any) -> None:
        watched = self._catalogue.socket
        readable, _, _ = select.select([cursor, watched], [], [], FEEDBACK_SECONDS)
        if watched in readable:
            # Nobody asked, so the server is shutting down: it would wait for a reader that stays.
            self._catalogue.query("SELECT 1")

    def _end_transaction(self) -> None:
        first, *messages, last = self._messages
        self._messages.clear()
        commit, end = struct.unpack_from(">QQ", last, 2)
        (xid,) = struct.unpack_from(">I", first, 17)
        snapshot = self._position.snapshot
        with self._changed:
            if end <= self._received or (snapshot is not None and snapshot.has(xid, end)):
                # The server describes a table once, so the next transaction needs the description.
                self._relations += [m for m in messages if m[0] == RELATION]
                messages = []
            if messages:
                messages = [*self._relations, *messages]
                self._relations.clear()
                transaction = Transaction(end, commit, sum(map(len, messages)), messages)
                self._transactions.append(transaction)
                self._size += transaction.size
                self._empty = None
            elif end > self._received:
                self._empty = Transaction(end, commit, 0, ())
            self._received = max(self._received, end)
            self._caught_up |= self._marked
            self._changed.notify_all()
