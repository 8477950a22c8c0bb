"""The output postgres=: the table equals the view after every version, and after every kill."""

from __future__ import annotations

import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch
from urllib.parse import quote

import psycopg2
import psycopg2.extensions
import pytest

from substrait_agg.changes import Delivery, check_outputs, parse_output
from substrait_agg.changes.outputs.postgres_sink import PostgresSink
from substrait_agg.changes.outputs.sinks import SinkContext
from substrait_agg.changes.records import Record
from substrait_agg.changes.targets.postgres import parse_postgres
from substrait_agg.commit.view.schema import PlanChange
from substrait_agg.errors import RunFailed, StateRefused, SubstraitAggError, UsageError
from tests.changes.keyed_view import KeyedView, changes_of
from tests.connect.server import Server, run, running

VERSIONS = "SELECT view, version, created FROM public.substrait_agg_versions"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("pg18") / "server") as server:
        yield server


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("pg16") / "server", 16) as server:
        yield server


@pytest.fixture
def dsn(server: Server) -> str:
    return server.database()


def output_to(dsn: str, table: str = "public.totals", **options: str) -> str:
    pairs = "".join(f"&{key}={quote(value)}" for key, value in options.items())
    return f"postgres={table}?dsn={quote(dsn, safe='')}{pairs}"


def deliver(output: str, checkpoint: Path, view: Any) -> None:
    with closing(Delivery([output], checkpoint=checkpoint)) as delivery:
        delivery.deliver(cast("Any", view))


def rows(dsn: str, table: str = "public.totals") -> set[Any]:
    found = run(dsn, f"SELECT shop, item, total, note FROM {table}")
    assert len(set(found)) == len(found)
    return set(found)


@contextmanager
def refused(code: str, kind: type[SubstraitAggError] = StateRefused) -> Iterator[Any]:
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.code == code
    assert caught.value.help


@contextmanager
def opened(output: str, checkpoint: Path) -> Iterator[PostgresSink]:
    target = parse_postgres(output.partition("=")[2])
    with closing(PostgresSink(target)) as sink:
        sink.begin(SinkContext(checkpoint, sys.stdout))
        yield sink


# --- every version ------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["server", "older"])
def test_the_table_is_the_view_after_every_version(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """With null keys, texts that CSV must quote, and versions without changes."""
    dsn = request.getfixturevalue(which).database()
    whole = KeyedView(40)
    with closing(Delivery([output_to(dsn)], checkpoint=tmp_path)) as delivery:
        for version in range(41):
            delivery.deliver(cast("Any", KeyedView(version)))
            assert rows(dsn) == whole.rows(version)
            assert run(dsn, VERSIONS) == [("", version, True)]


def test_a_later_run_continues_after_the_version_in_the_table(dsn: str, tmp_path: Path) -> None:
    deliver(output_to(dsn), tmp_path, KeyedView(3))
    with opened(output_to(dsn), tmp_path) as sink:
        assert sink.position == 3
    deliver(output_to(dsn), tmp_path, KeyedView(9))
    assert rows(dsn) == KeyedView(9).rows(9)


def test_several_versions_at_once_are_added_up(dsn: str, tmp_path: Path) -> None:
    """A new output begins with all changes of the versions before the first one that is kept."""
    view = KeyedView(12)
    with opened(output_to(dsn), tmp_path) as sink:
        sink.deliver(view.changes(until=12), 12)
    assert rows(dsn) == view.rows(12)


def test_names_are_quoted(dsn: str, tmp_path: Path) -> None:
    run(dsn, 'CREATE SCHEMA "a ""b"" %s; drop"')
    table = quote('a "b" %s; drop', safe="") + "." + quote('T.ü?"%', safe="").replace(".", "%2E")
    names = ['Shop "x" %s', "select", "ünicode", "a.b"]
    for version in range(5):
        changes = KeyedView(version).changes(since=version - 1 if version else None)
        columns = changes.rename_columns([*names, "__version", "__weight"])
        with opened(output_to(dsn, table), tmp_path) as sink:
            sink.deliver(columns.replace_schema_metadata(changes.schema.metadata), version)
    found = run(dsn, 'SELECT * FROM "a ""b"" %s; drop"."T.ü?""%"')
    assert set(found) == KeyedView(4).rows(4)


def test_a_notification_comes_with_the_version(dsn: str, tmp_path: Path) -> None:
    listener = psycopg2.connect(dsn)
    listener.autocommit = True
    with closing(listener), listener.cursor() as cursor:
        cursor.execute('LISTEN "totals of ü"')
        deliver(output_to(dsn, notify="totals of ü"), tmp_path, KeyedView(2))
        found: list[str] = []
        while len(found) < 3 and select.select([listener], [], [], 20)[0]:
            listener.poll()
            found += [notify.payload for notify in listener.notifies]
            listener.notifies.clear()
    assert found == ["0", "1", "2"]


def test_a_view_of_one_row_needs_no_key(dsn: str, tmp_path: Path) -> None:
    steps = [[(1, 1)], [(1, -1), (2, 1)], [(2, -1)], [], [(7, 1)]]
    with opened(output_to(dsn), tmp_path) as sink:
        for version, step in enumerate(steps):
            sink.deliver(changes_of([("n", n, n, None, version, w) for n, w in step], ()), version)
            last = [n for n, w in step if w > 0]
            assert [row[1] for row in rows(dsn)] == last
    assert run(dsn, VERSIONS) == [("", 4, True)]


# --- tables that exist --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "definition",
    [
        "shop text, item bigint, total numeric(12,2), note text, UNIQUE NULLS NOT DISTINCT (item, shop)",
        """note varchar, total numeric, item bigint, shop text, at timestamptz DEFAULT now(),
        id bigint GENERATED ALWAYS AS IDENTITY, UNIQUE NULLS NOT DISTINCT (shop, item)""",
        """shop text, item bigint, total numeric(14,3), note text,
        UNIQUE NULLS NOT DISTINCT (shop, item) INCLUDE (note)""",
    ],
)
def test_a_table_that_fits_is_used(definition: str, dsn: str, tmp_path: Path) -> None:
    run(dsn, f"CREATE TABLE totals ({definition})")
    deliver(output_to(dsn), tmp_path, KeyedView(8))
    assert rows(dsn) == KeyedView(8).rows(8)
    assert run(dsn, VERSIONS) == [("", 8, False)]


def test_a_partitioned_table_is_used(dsn: str, tmp_path: Path) -> None:
    columns = "shop text, item bigint, total numeric(12,2), note text"
    unique = "UNIQUE NULLS NOT DISTINCT (shop, item)"
    run(dsn, f"CREATE TABLE totals ({columns}, {unique}) PARTITION BY HASH (shop)")
    for i in range(2):
        run(
            dsn,
            f"CREATE TABLE t{i} PARTITION OF totals FOR VALUES WITH (MODULUS 2, REMAINDER {i})",
        )
    deliver(output_to(dsn), tmp_path, KeyedView(8))
    assert rows(dsn) == KeyedView(8).rows(8)


@pytest.mark.parametrize(
    ("definition", "code"),
    [
        ("shop text, item bigint, total numeric(12,2), note text", "OUTPUT_KEY_MISSING"),
        ("shop text, item bigint UNIQUE, total numeric(12,2), note text", "OUTPUT_KEY_MISSING"),
        ("shop text, item bigint, total numeric(12,2), UNIQUE (shop, item)", "OUTPUT_TABLE_DIFFERS"),
        ("shop text, item integer, total numeric, note text", "OUTPUT_TABLE_DIFFERS"),
        ("shop text, item bigint, total numeric(12,1), note text", "OUTPUT_TABLE_DIFFERS"),
        ("shop text, item bigint, total numeric(11,2), note text", "OUTPUT_TABLE_DIFFERS"),
        ("shop varchar(9), item bigint, total numeric, note text", "OUTPUT_TABLE_DIFFERS"),
        ("shop text, item bigint, total numeric, note text, x int NOT NULL", "OUTPUT_TABLE_DIFFERS"),
        (
            """shop text, item bigint, total numeric, note text,
            UNIQUE (shop, item) DEFERRABLE INITIALLY DEFERRED""",
            "OUTPUT_KEY_MISSING",
        ),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_refused(
    definition: str, code: str, dsn: str, tmp_path: Path
) -> None:
    run(dsn, f"CREATE TABLE totals ({definition})")
    with refused(code), opened(output_to(dsn), tmp_path) as sink:
        sink.deliver(KeyedView(0).changes(), 0)
    assert run(dsn, "SELECT to_regclass('substrait_agg_versions')") == [(None,)]


def test_a_table_with_rows_of_others_is_refused(dsn: str, tmp_path: Path) -> None:
    deliver(output_to(dsn), tmp_path / "mine", KeyedView(3))
    with refused("OUTPUT_EXISTS", UsageError):
        deliver(output_to(dsn), tmp_path / "other", KeyedView(3))
    run(dsn, "DELETE FROM substrait_agg_versions")
    with refused("OUTPUT_EXISTS", UsageError):
        deliver(output_to(dsn), tmp_path / "other", KeyedView(3))
    run(dsn, "DROP TABLE totals")
    deliver(output_to(dsn), tmp_path / "other", KeyedView(3))
    assert rows(dsn) == KeyedView(3).rows(3)


def test_null_keys_need_a_key_that_holds_them(dsn: str, tmp_path: Path) -> None:
    """Without null keys a primary key will do."""
    columns = "shop text, item bigint, total numeric(12,2), note text"
    run(dsn, f"CREATE TABLE totals ({columns}, PRIMARY KEY (shop, item))")
    with opened(output_to(dsn), tmp_path) as sink:
        sink.deliver(changes_of([("n", 1, 1, None, 0, 1)]), 0)
        with refused("OUTPUT_KEY_NULL"):
            sink.deliver(changes_of([("n", None, 1, None, 1, 1)]), 1)
        assert [row[1] for row in rows(dsn)] == [1]


@pytest.mark.parametrize(
    ("keys", "changes"),
    [
        pytest.param(None, [("n", 1, 1, None, 0, 1)], id="the key is not shown"),
        pytest.param((0, 1), [("n", 1, 1, None, 0, 2)], id="equal rows"),
        pytest.param((0, 1), [("n", 1, 1, None, 0, 1), ("n", 1, 2, None, 0, 1)], id="two rows"),
    ],
)
def test_a_view_without_a_key_is_refused(
    keys: Any, changes: list[Any], dsn: str, tmp_path: Path
) -> None:
    with refused("OUTPUT_KEY_MISSING"), opened(output_to(dsn), tmp_path) as sink:
        sink.deliver(changes_of(changes, keys), 0)


def test_a_view_whose_rows_are_their_own_keys_may_have_none_twice(dsn: str, tmp_path: Path) -> None:
    """A view without GROUP BY has all columns as key, and possibly equal rows in later versions."""
    changes = partial(changes_of, keys=(0, 1, 2, 3), repeats=True)
    with opened(output_to(dsn), tmp_path) as sink:
        sink.deliver(changes([("n", 1, 1, "x", 0, 1)]), 0)
        sink.deliver(changes([("n", 1, 1, "x", 1, -1), ("n", 1, 2, "x", 1, 1)]), 1)
        assert len(rows(dsn)) == 1
        with refused("OUTPUT_KEY_MISSING"):
            sink.deliver(changes([("n", 1, 2, "x", 2, 1)]), 2)


def test_equal_rows_in_a_table_that_does_not_count_new_rows(dsn: str, tmp_path: Path) -> None:
    """A partitioned table does not say which rows are new, so it cannot have a view of rows."""
    columns = "shop text, item bigint, total numeric(12,2), note text"
    unique = "UNIQUE NULLS NOT DISTINCT (shop, item, total, note)"
    run(dsn, f"CREATE TABLE totals ({columns}, {unique}) PARTITION BY HASH (shop)")
    changes = changes_of([("n", 1, 1, "x", 0, 1)], (0, 1, 2, 3), repeats=True)
    with refused("OUTPUT_KEY_MISSING"), opened(output_to(dsn), tmp_path) as sink:
        sink.deliver(changes, 0)


@pytest.mark.parametrize(
    "change",
    ["DELETE FROM totals", "INSERT INTO totals VALUES ('n', 2), ('n', 3)"],
)
def test_a_table_that_somebody_changed_is_noticed(change: str, dsn: str, tmp_path: Path) -> None:
    """Rows that are missing or too many would make the view wrong without a word."""
    with opened(output_to(dsn), tmp_path) as sink:
        sink.deliver(changes_of([("n", 1, 1, None, 0, 1)]), 0)
        run(dsn, change)
        with refused("OUTPUT_DAMAGED"):
            step = [("n", 1, 1, None, 1, -1), ("n", 2, 1, None, 1, 1)]
            sink.deliver(changes_of(step), 1)


# --- exactly once -------------------------------------------------------------------------------


def test_a_killed_process_writes_every_version_once(dsn: str, tmp_path: Path) -> None:
    """At every kill the table is a version, the one that it names; the next process continues."""
    last = 300
    whole, draw = KeyedView(last), random.Random(5)
    output = output_to(dsn)
    code = (
        "from pathlib import Path; from tests.changes.keyed_view import deliver_all; "
        f"deliver_all({output!r}, Path({str(tmp_path)!r}), {last})"
    )
    reached = [-1]
    for kill in range(12):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            # Two kills may come before the first version, the others come after progress.
            while kill > 1 and process.poll() is None and _state(dsn)[0] <= reached[-1]:
                time.sleep(0.01)
            time.sleep(draw.random() * 0.1)
            process.send_signal(signal.SIGKILL)
        for _attempt in range(50):
            before = _state(dsn)
            if before == _state(dsn):
                break
        assert before[0] == -1 or before[1] == whole.rows(before[0])
        reached.append(before[0])
    assert reached == sorted(reached)
    deliver(output, tmp_path, whole)
    assert (rows(dsn), run(dsn, VERSIONS)) == (whole.rows(last), [("", last, True)])
    assert len(set(reached)) > 10 or reached[-1] == last


def _state(dsn: str) -> tuple[int, set[Any]]:
    """The version and the rows at one instant."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        connection.set_session("REPEATABLE READ", readonly=True)
        cursor.execute("SELECT to_regclass('totals') IS NOT NULL")
        if not cursor.fetchone()[0]:
            return -1, set()
        cursor.execute(VERSIONS)
        ((_, version, _created),) = cursor.fetchall()
        cursor.execute("SELECT shop, item, total, note FROM totals")
        return version, set(cursor.fetchall())


class Killed(BaseException):
    """Ends a run immediately, like a kill."""


def test_a_kill_between_commit_and_record_repeats_nothing(dsn: str, tmp_path: Path) -> None:
    deliver(output_to(dsn), tmp_path, KeyedView(2))
    with opened(output_to(dsn), tmp_path) as sink:
        with patch.object(Record, "write", side_effect=Killed), suppress(Killed):
            sink.deliver(KeyedView(3).changes(2), 3)
        assert run(dsn, VERSIONS) == [("", 3, True)]
    target = parse_postgres(output_to(dsn).partition("=")[2])
    record = PostgresSink(target).record_in(tmp_path)
    assert record.read() == (2, 0)
    deliver(output_to(dsn), tmp_path, KeyedView(6))
    assert rows(dsn) == KeyedView(6).rows(6)
    assert record.read() == (6, 0)


class LosesAnswers(psycopg2.extensions.connection):  # type: ignore[misc]
    """A connection that ends after the server has committed and before it can say so."""

    def commit(self) -> None:
        super().commit()
        if b"substrait_agg_changes" in LosesAnswers.executed:
            LosesAnswers.executed = b""
            raise psycopg2.OperationalError("server closed the connection unexpectedly")

    executed = b"substrait_agg_changes"


def test_a_commit_whose_answer_is_lost_is_not_repeated(dsn: str, tmp_path: Path) -> None:
    deliver(output_to(dsn), tmp_path, KeyedView(2))
    LosesAnswers.executed = b""
    connect = partial(psycopg2.connect, connection_factory=LosesAnswers)
    with (
        patch("substrait_agg.changes.postgres.session.psycopg2.connect", connect),
        opened(output_to(dsn), tmp_path) as sink,
    ):
        LosesAnswers.executed = b"substrait_agg_changes"
        with refused("OUTPUT_NOT_REACHABLE", RunFailed):
            sink.deliver(KeyedView(3).changes(2), 3)
        assert run(dsn, VERSIONS) == [("", 3, True)]
        for version in (3, 4):
            sink.deliver(KeyedView(version).changes(version - 1), version)
    assert rows(dsn) == KeyedView(4).rows(4)


def test_the_run_that_was_overtaken_is_refused(dsn: str, tmp_path: Path) -> None:
    deliver(output_to(dsn), tmp_path, KeyedView(2))
    with opened(output_to(dsn), tmp_path) as old, opened(output_to(dsn), tmp_path) as new:
        new.deliver(KeyedView(3).changes(2), 3)
        with refused("OUTPUT_VERSION_CONFLICT"):
            old.deliver(KeyedView(3).changes(2), 3)
        new.deliver(KeyedView(4).changes(3), 4)
    assert rows(dsn) == KeyedView(4).rows(4)


def test_a_copy_of_the_database_gets_the_versions_that_it_lacks(dsn: str, tmp_path: Path) -> None:
    """The version in the table decides, also where the record has a later one."""
    deliver(output_to(dsn), tmp_path, KeyedView(4))
    saved = run(dsn, "CREATE TABLE saved AS SELECT * FROM totals", "SELECT count(*) FROM saved")
    deliver(output_to(dsn), tmp_path, KeyedView(7))
    back = "INSERT INTO totals SELECT * FROM saved"
    run(dsn, "DELETE FROM totals", back, "UPDATE substrait_agg_versions SET version = 4")
    assert saved == [(len(KeyedView(4).rows(4)),)]
    deliver(output_to(dsn), tmp_path, KeyedView(9))
    assert rows(dsn) == KeyedView(9).rows(9)


def test_a_server_that_is_gone_is_tried_again(tmp_path: Path) -> None:
    with running(tmp_path / "server") as server:
        dsn = server.database()
        deliver(output_to(dsn), tmp_path, KeyedView(2))
        with opened(output_to(dsn), tmp_path) as sink:
            server.stop("immediate")
            for _ in range(2):
                with refused("OUTPUT_NOT_REACHABLE", RunFailed):
                    sink.deliver(KeyedView(3).changes(2), 3)
            # A run can begin meanwhile, as the record says where the output is.
            with opened(output_to(dsn), tmp_path) as later:
                assert later.position == 2
                server.start()
                sink.deliver(KeyedView(3).changes(2), 3)
                later.deliver(KeyedView(3).changes(2), 3)
                later.deliver(KeyedView(4).changes(3), 4)
        assert rows(dsn) == KeyedView(4).rows(4)


def test_a_first_run_needs_the_server(tmp_path: Path) -> None:
    with refused("OUTPUT_NOT_REACHABLE", RunFailed):
        deliver(output_to("postgresql://postgres@127.0.0.1:1/x"), tmp_path, KeyedView(1))


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        pytest.param("SELECT 1", ("a\0b", 1, 1, None), id="a text with a zero byte"),
        pytest.param("ALTER TABLE totals ADD CHECK (item < 9)", ("a", 9, 1, None), id="a check"),
        pytest.param("ALTER TABLE totals DROP COLUMN note", ("a", 8, 1, None), id="another table"),
    ],
)
def test_an_error_that_stays_is_not_tried_again(
    statement: str, values: tuple[Any, ...], dsn: str, tmp_path: Path
) -> None:
    with opened(output_to(dsn), tmp_path) as sink:
        sink.deliver(changes_of([("n", 1, 1, None, 0, 1)]), 0)
        run(dsn, statement)
        with refused("OUTPUT_NOT_WRITTEN"):
            sink.deliver(changes_of([(*values, 1, 1)]), 1)
        assert run(dsn, "SELECT shop FROM totals") == [("n",)]
        assert run(dsn, VERSIONS) == [("", 0, True)]


def test_a_lock_is_waited_for_and_not_an_error_that_stays(dsn: str, tmp_path: Path) -> None:
    with opened(output_to(dsn), tmp_path) as sink:
        sink.deliver(changes_of([("n", 1, 1, None, 0, 1)]), 0)
        with closing(psycopg2.connect(dsn)) as other, other.cursor() as cursor:
            cursor.execute("LOCK TABLE totals")
            with sink._session.transaction() as own:
                own.execute("SET lock_timeout = '50ms'")
            with refused("OUTPUT_NOT_REACHABLE", RunFailed):
                sink.deliver(changes_of([("n", 2, 1, None, 1, 1)]), 1)
        sink.deliver(changes_of([("n", 2, 1, None, 1, 1)]), 1)
    assert len(rows(dsn)) == 2


# --- another plan -------------------------------------------------------------------------------


class EvolvedView(KeyedView):
    """A view whose column `note` is gone from version 3 on."""

    def evolutions(self) -> list[Any]:
        return [PlanChange(3, same_columns=False, same_tables=True)] if self.version >= 3 else []

    def retractions(self, version: int) -> Any:
        raise NotImplementedError

    def changes(self, since: int | None = None, until: int | None = None) -> Any:
        changes = super().changes(since, until)
        return changes if until is not None and until < 3 else _without_note(changes)


def _without_note(changes: Any) -> Any:
    return changes.drop_columns(["note"])


def test_another_plan_replaces_a_table_that_the_output_created(dsn: str, tmp_path: Path) -> None:
    view = KeyedView(4)
    with opened(output_to(dsn), tmp_path) as sink:
        for version in range(3):
            sink.deliver(view.changes(version - 1 if version else None, version), version)
        run(dsn, "CREATE VIEW dependent AS SELECT * FROM totals")
        old, new = view.changes(until=2), _without_note(view.changes(until=3))
        with refused("OUTPUT_NOT_WRITTEN"):
            sink.replace(old, new, 3)
        assert rows(dsn) == view.rows(2)
        run(dsn, "DROP VIEW dependent")
        sink.replace(old, new, 3)
        sink.deliver(_without_note(view.changes(3, 4)), 4)
    found = run(dsn, "SELECT * FROM totals")
    assert set(found) == {row[:3] for row in view.rows(4)}
    assert run(dsn, VERSIONS) == [("", 4, True)]


def test_another_plan_does_not_replace_a_table_of_the_user(dsn: str, tmp_path: Path) -> None:
    columns = "shop text, item bigint, total numeric(12,2), note text"
    run(dsn, f"CREATE TABLE totals ({columns}, UNIQUE NULLS NOT DISTINCT (shop, item))")
    deliver(output_to(dsn), tmp_path, KeyedView(2))
    with opened(output_to(dsn), tmp_path) as sink:
        assert not sink.changes_columns
    with (
        refused("OUTPUT_OF_OTHER_PLAN"),
        closing(Delivery([output_to(dsn)], checkpoint=tmp_path)) as delivery,
    ):
        delivery.deliver(cast("Any", EvolvedView(4)))
    assert rows(dsn) == KeyedView(2).rows(2)


def test_new_names_of_the_same_columns_rename_the_columns(dsn: str, tmp_path: Path) -> None:
    """Also where names are exchanged."""
    with opened(output_to(dsn), tmp_path) as sink:
        sink.deliver(KeyedView(0).changes(), 0)
        changes = KeyedView(1).changes(0)
        names = ["note", "piece", "total", "shop", "__version", "__weight"]
        other = changes.rename_columns(names).replace_schema_metadata(changes.schema.metadata)
        sink.deliver(other, 1)
    found = run(dsn, "SELECT note, piece, total, shop FROM totals")
    assert set(found) == KeyedView(1).rows(1)


# --- how to connect -----------------------------------------------------------------------------


def test_a_service_and_the_environment_say_where(
    server: Server, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = dsn.rpartition("/")[2]
    place = f"host=127.0.0.1\nport={server.port}\nuser=postgres\ndbname={name}\n"
    (tmp_path / "services").write_text(f"[shop]\n{place}")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    deliver("postgres=public.totals?service=shop", tmp_path, KeyedView(2))
    assert rows(dsn) == KeyedView(2).rows(2)
    for line in place.splitlines():
        key, _, value = line.partition("=")
        monkeypatch.setenv({"dbname": "PGDATABASE"}.get(key, f"PG{key.upper()}"), value)
    deliver("postgres=public.others", tmp_path, KeyedView(3))
    assert rows(dsn, "others") == KeyedView(3).rows(3)


def test_passwords_are_shown_nowhere(dsn: str, tmp_path: Path) -> None:
    secret = "pa:ss/w@rd&1"
    for text in (
        dsn.replace("postgres@", f"postgres:{quote(secret, safe='')}@"),
        f"host=127.0.0.1 port=1 user=postgres password='{secret}'",
        f"postgresql:///x?bad={quote(secret)}&password={quote(secret, safe='')}",
    ):
        output = output_to(text)
        spec = parse_output(output)
        shown = f"{spec} {spec!r}"
        try:
            check_outputs([output], tmp_path)
            deliver(output, tmp_path, KeyedView(1))
        except SubstraitAggError as error:
            shown += f"{error} {error.help} {error.__cause__}"
        shown += "".join(p.read_text() for p in tmp_path.rglob("*.json"))
        assert secret not in shown
        assert quote(secret, safe="") not in shown
    assert rows(dsn) == KeyedView(1).rows(1)


def test_a_new_password_is_no_other_output(dsn: str, tmp_path: Path) -> None:
    deliver(output_to(dsn.replace("postgres@", "postgres:first@")), tmp_path, KeyedView(1))
    deliver(output_to(dsn.replace("postgres@", "postgres:second@")), tmp_path, KeyedView(4))
    assert rows(dsn) == KeyedView(4).rows(4)


@pytest.mark.parametrize(
    "text",
    [
        "totals",
        ".totals",
        "public.",
        "a.b.c",
        f"public.{'x' * 64}",
        "public.t?notify=",
        "public.t?service=a&dsn=b",
        "public.t?user=me",
        "public.t?service",
        "",
    ],
)
def test_a_target_that_cannot_be_is_refused(text: str) -> None:
    with refused("OPTION_INVALID", UsageError):
        parse_output(f"postgres={text}")


def test_two_outputs_to_one_table_are_refused(dsn: str, tmp_path: Path) -> None:
    other = dsn.replace("postgres@", "somebody:else@")
    with refused("OPTION_CONFLICT", UsageError):
        check_outputs([f"a={output_to(dsn)}", f"b={output_to(other)}"], tmp_path)
    check_outputs([output_to(dsn), output_to(dsn, "public.others")], tmp_path)
