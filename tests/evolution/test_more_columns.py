"""Operators that need more columns are rebuilt from the files that their checkpoint has read, or refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import substrait_agg as sa
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import StateRefused
from tests.e2e.rows import bag
from tests.local.run import LocalRun, run
from tests.refresh.test_rebuild import rows_of, tables_of
from tests.sampling import sample
from tests.spark_plans import plan_query
from tests.views.brokerage import TABLES

pytestmark = pytest.mark.usefixtures("spark")

T_A = "trades t JOIN accounts a ON t.account_id = a.account_id"
T_A_C = f"{T_A} JOIN customers c ON a.customer_id = c.customer_id"
PER_ACCOUNT = "(SELECT account_id, sum(quantity) q FROM trades GROUP BY account_id) p"

QUERIES = {
    "measures of a table": (
        "SELECT symbol, sum(quantity) s FROM trades GROUP BY symbol",
        ("SELECT symbol, sum(quantity) s, max(price) m, count(DISTINCT account_id) d, sum(quantity) FILTER (WHERE "
        "price > 3) f FROM trades GROUP BY symbol"),
    ),
    "measures below an aggregate": (
        "SELECT count(*) n FROM (SELECT symbol, min(quantity) q FROM trades GROUP BY symbol) x WHERE q > 1",
        ("SELECT count(*) n, max(p) p FROM (SELECT symbol, min(quantity) q, max(price) p FROM trades GROUP BY symbol) x "
        "WHERE q > 1"),
    ),
    "measures above two joins": (
        f"SELECT c.tier, count(*) n FROM {T_A_C} GROUP BY c.tier",
        f"SELECT c.tier, count(*) n, sum(t.quantity * t.price) v, max(a.broker) b FROM {T_A_C} GROUP BY c.tier",
    ),
    "rows of a left join": (
        f"SELECT t.trade_id, a.broker FROM {T_A.replace('JOIN', 'LEFT JOIN')}",
        f"SELECT t.trade_id, a.broker, a.closed, t.symbol FROM {T_A.replace('JOIN', 'LEFT JOIN')}",
    ),
    "rows of a full join": (
        f"SELECT t.trade_id FROM {T_A.replace('JOIN', 'FULL JOIN')}",
        f"SELECT t.trade_id, a.broker FROM {T_A.replace('JOIN', 'FULL JOIN')}",
    ),
    "rows of an anti join": (
        ("SELECT account_id FROM accounts a WHERE NOT EXISTS "
        "(SELECT 1 FROM trades t WHERE t.account_id = a.account_id)"),
        ("SELECT account_id, broker FROM accounts a WHERE NOT EXISTS "
        "(SELECT 1 FROM trades t WHERE t.account_id = a.account_id)"),
    ),
    "a join over an aggregate": (
        f"SELECT p.q FROM {PER_ACCOUNT} JOIN accounts a ON p.account_id = a.account_id",
        f"SELECT p.q, a.broker FROM {PER_ACCOUNT} JOIN accounts a ON p.account_id = a.account_id",
    ),
    "other groups": (
        f"SELECT a.broker, sum(t.quantity) s FROM {T_A} GROUP BY a.broker",
        f"SELECT a.broker, t.symbol, sum(t.quantity) s FROM {T_A} GROUP BY a.broker, t.symbol",
    ),
    "the first rows": (
        f"SELECT a.broker, sum(t.quantity) s FROM {T_A} GROUP BY a.broker ORDER BY s DESC, a.broker LIMIT 1",
        (f"SELECT a.broker, sum(t.quantity) s, min(t.price) m FROM {T_A} GROUP BY a.broker "
        "ORDER BY s DESC, a.broker LIMIT 1"),
    ),
    "first rows of a join": (
        f"SELECT t.trade_id, a.broker FROM {T_A} ORDER BY t.trade_id DESC LIMIT 5",
        f"SELECT t.trade_id, a.broker, t.price FROM {T_A} ORDER BY t.trade_id DESC LIMIT 5",
    ),
}  # fmt: skip


def plan_of(query: str) -> sa.Plan:
    return plan_query(query, {name: TABLES[name] for name in TABLES if name in query})


def used(given: Mapping[str, str], query: str) -> dict[str, str]:
    return {name: spec for name, spec in given.items() if name in query}


def begin(
    query: str, given: Mapping[str, Any], checkpoint: Path, batches: int, **options: Any
) -> None:
    started = LocalRun(
        plan_of(query), used(given, query), checkpoint=checkpoint, outputs=["none"], **options
    )
    for _ in range(batches):
        assert started.batch()


@pytest.mark.parametrize(
    "what",
    sample(
        QUERIES,
        "measures of a table",
        "measures above two joins",
        "rows of a left join",
        "the first rows",
        "first rows of a join",
    ),
)
def test_the_view_is_that_of_a_run_with_the_new_plan(tmp_path: Path, what: str) -> None:
    """At the version of the evolution, and at all later ones; the state is exact, too."""
    before, after = QUERIES[what]
    given = tables_of(tmp_path, [*QUERIES].index(what), batches=4)
    begin(before, given, tmp_path / "c", 3)
    run(
        plan_of(after), used(given, after), checkpoint=tmp_path / "c", outputs=["none"], evolve=True
    ).wait()
    run(plan_of(after), used(given, after), checkpoint=tmp_path / "whole", outputs=["none"]).wait()
    found, wanted = rows_of(tmp_path / "c"), rows_of(tmp_path / "whole")
    assert found[4:] == wanted[3:], "version 4 is the evolution after three batches"
    assert any(wanted)
    new, whole = sa.open_view(tmp_path / "c"), sa.open_view(tmp_path / "whole")
    for version in range(5, new.version + 1):
        changes = new.changes(version - 1, version), whole.changes(version - 2, version - 1)
        assert bag(changes[0].drop_columns(["__version"])) == bag(
            changes[1].drop_columns(["__version"])
        )
    verdict = sa.open_state(tmp_path / "c").verify(deep=True, sources=used(given, after))
    assert not verdict.findings


def test_static_tables_and_a_plan_before_its_first_batch(tmp_path: Path) -> None:
    """Rows of static tables are those of the first version; a stream without a batch has no rows yet."""
    before, after = QUERIES["measures above two joins"]
    given = tables_of(tmp_path, 3, batches=2)
    for file in sorted((tmp_path / "customers").glob("*")):
        file.unlink()
    rows = [{"customer_id": i, "name": f"customer {i}", "tier": i % 3} for i in range(40)]
    pq.write_table(
        pa.Table.from_pylist(rows, TABLES["customers"]), tmp_path / "customers" / "0.parquet"
    )
    given["customers"] = f"parquet:{tmp_path / 'customers'}?static=true"
    for batches in (0, 1):
        checkpoint, whole = tmp_path / f"c{batches}", tmp_path / f"w{batches}"
        begin(before, given, checkpoint, batches)
        run(plan_of(after), given, checkpoint=checkpoint, outputs=["none"], evolve=True).wait()
        run(plan_of(after), given, checkpoint=whole, outputs=["none"]).wait()
        assert rows_of(checkpoint)[-1] == rows_of(whole)[-1]
        assert rows_of(checkpoint)[-1] != rows_of(checkpoint)[0]
        assert not sa.open_state(checkpoint).verify(deep=True, sources=given).findings


def test_a_join_that_has_all_columns_is_not_read_again(tmp_path: Path) -> None:
    """Only the operators without the columns are rebuilt; the files of other state stay."""
    given = tables_of(tmp_path, 5)
    before = (
        "SELECT * FROM (SELECT a.broker k, count(*) n FROM trades t JOIN accounts a ON t.account_id = a.account_id "
        "GROUP BY a.broker) x UNION ALL SELECT * FROM (SELECT c.name k, count(*) n FROM accounts a JOIN customers c "
        "ON a.customer_id = c.customer_id GROUP BY c.name) y"
    )
    after = before.replace("a.broker k, count(*) n", "a.broker k, sum(t.quantity) n")
    begin(before, given, tmp_path / "c", 3)
    old = Checkpoint(tmp_path / "c").newest_snapshot()
    LocalRun(plan_of(after), given, checkpoint=tmp_path / "c", outputs=["none"], evolve=True)
    new = Checkpoint(tmp_path / "c").newest_snapshot()
    assert old is not None
    assert new is not None
    kept = {run.name for state in old.operators for runs in state.trees.values() for run in runs}
    now = [{run.name for runs in state.trees.values() for run in runs} for state in new.operators]
    assert any(names and names <= kept for names in now)
    assert any(names and not names & kept for names in now)


def refusal(query: str, given: Mapping[str, Any], checkpoint: Path, **options: Any) -> StateRefused:
    with pytest.raises(StateRefused) as refused:
        LocalRun(
            plan_of(query),
            used(given, query),
            checkpoint=checkpoint,
            outputs=["none"],
            evolve=True,
            **options,
        )
    assert Checkpoint(checkpoint).newest_snapshot() is not None
    return refused.value


def test_files_that_are_not_as_they_were_are_refused(tmp_path: Path) -> None:
    before, after = QUERIES["measures above two joins"]
    given = tables_of(tmp_path, 1, batches=3)
    begin(before, given, tmp_path / "c", 2)
    file = tmp_path / "trades" / "0001.parquet"
    time = file.stat().st_mtime_ns
    os.utime(file, ns=(time, time + 5_000_000))
    error = refusal(after, given, tmp_path / "c")
    assert error.code == "EVOLVE_REFUSED"
    assert "now reads" in error.message
    assert "only the new plan reads" in error.message
    assert "quantity of trades" in error.message
    assert "trades cannot be read again" in error.message
    assert "0001.parquet has been modified" in error.message
    assert "--checkpoint" in (error.help or "")
    file.rename(tmp_path / "elsewhere")
    assert "0001.parquet is gone" in refusal(after, given, tmp_path / "c").message
    (tmp_path / "elsewhere").rename(file)
    os.utime(file, ns=(time, time))
    LocalRun(plan_of(after), given, checkpoint=tmp_path / "c", outputs=["none"], evolve=True)


def test_rows_that_may_wait_or_have_left_are_refused(tmp_path: Path) -> None:
    """Groups that a time to live evicted, and rows in quarantine, are not those of all rows."""
    given = tables_of(tmp_path, 1, batches=2)
    before, after = QUERIES["a join over an aggregate"]
    begin(before, given, tmp_path / "ttl", 2, ttl="10d:keep")
    assert "closed or evicted" in refusal(after, given, tmp_path / "ttl", ttl="10d:keep").message
    before, after = QUERIES["measures above two joins"]
    begin(before, given, tmp_path / "wait", 2, early_retraction="quarantine")
    refusal(after, given, tmp_path / "wait", early_retraction="quarantine")


def test_measures_that_depend_on_the_past_are_refused(tmp_path: Path) -> None:
    """The order of arrival within a batch, and groups that wait, are not in the files."""
    given = tables_of(tmp_path, 1, batches=2)
    before, after = QUERIES["measures of a table"]
    begin(before, given, tmp_path / "c", 2)
    first = before.replace("sum(quantity) s", "sum(quantity) s, first_value(price) f")
    assert "in which rows arrived" in refusal(first, given, tmp_path / "c").message
    begin(before, given, tmp_path / "wait", 2, emit="count:1000000")
    assert "emitted" in refusal(after, given, tmp_path / "wait", emit="count:1000000").message
    begin(before, given, tmp_path / "other", 1)
    file = tmp_path / "trades" / "0000.parquet"
    file.touch()
    message = refusal(after, given, tmp_path / "other").message
    assert "max" in message
    assert "not in the stored state" in message
    assert "only the new plan reads" in message
    assert "price of trades" in message
    assert "has been modified" in message
