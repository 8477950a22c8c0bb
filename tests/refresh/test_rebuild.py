"""Views that batches compute again have the rows and the changes of incremental batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

import substrait_agg as sa
from substrait_agg.commit.documents.positions import ReadFile
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import RunFailed
from substrait_agg.recompute.whole_input import input_size
from substrait_agg.refresh.cost_model import CostHistory, Estimate, InputSize
from substrait_agg.refresh.policies import REFRESH_POLICIES
from substrait_agg.scripts.pipeline import PlanSet, scripts_in
from tests.local.run import LocalRun, run
from tests.sampling import seeds
from tests.spark_plans import plan_query, plan_views
from tests.views.brokerage import PIPELINE, TABLES, Brokerage, sources, write

pytestmark = pytest.mark.usefixtures("spark")

QUERIES = {
    "aggregate": "SELECT symbol, sum(quantity) s, min(price) a, max(trade_date) z, count(DISTINCT account_id) d, "
    "median(quantity) m, string_agg(status, ',') WITHIN GROUP (ORDER BY status) t FROM trades GROUP BY symbol",
    "global": "SELECT count(*) n, sum(CAST(quantity AS double)) s, stddev_samp(quantity) d FROM trades",
    "rows": "SELECT symbol, quantity FROM trades WHERE quantity > 3",
    "sets": "SELECT symbol, status, sum(quantity) s FROM trades GROUP BY ROLLUP (symbol, status)",
    "stacked": "SELECT n, count(*) c FROM (SELECT account_id, count(*) n FROM trades GROUP BY account_id) t GROUP BY n",
    "joins": "SELECT c.tier, sum(t.quantity * t.price) v FROM trades t JOIN accounts a ON t.account_id = a.account_id "
    "LEFT JOIN customers c ON a.customer_id = c.customer_id GROUP BY c.tier",
    "anti": "SELECT account_id, broker FROM accounts a WHERE NOT EXISTS "
    "(SELECT 1 FROM trades t WHERE t.account_id = a.account_id)",
    "greatest": "SELECT symbol, sum(quantity) s FROM trades GROUP BY symbol ORDER BY s DESC, symbol LIMIT 2",
    "difference": "SELECT account_id FROM accounts EXCEPT SELECT account_id FROM trades",
    "repeated": "SELECT symbol, count(*) n, count(*) m, max(price) a, max(price) z FROM trades GROUP BY symbol",
    "written": "SELECT v.word, sum(t.quantity) s FROM (VALUES ('AAA', 'first'), ('BBB', 'second')) v(symbol, word) "
    "JOIN trades t ON t.symbol = v.symbol GROUP BY v.word",
}  # fmt: skip

Changes = list[Counter[tuple[Any, ...]]]


def changes_of(checkpoint: Path, name: str | None = None) -> Changes:
    """Return, per version, the weight of each changed row."""
    view = sa.open_view(checkpoint, name)
    found = []
    for version in view.versions():
        changes: Counter[tuple[Any, ...]] = Counter()
        for row in view.changes(version - 1 if version else None, version).to_pylist():
            *values, _, weight = row.values()
            changes[tuple(map(repr, values))] += weight
        found.append(changes)
    return found


def rows_of(checkpoint: Path, name: str | None = None) -> list[Counter[tuple[Any, ...]]]:
    """Return the rows of every version."""
    view = sa.open_view(checkpoint, name)
    tables = (view.to_arrow(version).to_pylist() for version in view.versions())
    return [Counter(tuple(map(repr, row.values())) for row in table) for table in tables]


@contextmanager
def chosen_at_random(random: Random) -> Iterator[None]:
    """Let ``auto`` choose at random."""

    def estimate(_: CostHistory, __: InputSize) -> Estimate:
        return Estimate(random.random(), random.random())

    with patch.object(CostHistory, "estimate", estimate):
        yield


def rebuilt(checkpoint: Path) -> int:
    """Return the number of retained versions in which operators were computed again."""
    store = Checkpoint(checkpoint)
    return sum(bool(store.snapshot(v).refresh.operators) for v in store.versions())


def tables_of(folder: Path, seed: int, batches: int = 6, rows: int = 40) -> dict[str, str]:
    """Write random changes of the tables, and return their sources."""
    world = Brokerage(seed)
    for number in range(batches):
        write(folder, number, world.batch(rows))
    return sources(folder)


def in_pieces(plan: Any, given: Mapping[str, str], batches: Iterable[int], **options: Any) -> None:
    """Run a plan, and start again after some numbers of batches."""
    for count in batches:
        started = LocalRun(plan, given, outputs=["none"], **options)
        for _ in range(count):
            started.batch()
    run(plan, given, outputs=["none"], **options).wait()


@pytest.mark.parametrize("query", QUERIES)
def test_every_policy_gives_the_same_rows_and_changes(tmp_path: Path, query: str) -> None:
    seed = [*QUERIES].index(query)
    given = tables_of(tmp_path, seed)
    used = {name: spec for name, spec in given.items() if name in QUERIES[query]}
    plan = plan_query(QUERIES[query], {name: TABLES[name] for name in used})
    for policy in ("incremental", "full", "auto"):
        with chosen_at_random(Random(seed)):
            in_pieces(plan, used, (2, 1), checkpoint=tmp_path / policy, refresh=policy)
        assert sa.open_state(tmp_path / policy).verify().ok
    wanted = changes_of(tmp_path / "incremental")
    assert len(wanted) == 7
    assert any(wanted)
    for policy in ("full", "auto"):
        assert rows_of(tmp_path / policy) == rows_of(tmp_path / "incremental"), policy
        assert changes_of(tmp_path / policy) == wanted, policy
        assert rebuilt(tmp_path / policy)
    assert rebuilt(tmp_path / "full") == 6
    assert rebuilt(tmp_path / "auto") < 6


def brokerage() -> PlanSet:
    return plan_views(scripts_in(PIPELINE), TABLES)


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_views_of_a_pipeline_with_policies_of_their_own(tmp_path: Path, seed: int) -> None:
    random, plans = Random(seed), brokerage()
    given = tables_of(tmp_path, seed)
    run(plans, given, checkpoint=tmp_path / "incremental", outputs=["none"]).wait()
    stored = sorted(plans.keys() - plans.temporary)
    for attempt in range(3):
        policies = {v: random.choice(("incremental", "full", "auto")) for v in stored}
        checkpoint = tmp_path / str(attempt)
        with chosen_at_random(random), suppress(sa.UsageError):
            in_pieces(plans, given, (3,), checkpoint=checkpoint, refresh=policies)
        if not checkpoint.exists():  # a view shares rows that are not stored with another policy
            continue
        for view in stored:
            assert changes_of(checkpoint, view) == changes_of(tmp_path / "incremental", view), view
            assert rows_of(checkpoint, view) == rows_of(tmp_path / "incremental", view), view
        assert sa.open_state(checkpoint).verify().ok
    run(plans, given, checkpoint=tmp_path / "full", outputs=["none"], refresh="full").wait()
    for view in stored:
        assert changes_of(tmp_path / "full", view) == changes_of(tmp_path / "incremental", view)
    assert rebuilt(tmp_path / "full") == 6


def test_a_full_view_over_an_incremental_one(tmp_path: Path) -> None:
    """Only the operators of the full view are computed again, from the rows of the other view."""
    plans = plan_views(
        {
            "a.sql": "CREATE VIEW per_account AS SELECT account_id, sum(quantity) q FROM trades GROUP BY account_id;"
            "CREATE VIEW sizes AS SELECT q, count(*) n FROM per_account GROUP BY q;"
        },
        TABLES,
    )
    given = {"trades": tables_of(tmp_path, 3)["trades"]}
    run(plans, given, checkpoint=tmp_path / "i", outputs=["none"]).wait()
    for policies, operators in (("sizes=full", (1,)), ("per_account=full", (0,)), ("full", (0, 1))):
        checkpoint = tmp_path / policies
        in_pieces(plans, given, (3,), checkpoint=checkpoint, refresh=policies)
        last = Checkpoint(checkpoint).newest_snapshot()
        assert last is not None
        assert last.refresh.operators == operators
        for view in ("per_account", "sizes"):
            assert changes_of(checkpoint, view) == changes_of(tmp_path / "i", view), policies


def test_a_policy_can_change_between_runs(tmp_path: Path) -> None:
    given = {"trades": tables_of(tmp_path, 5)["trades"]}
    plan = plan_query(QUERIES["aggregate"], {"trades": TABLES["trades"]})
    run(plan, given, checkpoint=tmp_path / "i", outputs=["none"]).wait()
    random = Random(0)
    for count in (1, 2, 1, 6):
        policy = random.choice([p for p in REFRESH_POLICIES if p != "incremental_strict"])
        started = LocalRun(plan, given, checkpoint=tmp_path / "c", outputs=["none"], refresh=policy)
        for _ in range(count):
            started.batch()
    assert changes_of(tmp_path / "c") == changes_of(tmp_path / "i")


@contextmanager
def without(file: Path) -> Iterator[None]:
    """Let a file that earlier batches have read be away while a batch looks for it."""

    def away(*files: Any) -> Any:
        aside = file.rename(file.with_suffix(".aside"))
        try:
            return input_size(*files)
        finally:
            aside.rename(file)

    with patch("tests.local.run.input_size", away):
        yield


@contextmanager
def overwritten(file: Path) -> Iterator[None]:
    """Let a file that earlier batches have read have other rows than then."""
    other = file.with_name("0001.parquet")
    file.write_bytes(other.read_bytes())
    yield


@pytest.mark.parametrize("change", [without, overwritten])
@pytest.mark.parametrize("policy", ["full", "auto"])
def test_a_file_without_the_rows_that_were_read(
    tmp_path: Path, policy: str, change: Callable[[Path], AbstractContextManager[None]]
) -> None:
    """Rows that a view has from changes and rows that are read again would not be the same."""
    given = {"trades": tables_of(tmp_path, 5, batches=2)["trades"]}
    plan = plan_query("SELECT sum(quantity) s FROM trades", {"trades": TABLES["trades"]})
    file = tmp_path / "trades" / "0000.parquet"
    started = LocalRun(plan, given, checkpoint=tmp_path / "c", outputs=["none"], refresh=policy)
    assert started.batch()
    words = "no longer exists" if change is without else "has been modified"
    with change(file):
        if policy == "full":
            with pytest.raises(RunFailed, match=words) as failed:
                started.batch()
            assert (failed.value.code, failed.value.path) == ("REFRESH_INPUT_GONE", file.as_uri())
            return
        assert started.batch()
    last = Checkpoint(tmp_path / "c").newest_snapshot()
    assert last is not None
    assert (last.refresh.operators, last.version) == ((), 2)
    assert "0000.parquet" in last.refresh.reason
    assert words in last.refresh.reason


def test_a_file_of_the_batch_may_be_newer_than_its_plan(tmp_path: Path) -> None:
    """Each batch reads its own files as they are, in both ways."""
    file = tmp_path / "a.parquet"
    file.write_bytes(b"abc")
    logged = ReadFile(file.as_uri(), 5)
    assert input_size({logged.uri}, [logged]) == (InputSize(3, 3), None)
    assert input_size((), [logged])[1] is not None


@pytest.mark.parametrize("policy", ["full", "auto"])
def test_a_run_that_dies_before_its_commit(tmp_path: Path, policy: str) -> None:
    """The batch is computed again from the previous version, without a trace of the first attempt."""
    given = {"trades": tables_of(tmp_path, 6, batches=4)["trades"]}
    plan = plan_query(QUERIES["stacked"], {"trades": TABLES["trades"]})
    run(plan, given, checkpoint=tmp_path / "i", outputs=["none"]).wait()
    options: dict[str, Any] = {"checkpoint": tmp_path / "c", "outputs": ["none"], "refresh": policy}
    with chosen_at_random(Random(1)):
        for _ in range(4):
            started = LocalRun(plan, given, **options)
            with (
                patch.object(Checkpoint, "publish", side_effect=KeyboardInterrupt),
                pytest.raises(KeyboardInterrupt),
            ):
                started.batch()
            assert LocalRun(plan, given, **options).batch()
        run(plan, given, **options).wait()
    assert changes_of(tmp_path / "c") == changes_of(tmp_path / "i")
    assert sa.open_state(tmp_path / "c").verify().ok
