"""What a source refuses, and that it loses nothing then."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import sleep

import psycopg2
import pytest

from substrait_agg.connect.postgres import slots, stream
from substrait_agg.connect.postgres.source import connect, group
from substrait_agg.connect.protocol import TableSource
from substrait_agg.errors import SubstraitAggError
from tests.connect.postgres.database import Database
from tests.connect.postgres.driver import Reader
from tests.connect.server import running

CREATE = (
    "CREATE TABLE t (id int PRIMARY KEY, v text, n numeric(10,2)); ALTER TABLE t REPLICA IDENTITY "
)


def ready(database: Database, identity: str = "FULL") -> Reader:
    """A reader of a table with three rows, after its first two versions."""
    database.run(CREATE + identity)
    database.run("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    database.run("CREATE PUBLICATION p FOR TABLE t")
    reader = Reader(database, {"t": ["id", "v", "n"]})
    reader.advance()
    database.run("INSERT INTO t VALUES (3, 'c', 3)")
    reader.catch_up(reader.is_current)
    return reader


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(SubstraitAggError) as caught:
        call()
    assert caught.value.help
    return caught.value.code


def wait_for_refusal(reader: Reader) -> str:
    return refused(lambda: reader.catch_up(lambda: False, 10))


RECREATED = {
    "table": "DROP TABLE t; " + CREATE + "FULL; ALTER PUBLICATION p ADD TABLE t",
    "publication": "DROP PUBLICATION p; CREATE PUBLICATION p FOR TABLE t",
    "entry": "ALTER PUBLICATION p DROP TABLE t; ALTER PUBLICATION p ADD TABLE t",
}


@pytest.mark.parametrize("change", RECREATED)
@pytest.mark.parametrize("while_open", [True, False])
def test_what_was_made_again_is_refused(database: Database, change: str, while_open: bool) -> None:
    reader = ready(database)
    before = reader.position
    if not while_open:
        reader.close()
    for statement in RECREATED[change].split("; "):
        database.run(statement)
    database.run("INSERT INTO t VALUES (4, 'd', 4)")
    assert wait_for_refusal(reader) == "SOURCE_RECREATED"
    assert reader.position == before
    reader.close()


CHANGED = {
    "ALTER TABLE t RENAME COLUMN v TO w": "COLUMN_MISSING",
    "ALTER TABLE t DROP COLUMN v": "COLUMN_MISSING",
    "ALTER TABLE t ALTER COLUMN n TYPE numeric(12,3)": "SOURCE_SCHEMA_CHANGED",
    "ALTER TABLE t ALTER COLUMN v TYPE varchar(10)": "SOURCE_SCHEMA_CHANGED",
    "ALTER TABLE t ALTER COLUMN n TYPE numeric(10,2) USING n * 2": "SOURCE_SCHEMA_CHANGED",
    "ALTER TABLE t DROP COLUMN v, ADD COLUMN v text": "SOURCE_SCHEMA_CHANGED",
    "ALTER TABLE t REPLICA IDENTITY DEFAULT": "SOURCE_SCHEMA_CHANGED",
    "TRUNCATE t": "SOURCE_TRUNCATED",
}


@pytest.mark.parametrize("change", CHANGED)
@pytest.mark.parametrize("while_open", [True, False])
def test_a_change_of_what_is_read_is_refused(
    database18: Database, change: str, while_open: bool
) -> None:
    reader = ready(database18)
    before = reader.position
    if not while_open:
        reader.close()
    database18.run(change)
    database18.run("INSERT INTO t (id) VALUES (4)")
    assert wait_for_refusal(reader) == CHANGED[change]
    assert reader.position == before
    reader.close()


def test_a_change_of_what_is_not_read_is_harmless(database: Database) -> None:
    reader = ready(database)
    database.run("ALTER TABLE t ADD COLUMN extra int DEFAULT 7")
    database.run("UPDATE t SET v = 'x', extra = 8 WHERE id = 1")
    database.run("ALTER TABLE t ALTER COLUMN v SET DEFAULT 'd'")
    reader.catch_up(reader.is_current)
    database.run("VACUUM FULL t")
    database.run(
        "BEGIN; ALTER TABLE t RENAME extra TO other; UPDATE t SET other = 1; ALTER TABLE t DROP other; UPDATE t SET v = 'y'; COMMIT"
    )
    reader.catch_up(reader.is_current)
    reader.close()
    reader.catch_up(reader.is_current)
    reader.close()


@pytest.mark.parametrize(("identity", "code"), [("FULL", None), ("DEFAULT", "VALUE_UNAVAILABLE")])
def test_an_unchanged_large_value(database: Database, identity: str, code: str | None) -> None:
    reader = ready(database, identity)
    database.run("ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
    database.run("UPDATE t SET v = repeat('x', 100000) WHERE id = 2")
    reader.catch_up(reader.is_current)
    database.run("UPDATE t SET n = n + 1")
    if code is None:
        reader.catch_up(reader.is_current)
    else:
        assert wait_for_refusal(reader) == code
    reader.close()


def test_without_identity_rows_are_only_added(database: Database) -> None:
    reader = ready(database, "NOTHING")
    assert reader.known["t"].keys == ()
    with pytest.raises(psycopg2.Error, match="replica identity"):
        database.run("UPDATE t SET v = 'z'")
    reader.close()


def test_the_keys_are_those_of_the_identity(database: Database) -> None:
    database.run("CREATE TABLE t (id int, k text NOT NULL, v text NOT NULL)")
    database.run("CREATE UNIQUE INDEX i ON t (v, k)")
    database.run("ALTER TABLE t REPLICA IDENTITY USING INDEX i")
    database.run("CREATE PUBLICATION p FOR TABLES IN SCHEMA public")
    reader = Reader(database, {"t": ["k", "id", "v"]})
    reader.open()
    assert reader.known["t"].keys == ("v", "k")
    database.run("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'a', 'y')")
    reader.advance()
    database.run("UPDATE t SET v = 'z' WHERE id = 2")
    database.run("DELETE FROM t WHERE id = 1")
    reader.catch_up(reader.is_current)
    reader.close()


def test_partitions_come_as_one_table(database: Database) -> None:
    database.run("CREATE TABLE t (id int, v text) PARTITION BY RANGE (id)")
    database.run("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    database.run("CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20)")
    database.run("ALTER TABLE t REPLICA IDENTITY FULL; ALTER TABLE t1 REPLICA IDENTITY FULL")
    database.run("CREATE PUBLICATION p FOR TABLE t WITH (publish_via_partition_root = true)")
    reader = Reader(database, {"t": ["id", "v"]})
    assert refused(reader.advance) == "SOURCE_UNREADABLE"
    database.run("ALTER TABLE t2 REPLICA IDENTITY FULL")
    database.run("INSERT INTO t VALUES (1, 'a'), (11, 'b')")
    reader.advance()
    database.run("UPDATE t SET id = 12 - id")
    reader.catch_up(reader.is_current)
    database.run("ALTER TABLE t DETACH PARTITION t2")
    database.run("INSERT INTO t VALUES (2, 'c')")
    assert wait_for_refusal(reader) == "SOURCE_RECREATED"
    reader.close()


PUBLICATIONS = {
    "CREATE PUBLICATION q FOR TABLE t": "does not exist",
    "CREATE PUBLICATION p": "does not have",
    "CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert, update')": "delete, truncate",
    "CREATE PUBLICATION p FOR TABLE t WHERE (id > 1)": "only the rows",
}


@pytest.mark.parametrize("publication", PUBLICATIONS)
def test_an_incomplete_publication_is_refused(database: Database, publication: str) -> None:
    database.run(CREATE + "FULL")
    database.run(publication)
    reader = Reader(database, {"t": ["id"]})
    with pytest.raises(SubstraitAggError, match=PUBLICATIONS[publication]) as caught:
        reader.open()
    assert caught.value.code == "PUBLICATION_INCOMPLETE"
    assert "PUBLICATION" in caught.value.help or "publish" in caught.value.help


def test_a_column_that_is_not_published_is_missing(database: Database) -> None:
    database.run(CREATE + "DEFAULT")
    database.run("CREATE PUBLICATION p FOR TABLE t (id, v)")
    assert refused(Reader(database, {"t": ["id", "n"]}).open) == "COLUMN_MISSING"


def test_a_table_that_is_not_there(database18: Database) -> None:
    assert refused(Reader(database18, {"missing": ["id"]}).open) == "SOURCE_NOT_FOUND"
    database18.run("CREATE VIEW v AS SELECT 1 AS id")
    assert refused(Reader(database18, {"v": ["id"]}).open) == "SOURCE_UNREADABLE"


def test_a_second_run_is_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "IN_USE_SECONDS", 0.5)
    reader = ready(database)
    second = Reader(database, reader.columns)
    second.states = reader.states
    assert refused(second.advance) == "SLOT_IN_USE"
    second.restart(1)
    assert refused(second.advance) == "SLOT_IN_USE"
    database.run("INSERT INTO t VALUES (4, 'd', 4)")
    reader.catch_up(reader.is_current)
    reader.close()


def test_a_slot_that_was_dropped_is_lost(database: Database) -> None:
    reader = ready(database)
    reader.close()
    # The server notices a closed connection a little later.
    active = (
        "SELECT count(*) FROM pg_replication_slots WHERE database = current_database() AND active"
    )
    while database.run(active) != [(0,)]:
        sleep(0.01)
    database.run(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
    )
    assert refused(reader.advance) == "SLOT_LOST"


def test_an_older_version_cannot_be_continued(database: Database) -> None:
    """As after a restored backup of the checkpoint: the server has given up what followed."""
    reader = ready(database)
    old = len(reader.states)
    database.run("INSERT INTO t VALUES (4, 'd', 4)")
    reader.catch_up(reader.is_current)
    assert reader.connector is not None
    while confirmed(database) != confirmed_at(reader.position):
        sleep(0.01)
    newest = reader.states
    reader.restart(old)
    assert refused(reader.advance) == "SOURCE_POSITION_GONE"
    reader.states = newest
    reader.advance()
    reader.close()


def confirmed(database: Database) -> str:
    rows = database.run(
        "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE database = current_database()"
    )
    return str(rows[0][0])


def confirmed_at(position: str | None) -> str:
    assert position is not None
    return str(json.loads(position)["commit"])


def test_an_idle_table_does_not_keep_the_wal(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("substrait_agg.connect.postgres.source.IDLE_BYTES", 1 << 20)
    reader = ready(database)
    before = confirmed(database)
    database.run("CREATE TABLE busy AS SELECT repeat('x', 1000) FROM generate_series(1, 5000)")
    reader.catch_up(lambda: confirmed(database) != before)
    assert reader.is_current()
    reader.close()
    database.run("INSERT INTO t VALUES (5, 'e', 5)")
    reader.catch_up(reader.is_current)
    reader.close()


def test_a_slow_reader_keeps_the_connection(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MOST_BYTES", 10_000)
    database.run(f"ALTER DATABASE {database.name} SET wal_sender_timeout = '2s'")
    reader = ready(database)
    for start in range(10, 5010, 500):
        database.run(
            f"INSERT INTO t SELECT g, 'x', g FROM generate_series({start}, {start} + 499) g"
        )
    database.run("SELECT pg_sleep(5)")
    assert database.run(
        "SELECT active FROM pg_replication_slots WHERE database = current_database()"
    ) == [(True,)]
    reader.catch_up(reader.is_current)
    reader.close()


def test_an_open_transaction_delays_the_slot(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "CREATE_SECONDS", 1)
    database.run(CREATE + "FULL")
    database.run("CREATE PUBLICATION p FOR TABLE t")
    connection = psycopg2.connect(database.dsn)
    connection.cursor().execute("INSERT INTO t VALUES (1, 'a', 1)")
    reader = Reader(database, {"t": ["id"]})
    with pytest.raises(SubstraitAggError, match="SLOT_NOT_CREATED") as caught:
        reader.advance()
    assert "INSERT INTO t" in caught.value.help
    connection.commit()
    reader.catch_up(reader.is_current)
    connection.cursor().execute("INSERT INTO t VALUES (2, 'a', 1)")
    database.run("INSERT INTO t VALUES (3, 'a', 1)")
    reader.catch_up(reader.is_current)
    connection.close()
    reader.close()


def test_the_server_stops_while_it_makes_a_slot(database: Database) -> None:
    """The advice is not to drop slots, but to run again."""
    database.run(CREATE + "FULL")
    database.run("CREATE PUBLICATION p FOR TABLE t")
    connection = psycopg2.connect(database.dsn)
    connection.cursor().execute("INSERT INTO t VALUES (1, 'a', 1)")
    waiting = "SELECT 1 FROM pg_replication_slots WHERE database = current_database()"

    def stop() -> None:
        while not database.run(waiting):
            sleep(0.01)
        database.server.stop("immediate")

    thread = Thread(target=stop)
    thread.start()
    reader = Reader(database, {"t": ["id"]})
    try:
        assert refused(reader.advance) == "SOURCE_NOT_REACHABLE"
    finally:
        thread.join()
        connection.close()
        database.server.start()
    database.run("INSERT INTO t VALUES (2, 'b', 1)")
    reader.catch_up(reader.is_current)
    reader.close()


def test_a_server_that_is_not_there(database18: Database) -> None:
    dsn = "postgresql://me:hunter22@127.0.0.1:1/db"
    source = connect({"t": TableSource("t", "t", {"dsn": dsn})})
    with pytest.raises(SubstraitAggError, match="SOURCE_NOT_REACHABLE") as caught:
        source.table("t")
    assert "hunter22" not in str(caught.value)


def test_a_group_is_a_database_and_a_slot() -> None:
    def of(**options: str) -> str:
        return group(TableSource("t", "public.t", options))

    assert of(dsn="postgresql://me:secret1@h:5/db") == "host=h port=5 dbname=db"
    assert of(service="shop", slot="s") == "service=shop slot=s"
    assert refused(lambda: of(service="shop", dsn="host=h")) == "OPTION_CONFLICT"
    assert refused(lambda: of(dsn="postgresql://[")) == "OPTION_INVALID"
    sources = {
        user: TableSource(user, "t", {"dsn": f"host=h user={user}"}) for user in ("one", "other")
    }
    assert refused(lambda: connect(sources)) == "OPTION_CONFLICT"


def test_only_changes_are_read_on_request(database: Database) -> None:
    database.run(CREATE + "FULL")
    database.run("INSERT INTO t VALUES (1, 'a', 1)")
    database.run("CREATE PUBLICATION p FOR TABLE t")
    reader = Reader(database, {"t": ["id"]}, snapshot="none")
    reader.advance()
    database.run("INSERT INTO t VALUES (2, 'b', 2)")
    reader.catch_up(lambda: list(reader.tables["t"]) == [(2,)])
    reader.close()


def test_rows_without_columns_are_counted(database: Database) -> None:
    database.run(CREATE + "FULL")
    database.run("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 1)")
    database.run("CREATE PUBLICATION p FOR TABLE t")
    reader = Reader(database, {"t": []})
    source = reader.open()
    position = source.latest(None, float("inf"))
    assert position is not None
    assert source.read(None, position)["t"].column(0).to_pylist() == [1, 1]
    source.committed(position)
    database.run("DELETE FROM t WHERE id = 1")
    until = None
    while until is None:
        until = source.latest(position, float("inf"))
    for _ in range(2):
        assert source.read(position, until)["t"].column(0).to_pylist() == [-1]
    source.close()


def test_a_slot_whose_wal_was_removed_is_lost(database: Database) -> None:
    reader = ready(database)
    reader.close()
    database.run("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    database.run("SELECT pg_reload_conf()")
    try:
        for _ in range(3):
            database.run(
                "CREATE TABLE busy AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)"
            )
            database.run("DROP TABLE busy")
            database.run("SELECT pg_switch_wal()")
        database.run("CHECKPOINT")
        assert refused(reader.advance) == "SLOT_LOST"
    finally:
        database.run("ALTER SYSTEM RESET max_slot_wal_keep_size")
        database.run("SELECT pg_reload_conf()")


def test_a_lag_is_in_bytes(database: Database) -> None:
    reader = ready(database)
    assert reader.connector is not None
    database.run("CREATE TABLE busy AS SELECT repeat('x', 1000) FROM generate_series(1, 2000)")
    lag = reader.connector.lag()
    assert lag["wal_retained_bytes"] >= lag["bytes"] > 1_000_000
    reader.close()


def test_a_role_without_rights_is_refused(database: Database) -> None:
    database.run(CREATE + "FULL")
    database.run("CREATE PUBLICATION p FOR TABLE t")
    role = f"guest_{database.name}"
    database.run(f"CREATE ROLE {role} LOGIN")
    dsn = database.dsn.replace("postgres@", f"{role}@")
    assert dsn != database.dsn
    reader = Reader(database, {"t": ["id"]}, dsn=dsn)
    assert refused(reader.open) == "SOURCE_NOT_PERMITTED"
    database.run(f"ALTER ROLE {role} REPLICATION")
    assert refused(reader.advance) == "SOURCE_NOT_PERMITTED"
    reader.close()
    database.run(f"GRANT SELECT ON t TO {role}")
    reader.advance()
    database.run("INSERT INTO t VALUES (1, 'a', 1)")
    reader.catch_up(reader.is_current)
    reader.close()
    database.run(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_server_without_logical_wal() -> None:
    with (
        TemporaryDirectory(prefix="postgres") as folder,
        running(Path(folder) / "x", 18, wal_level="replica") as server,
    ):
        source = connect({"t": TableSource("t", "t", {"dsn": server.dsn()})})
        assert refused(lambda: source.table("t")) == "WAL_LEVEL_TOO_LOW"
        source.close()
