"""Rows of the source at every position, compared with the tables themselves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from threading import Event, Thread
from time import sleep

import psycopg2
import pytest

from substrait_agg.connect.postgres import connection
from substrait_agg.errors import SubstraitAggError
from tests.connect.postgres.database import Database
from tests.connect.postgres.driver import Reader

ACCOUNTS = 20
TOTAL = ACCOUNTS * 2 * 100


@pytest.fixture(params=["FULL", "DEFAULT"])
def bank(request: pytest.FixtureRequest, database: Database) -> Database:
    """Two tables whose balances have one sum in every transaction."""
    for name in ("a", "b"):
        database.run(f"CREATE TABLE {name} (id int PRIMARY KEY, balance int, note text)")
        database.run(f"ALTER TABLE {name} REPLICA IDENTITY {request.param}")
        database.run(
            f"INSERT INTO {name} SELECT g, 100, NULL FROM generate_series(1, {ACCOUNTS}) g"
        )
    database.run("CREATE PUBLICATION p FOR TABLE a, b")
    return database


class Writer(Thread):
    """Transfers money with savepoints, rollbacks, deletions and changes of keys, until it is ended."""

    def __init__(self, database: Database, seed: int, end: Event) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.connection = psycopg2.connect(database.dsn, options="-c deadlock_timeout=20ms")
        self.end = end
        self.transactions = 0

    def run(self) -> None:
        while not self.end.is_set():
            try:
                with self.connection.cursor() as cursor:
                    self.transact(cursor)
                self.connection.commit() if self.random.random() < 0.8 else self.connection.rollback()
                self.transactions += 1
                sleep(0.02)
            except psycopg2.errors.DatabaseError:
                if self.connection.closed:
                    return
                self.connection.rollback()
        self.connection.close()

    def transact(self, cursor: psycopg2.extensions.cursor) -> None:
        for _ in range(self.random.randint(1, 4)):
            one, other = self.random.sample(["a", "b"], 2)
            cursor.execute(f"SELECT id FROM {one} ORDER BY random() LIMIT 1 FOR UPDATE")
            (first,) = cursor.fetchone()
            cursor.execute(f"SELECT id FROM {other} ORDER BY random() LIMIT 1 FOR UPDATE")
            (second,) = cursor.fetchone()
            cursor.execute(f"UPDATE {one} SET balance = balance - 7 WHERE id = %s", (first,))
            cursor.execute("SAVEPOINT s")
            cursor.execute(f"UPDATE {one} SET balance = 0 WHERE id <= 5")
            cursor.execute("ROLLBACK TO SAVEPOINT s")
            cursor.execute("SAVEPOINT t")
            cursor.execute(
                f"UPDATE {other} SET balance = balance + 7, note = 'n' WHERE id = %s", (second,)
            )
            cursor.execute("RELEASE SAVEPOINT t")
        if self.random.random() < 0.3:
            new = self.random.randint(1000, 100000)
            cursor.execute(f"UPDATE {one} SET id = %s WHERE id = %s", (new, first))
        if self.random.random() < 0.3:
            cursor.execute(f"DELETE FROM {other} WHERE id = %s RETURNING balance", (second,))
            (balance,) = cursor.fetchone()
            cursor.execute(
                f"INSERT INTO {other} VALUES (%s, %s, '')",
                (self.random.randint(1000, 100000), balance),
            )


@contextmanager
def writers(database: Database, number: int = 4) -> Iterator[list[Writer]]:
    end = Event()
    threads = [Writer(database, seed, end) for seed in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        end.set()
        for thread in threads:
            thread.join()


def total(reader: Reader) -> int:
    return sum(row[1] * weight for rows in reader.tables.values() for row, weight in rows.items())


STEPS = ("begin", "latest", "read", "commit", "committed")
COLUMNS = {"a": ["id", "balance", "note"], "b": ["id", "balance"]}


def test_initial_rows_and_changes(database: Database) -> None:
    database.run("CREATE TABLE t (id int, v text); ALTER TABLE t REPLICA IDENTITY FULL")
    database.run("INSERT INTO t VALUES (1, 'a'), (1, 'a'), (2, NULL), (3, ''), (4, 'x,\"\n\\.')")
    database.run("CREATE PUBLICATION p FOR TABLE t")
    reader = Reader(database, {"t": ["id", "v"]})
    reader.advance()
    assert reader.is_current()
    database.run("UPDATE t SET v = v || 'x' WHERE id <> 3")
    database.run("DELETE FROM t WHERE id = 2")
    database.run("INSERT INTO t SELECT g, g::text FROM generate_series(1, 5000) g")
    reader.catch_up(reader.is_current)
    assert not reader.advance()
    reader.close()


def test_no_position_divides_a_transaction_of_two_tables(bank: Database) -> None:
    reader = Reader(bank, COLUMNS)
    with writers(bank) as threads:
        while min(t.transactions for t in threads) < 3:
            sleep(0.01)
        versions = 0
        while versions < 15:
            versions += reader.advance(most_bytes=20_000)
            assert total(reader) == TOTAL
            assert len(reader.tables["a"]) == len(reader.tables["b"]) == ACCOUNTS
    reader.catch_up(reader.is_current)
    reader.close()


def test_a_kill_between_any_two_steps_loses_nothing(bank: Database) -> None:
    reader = Reader(bank, COLUMNS)
    with writers(bank, 2):
        for stop in [*STEPS] * 4:
            reached = False
            while not reached:
                for step in reader.steps(most_bytes=20_000):
                    reached = step == stop
                    if reached:
                        break
            assert reader.position is None or total(reader) == TOTAL
            reader.close()
    reader.catch_up(reader.is_current)
    reader.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_the_server_stops_and_comes_back(bank: Database, mode: str) -> None:
    reader = Reader(bank, COLUMNS)
    reader.advance()
    with writers(bank, 2) as threads:
        while sum(t.transactions for t in threads) < 50:
            reader.advance()
        bank.server.stop(mode)
    bank.server.start()
    assert reader.connector is not None
    reader.catch_up(reader.is_current)
    bank.run("UPDATE a SET note = 'later'")
    reader.catch_up(reader.is_current)
    reader.close()


def new_end(reader: Reader) -> str:
    """The end of transactions that are not read yet."""
    until = None
    while until is None:
        until = reader.open().latest(reader.position, inf)
    return str(until)


def test_a_read_waits_for_the_server(bank: Database) -> None:
    """It looks at the catalogue; rows that came before the server stopped are not lost, nor is the run."""
    reader = Reader(bank, COLUMNS)
    reader.advance()
    bank.run("UPDATE a SET note = 'read'")
    until = new_end(reader)
    bank.server.stop("immediate")
    start = Thread(target=bank.server.start)
    try:
        lag = reader.open().lag()
    finally:
        start.start()
    try:
        assert lag == {}
        assert reader.open().read(reader.position, until)["a"].num_rows
    finally:
        start.join()
    reader.catch_up(reader.is_current)
    reader.close()


def test_a_server_that_stays_away_ends_a_run(
    bank: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a code, and the next run goes on."""
    monkeypatch.setattr(connection, "RECONNECT_SECONDS", 0.5)
    reader = Reader(bank, COLUMNS)
    reader.advance()
    bank.run("UPDATE a SET note = 'read'")
    until = new_end(reader)
    bank.server.stop("immediate")
    try:
        for call in (
            lambda: reader.open().read(reader.position, until),
            lambda: reader.catch_up(lambda: False),
        ):
            with pytest.raises(SubstraitAggError, match="SOURCE_NOT_REACHABLE"):
                call()
    finally:
        bank.server.start()
    reader.close()
    reader.catch_up(reader.is_current)
    reader.close()
