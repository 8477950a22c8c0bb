"""Runs over connectors: positions in versions, exactly once, keys and weights, several sources in one plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.connect import registry
from substrait_agg.connect.protocol import ConnectedTable
from substrait_agg.connect.registry import Kind
from substrait_agg.spark.execution import checkpoint_files
from substrait_agg.spark.execution.checkpoint_files import GivenRowsWriter
from substrait_agg.spark.positions.connectors import Connectors
from tests.connect import memory
from tests.connect.memory import DATABASES, Database
from tests.e2e.rows import Bag, bag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ACCOUNTS = pa.schema([("id", pa.int64()), ("owner", pa.string()), ("balance", pa.int64())])
TOTALS = "SELECT owner, sum(balance) AS s, count(*) AS n FROM accounts GROUP BY owner"


@pytest.fixture(autouse=True)
def database() -> Iterator[Database]:
    """A database ``bank`` with one table whose changes have the old rows, and one with keys."""
    made = Database(
        {
            "accounts": ConnectedTable(ACCOUNTS, (), "with the old row"),
            "owners": ConnectedTable(
                pa.schema([("owner", pa.string()), ("town", pa.string())]), ("owner",), "by key"
            ),
        }
    )
    kinds = {**registry.KINDS, "memory": Kind(memory.__name__, frozenset({"secret"}))}
    with patch.dict(DATABASES, {"bank": made}), patch.object(registry, "KINDS", kinds):
        from substrait_agg.spark.sources import specs

        with patch.object(specs, "KINDS", kinds):
            yield made


def maintain(spark: SparkSession, query: str, folder: Path, **more: Any) -> sa.View:
    sources = {"accounts": "memory:bank/accounts", **more.pop("sources", {})}
    sources = {name: source for name, source in sources.items() if source and name in query}
    plan = sa.sql(query, sources)
    sa.run(plan, sources, checkpoint=folder, spark=spark, outputs=["none"], **more).wait()
    return sa.open_view(folder)


def shown(view: sa.View) -> Bag:
    return bag(view.to_arrow())


def test_rows_with_weights(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    """The columns come from the source, and the position is in the version."""
    database.commit(accounts=[(1, "ada", 10, 1), (2, "bo", 5, 1)])
    database.commit(accounts=[(1, "ada", 10, -1), (1, "ada", 7, 1)])
    view = maintain(spark, TOTALS, tmp_path / "c")
    assert shown(view) == Counter({("ada", 7, 1): 1, ("bo", 5, 1): 1})
    assert database.read == [(0, 2)]
    last = Checkpoint(tmp_path / "c").newest_snapshot()
    assert last is not None
    assert last.positions.connected == {"memory:bank": "2"}
    database.commit(accounts=[(2, "bo", 5, -1)])
    view = maintain(spark, TOTALS, tmp_path / "c")
    assert shown(view) == Counter({("ada", 7, 1): 1})
    assert database.read == [(0, 2), (2, 3)]
    assert database.kept_from == 3


def test_rows_with_keys(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    """A row replaces that of its key; a weight of -1 deletes it."""
    query = "SELECT town, count(*) AS n FROM owners GROUP BY town"
    sources = {"owners": "memory:bank/owners"}
    database.commit(owners=[("ada", "York", 1), ("bo", "York", 1), ("ada", "Bath", 1)])
    view = maintain(spark, query, tmp_path / "c", sources=sources)
    assert shown(view) == Counter({("York", 1): 1, ("Bath", 1): 1})
    database.commit(owners=[("ada", None, -1), ("bo", "Bath", 1)])
    view = maintain(spark, query, tmp_path / "c", sources=sources)
    assert shown(view) == Counter({("Bath", 1): 1})


def test_tables_of_one_database_and_files(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    """A join of two tables of one position, and of a table of files with its own."""
    (tmp_path / "towns").mkdir()
    pq.write_table(
        pa.table({"town": ["York", "Bath"], "land": ["N", "S"]}), tmp_path / "towns" / "a.parquet"
    )
    query = (
        "SELECT t.land, sum(a.balance) AS s FROM accounts a JOIN owners o ON a.owner = o.owner "
        "JOIN towns t ON o.town = t.town GROUP BY t.land"
    )
    sources = {"owners": "memory:bank/owners", "towns": f"parquet:{tmp_path / 'towns'}"}
    database.commit(accounts=[(1, "ada", 10, 1)], owners=[("ada", "York", 1)])
    view = maintain(spark, query, tmp_path / "c", sources=sources)
    assert shown(view) == Counter({("N", 10): 1})
    database.commit(accounts=[(1, "ada", 10, -1), (1, "ada", 4, 1)], owners=[("ada", "Bath", 1)])
    view = maintain(spark, query, tmp_path / "c", sources=sources)
    assert shown(view) == Counter({("S", 4): 1})
    assert len(database.read) == 2


@pytest.mark.parametrize("when", ["before the commit", "after the commit"])
def test_a_run_that_ends_around_the_commit(
    spark: SparkSession, database: Database, tmp_path: Path, when: str
) -> None:
    """The next run reads the rows again, or goes on after them: every row counts once."""
    database.commit(accounts=[(1, "ada", 10, 1)])
    target = (
        patch.object(Checkpoint, "publish", side_effect=OSError("killed"))
        if when == "before the commit"
        else patch.object(Connectors, "commit", side_effect=OSError("killed"))
    )
    maintain(spark, TOTALS, tmp_path / "c")
    database.commit(accounts=[(2, "bo", 5, 1)])
    with target, pytest.raises(OSError, match="killed"):
        maintain(spark, TOTALS, tmp_path / "c")
    assert database.kept_from == 1
    assert shown(maintain(spark, TOTALS, tmp_path / "c")) == Counter(
        {("ada", 10, 1): 1, ("bo", 5, 1): 1}
    )


def test_a_target_duration_limits_what_is_read(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    for i in range(3):
        database.commit(accounts=[(i, "ada", 1, 1)])
    run = sa.run(
        sa.sql(TOTALS, {"accounts": "memory:bank/accounts"}), {"accounts": "memory:bank/accounts"},
        checkpoint=tmp_path / "c", spark=spark, outputs=["none"], until="0", latency="1s",
    )  # fmt: skip
    while sa.open_view(tmp_path / "c").version < 3:
        pass
    run.stop()
    assert database.read == [(0, 1), (1, 2), (2, 3)]


def test_a_required_column_without_a_value(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    """The plan says that no value is null; the source has one."""
    database.commit(accounts=[(1, None, 10, 1)])
    plan = sa.sql(
        "CREATE TABLE accounts (id BIGINT, owner STRING NOT NULL, balance BIGINT);\n" + TOTALS
    )
    with pytest.raises(sa.RunFailed) as failed:
        sa.run(
            plan, {"accounts": "memory:bank/accounts"}, checkpoint=tmp_path / "c", spark=spark,
            outputs=["none"],
        ).wait()  # fmt: skip
    assert failed.value.code == "NULL_IN_REQUIRED_COLUMN"


def test_another_type_than_the_plan_has(spark: SparkSession, tmp_path: Path) -> None:
    plan = sa.sql(
        "CREATE TABLE accounts (owner STRING, balance INT);\nSELECT owner, balance FROM accounts"
    )
    source = {"accounts": "memory:bank/accounts"}
    with pytest.raises(sa.InputRefused) as refused:
        sa.run(plan, source, checkpoint=tmp_path / "c", spark=spark, outputs=["none"])
    assert refused.value.code == "COLUMN_TYPE_MISMATCH"


@pytest.mark.parametrize("key", ["key", "weight", "batch-files", "other"])
def test_options_that_a_connector_does_not_take(key: str) -> None:
    with pytest.raises(sa.UsageError) as refused:
        sa.sql(TOTALS, {"accounts": f"memory:bank/accounts?{key}=1"})
    assert refused.value.code == "SPEC_OPTION_UNKNOWN"


def test_explain_says_how_changes_come() -> None:
    plan = sa.sql(TOTALS, {"accounts": "memory:bank/accounts"})
    text = sa.explain(plan, sources={"accounts": "memory:bank/accounts"})
    assert "source accounts: with the old row" in text
    assert "assumed" not in text


def test_the_lag_of_a_source_is_a_metric(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    database.commit(accounts=[(1, "ada", 10, 1)])
    with patch.object(memory.Memory, "lag", lambda _: {"bytes": 7.0}):
        maintain(spark, TOTALS, tmp_path / "c", metrics=tmp_path / "m.prom")
    lines = (tmp_path / "m.prom").read_text().splitlines()
    (lag,) = (line for line in lines if line.startswith("substrait_agg_source_lag{"))
    assert 'source="memory:bank",measure="bytes"' in lag
    assert float(lag.rpartition(" ")[2]) == 7


def test_many_rows_for_spark(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    """Spark reads many rows, which the driver cannot compute, from files; no file stays."""
    owners = [f"owner {i % 50} " + "x" * 100 for i in range(20_000)]
    database.commit(accounts=[(i, owner, i, 1) for i, owner in enumerate(owners)])
    query = "SELECT soundex(owner) AS code, sum(balance) AS s FROM accounts GROUP BY soundex(owner)"
    with patch.object(checkpoint_files, "FILE_BYTES", 1 << 20):
        view = maintain(spark, query, tmp_path / "c")
    assert shown(view) == Counter({("O562", sum(range(20_000))): 1})
    assert not list((tmp_path / "c" / "changes").glob("*input*"))


def test_deleted_keys_of_required_columns(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    """A deleted row comes as its key: its other columns are null, although the table has no nulls."""
    columns = [("owner", pa.string()), ("town", pa.string())]
    required = pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])
    database.tables["owners"] = ConnectedTable(required, ("owner",), "by key")
    database.commit(owners=[("ada", "Rome", 1), ("bo", "Oslo", 1), ("cy", "Rome", 1)])
    query = "SELECT town, count(*) AS n FROM owners GROUP BY town"
    source = {"owners": "memory:bank/owners"}
    view = maintain(spark, query, tmp_path / "c", sources=source)
    assert shown(view) == Counter({("Rome", 2): 1, ("Oslo", 1): 1})
    database.commit(owners=[("ada", None, -1), ("bo", "Rome", 1)])
    view = maintain(spark, query, tmp_path / "c", sources=source)
    assert shown(view) == Counter({("Rome", 2): 1})


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_files_have_the_values_of_rows(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    """Rows that Spark reads from a file are those that it gets within a plan."""
    old, new = datetime(1, 1, 1, 12), datetime(9999, 12, 31, 23, 59, 59, 999999)
    wall = pa.array([old, None, datetime(1883, 11, 18, 12, 3, 57), new], pa.timestamp("us"))
    rows = pa.table(
        {
            "flag": [True, None, False, True],
            "tiny": pa.array([-128, None, 127, 0], pa.int8()),
            "big": pa.array([-(2**63), None, 2**63 - 1, 0], pa.int64()),
            "real": pa.array([1e-45, None, -0.0, float("inf")], pa.float32()),
            "number": pa.array([Decimal("9" * 28 + ".0123456789"), None, Decimal(0), Decimal(-1)], pa.decimal128(38, 10)),
            "text": pa.array(["", None, "\0ÿ", "x" * 70_000], pa.large_string()),
            "bytes": [b"", None, b"\0\xff", b"x"],
            "day": pa.array([date.min, None, date(1582, 10, 10), date.max], pa.date32()),
            "wall": wall,
            "instant": wall.cast(pa.timestamp("us", "UTC")),
            "list": [[1, None], None, [], [2]],
            "pair": [{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 2, "b": ""}],
        }
    )  # fmt: skip
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    seen = []
    for most in (1 << 20, 0):
        with patch.object(checkpoint_files, "EMBEDDED_BYTES", most):
            writer = GivenRowsWriter(session, FolderFiles(tmp_path), 1)
            frame = writer.frame(rows)
            seen.append((frame.schema, frame.toArrow()))
            assert bool(list(tmp_path.iterdir())) == (most == 0)
            writer.close()
    assert seen[0] == seen[1]
    assert not list(tmp_path.iterdir())
